"""Commits of groups on all clusters that wait for processing, read from each cluster's `__consumer_offsets`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import structlog
from sqlalchemy import Connection, Engine

from backend.domain.offsets.group_log import OffsetKey, OffsetValue
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.commit_log import CommitLog, NoCommitsYet
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.offsets.offset_translation import Waiting
from workers.offsets import store
from workers.offsets.directory import Directory

log = structlog.get_logger("offsets")

_READ_SECONDS = 0.05
_AWAY_SECONDS = 15.0
_NO_COMMITS_SECONDS = 2.0


Ready = Mapping[str, Mapping[OffsetKey, OffsetValue | None]]
"""Latest commit of each group and partition, by cluster; None: the offset is gone."""


class CommitLogs:
    """Reader of all clusters, for one thread. An unreachable cluster is retried later; others do not wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._logs: dict[str, CommitLog] = {}
        self._pending: dict[str, dict[OffsetKey, OffsetValue | None]] = {}
        self._found_at: dict[str, dict[OffsetKey, tuple[int, int]]] = {}
        """(partition of `__consumer_offsets`, offset) of the pending commits."""
        self._positions: dict[str, dict[int, int]] = {}
        self._from_beginning: dict[str, datetime] = {}
        """Clusters read from the beginning again -> when that started."""
        self._away_until: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        """Clusters whose commits cannot be followed now -> reason."""
        self._empty: set[str] = set()
        """Clusters on which no group has committed anything yet: nothing waits for them."""

    def follow(self, known: Directory) -> None:
        """Read the new commits of every cluster."""
        for name in [name for name in self._logs if name not in known.clusters]:
            self._forget(name)
        for name, row in known.clusters.items():
            if self.is_paused(name):
                continue
            try:
                self._take(name, self._log(row))
                self._reasons.pop(name, None)
                self._empty.discard(name)
            except NoCommitsYet as error:
                self.pause_cluster(name, error.reason, _NO_COMMITS_SECONDS)
                self._empty.add(name)
            except KafkaCallFailed as error:
                self.pause_cluster(name, error.reason)

    def _log(self, row: ClusterRow) -> CommitLog:
        found = self._logs.get(row.name)
        if found is None:
            positions: dict[int, int] = {}
            if row.name not in self._from_beginning:
                with self._engine.connect() as connection:
                    positions = store.read_positions(connection, row.name, row.kafka_cluster_id or "")
            found = CommitLog(client_config(row.bootstrap_servers, row.properties), positions)
            self._logs[row.name] = found
        return found

    def _take(self, cluster: str, found: CommitLog) -> None:
        found.read(_READ_SECONDS)
        taken = found.take()
        if taken.unreadable:
            log.warning("unreadable commits", cluster=cluster, records=taken.unreadable)
        pending, found_at = self._pending.setdefault(cluster, {}), self._found_at.setdefault(cluster, {})
        pending.update(taken.made)
        found_at.update(taken.found_at)
        for key in taken.set_again:
            if key in pending and pending[key] is None:
                del pending[key], found_at[key]
        self._positions.setdefault(cluster, {}).update(taken.positions)

    def ready(self) -> Ready:
        """Return the commits that can be processed now.

        Clusters whose log is still being read to its end are left out: a later record may replace an earlier one.
        """
        return {cluster: made for cluster, made in self._pending.items() if made and self._is_caught_up(cluster)}

    def waiting(self) -> Waiting:
        """Return the commits that are not processed yet, and the clusters that hold some back."""
        return Waiting(
            commits={cluster: len(made) for cluster, made in self._pending.items() if made},
            away={name: why for name, why in self._reasons.items() if name not in self._empty},
            reading=tuple(sorted(name for name, found in self._logs.items() if not found.caught_up)),
        )

    def is_paused(self, cluster: str) -> bool:
        """Tell whether a cluster was unreachable a moment ago."""
        return time.monotonic() < self._away_until.get(cluster, 0.0)

    def pause_cluster(self, cluster: str, reason: str, seconds: float = _AWAY_SECONDS) -> None:
        """Pause a cluster; reading then resumes from the stored position."""
        self._empty.discard(cluster)
        if self._reasons.get(cluster) != reason:
            log.warning("commits of a cluster cannot be read", cluster=cluster, reason=reason)
        self._reasons[cluster] = reason
        self._away_until[cluster] = time.monotonic() + seconds
        self._forget(cluster)

    def read_again(self, cluster: str) -> None:
        """Read a cluster's log from the beginning again: names are known now that were not when it was read."""
        self._forget(cluster)
        self._from_beginning[cluster] = datetime.now(UTC)

    def fully_reread(self) -> dict[str, datetime]:
        """Return the clusters whose log was read and processed from its beginning again -> start time."""
        return {
            cluster: since
            for cluster, since in self._from_beginning.items()
            if self._is_caught_up(cluster) and not self._pending.get(cluster)
        }

    def finish_reread(self, cluster: str) -> None:
        """Resume from the stored positions from now on."""
        self._from_beginning.pop(cluster, None)

    def follows(self, cluster: str) -> bool:
        """Tell whether the pending commits are those that were read; not after the cluster was dropped."""
        return cluster in self._logs

    def knows_all(self, clusters: Iterable[str]) -> bool:
        """Tell whether the latest commits of all these clusters are known."""
        return all(self._is_caught_up(cluster) for cluster in clusters)

    def read_at(self, cluster: str, key: OffsetKey) -> int:
        """Return the offset of a key's pending commit in its partition of `__consumer_offsets`."""
        return self._found_at[cluster][key][1]

    def _is_caught_up(self, cluster: str) -> bool:
        """Tell whether a cluster's log was read to its end; an unreachable cluster's log was dropped."""
        return cluster in self._logs and self._logs[cluster].caught_up

    def write_positions(self, connection: Connection, row: ClusterRow, left: Iterable[OffsetKey]) -> None:
        """Store the positions at which reading resumes: after everything except what is left for later."""
        positions = dict(self._positions[row.name])
        for key in left:
            number, offset = self._found_at[row.name][key]
            positions[number] = min(positions[number], offset)
        store.write_positions(connection, row.name, row.kafka_cluster_id or "", positions)

    def mark_processed(self, cluster: str, left: Mapping[OffsetKey, OffsetValue | None]) -> None:
        """Keep what is left for later, once the rest is stored."""
        self._pending[cluster] = dict(left)
        self._found_at[cluster] = {key: self._found_at[cluster][key] for key in left}

    def _forget(self, cluster: str) -> None:
        """Drop a cluster's log; whatever was not stored is read again."""
        self._pending.pop(cluster, None)
        self._found_at.pop(cluster, None)
        self._positions.pop(cluster, None)
        broken = self._logs.pop(cluster, None)
        if broken is not None:
            broken.close()

    def close(self) -> None:
        """Close the connections."""
        for found in self._logs.values():
            found.close()
