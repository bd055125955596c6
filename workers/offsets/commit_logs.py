"""What groups have committed on all clusters and is not dealt with yet, as their `__consumer_offsets` tell it."""

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
"""By cluster, of each group and partition the latest commit; None: it is gone."""


class CommitLogs:
    """Used by one thread. A cluster that cannot be reached is left alone for a while; others do not wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._logs: dict[str, CommitLog] = {}
        self._pending: dict[str, dict[OffsetKey, OffsetValue | None]] = {}
        self._found_at: dict[str, dict[OffsetKey, tuple[int, int]]] = {}
        """(partition of `__consumer_offsets`, offset) of what is pending."""
        self._positions: dict[str, dict[int, int]] = {}
        self._from_beginning: dict[str, datetime] = {}
        """Since when."""
        self._away_until: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        """Why a cluster's commits cannot be followed now."""
        self._empty: set[str] = set()
        """Clusters on which nobody has committed anything yet: nothing waits for them."""

    def follow(self, known: Directory) -> None:
        """Take what has come."""
        for name in [name for name in self._logs if name not in known.clusters]:
            self._forget(name)
        for name, row in known.clusters.items():
            if self.waits(name):
                continue
            try:
                self._take(name, self._log(row))
                self._reasons.pop(name, None)
                self._empty.discard(name)
            except NoCommitsYet as error:
                self.is_away(name, error.reason, _NO_COMMITS_SECONDS)
                self._empty.add(name)
            except KafkaCallFailed as error:
                self.is_away(name, error.reason)

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
            log.warning("commits that cannot be read", cluster=cluster, records=taken.unreadable)
        pending, found_at = self._pending.setdefault(cluster, {}), self._found_at.setdefault(cluster, {})
        pending.update(taken.made)
        found_at.update(taken.found_at)
        for key in taken.set_again:
            if key in pending and pending[key] is None:
                del pending[key], found_at[key]
        self._positions.setdefault(cluster, {}).update(taken.positions)

    def ready(self) -> Ready:
        """What can be dealt with now.

        Nothing of a cluster whose log is still being read to its end: what comes there may be later.
        """
        return {cluster: made for cluster, made in self._pending.items() if made and self._is_caught_up(cluster)}

    def waiting(self) -> Waiting:
        """Commits that are not dealt with yet, and clusters that keep some back."""
        return Waiting(
            commits={cluster: len(made) for cluster, made in self._pending.items() if made},
            away={name: why for name, why in self._reasons.items() if name not in self._empty},
            reading=tuple(sorted(name for name, found in self._logs.items() if not found.caught_up)),
        )

    def waits(self, cluster: str) -> bool:
        """Whether a cluster was away a moment ago."""
        return time.monotonic() < self._away_until.get(cluster, 0.0)

    def is_away(self, cluster: str, reason: str, seconds: float = _AWAY_SECONDS) -> None:
        """It is asked again after a while, from where it was written down that reading goes on."""
        self._empty.discard(cluster)
        if self._reasons.get(cluster) != reason:
            log.warning("commits wait", cluster=cluster, reason=reason)
        self._reasons[cluster] = reason
        self._away_until[cluster] = time.monotonic() + seconds
        self._forget(cluster)

    def read_again(self, cluster: str) -> None:
        """All that is there, from the beginning: names are known that were not when it was read."""
        self._forget(cluster)
        self._from_beginning[cluster] = datetime.now(UTC)

    def read_whole(self) -> dict[str, datetime]:
        """Clusters whose log was read from its beginning again and dealt with, with the time when that began."""
        return {
            cluster: since
            for cluster, since in self._from_beginning.items()
            if self._is_caught_up(cluster) and not self._pending.get(cluster)
        }

    def whole_is_dealt_with(self, cluster: str) -> None:
        """From now on reading goes on where it was."""
        self._from_beginning.pop(cluster, None)

    def follows(self, cluster: str) -> bool:
        """Whether what is pending is what was read; not if it was forgotten meanwhile, and is read again."""
        return cluster in self._logs

    def knows_all(self, clusters: Iterable[str]) -> bool:
        """Whether the latest commits of all these clusters are known."""
        return all(self._is_caught_up(cluster) for cluster in clusters)

    def read_at(self, cluster: str, key: OffsetKey) -> int:
        """Where what is pending of a key stood, in its partition of `__consumer_offsets`."""
        return self._found_at[cluster][key][1]

    def _is_caught_up(self, cluster: str) -> bool:
        """Not one that is away: it was forgotten."""
        return cluster in self._logs and self._logs[cluster].caught_up

    def write_positions(self, connection: Connection, row: ClusterRow, left: Iterable[OffsetKey]) -> None:
        """Write down where reading goes on: behind all but what is left to be dealt with later."""
        positions = dict(self._positions[row.name])
        for key in left:
            number, offset = self._found_at[row.name][key]
            positions[number] = min(positions[number], offset)
        store.write_positions(connection, row.name, row.kafka_cluster_id or "", positions)

    def dealt_with(self, cluster: str, left: Mapping[OffsetKey, OffsetValue | None]) -> None:
        """After that is written down: what is left for later."""
        self._pending[cluster] = dict(left)
        self._found_at[cluster] = {key: self._found_at[cluster][key] for key in left}

    def _forget(self, cluster: str) -> None:
        """What was read and not written down is read again."""
        self._pending.pop(cluster, None)
        self._found_at.pop(cluster, None)
        self._positions.pop(cluster, None)
        broken = self._logs.pop(cluster, None)
        if broken is not None:
            broken.close()

    def close(self) -> None:
        """Give the connections back."""
        for found in self._logs.values():
            found.close()
