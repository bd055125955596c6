"""Observer of the consumer groups of all online clusters; it stores its last observation of each.

An observation takes a few requests for each few hundred groups: states, members and committed offsets, then the
ends of all logs that groups read. Offsets are read before ends: in the other order, a quick group would seem to be
ahead of its log. Nothing here is an event: what is missed now is observed next time. Two processes that observe at
the same time, because a lease moved, do no harm.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.domain.switch.cluster_switch import PHASE_EVENTS
from backend.kafka.groups.cluster_clients import ClusterClients
from backend.kafka.groups.group_states import GroupsSeen, GroupStates
from backend.queries.base.events import newest_position
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.offsets import group_store
from backend.queries.offsets.observed_groups import GroupRow
from backend.settings import Settings
from workers.cluster_watch import ClusterWatch
from workers.offsets.group_names import NO_NAMES, GroupNames, read_names
from workers.offsets.group_tracks import GroupTracks
from workers.one_thread import OneThread

log = structlog.get_logger("groups")

GROUPS_A_SECOND = 200
"""Groups of one cluster that are observed per second, on average: each takes some 200 microseconds with four
partitions, so at most a twentieth of a processor's time."""
ROWS_AT_ONCE = 500
TOUCH_SECONDS = 45.0
"""Time after which a row in which nothing changed gets the time of the newest observation."""
_ALONE_SECONDS = 30.0
"""Time between two observations, beyond their interval, from which another process may have observed as well."""
_NAMES_SECONDS = 5.0
"""Minimum interval between two readings of names."""
_PAUSES = 20
"""Minimum interval between two readings of names, and between two observations of a cluster, as a multiple of a
reading's duration and of an observation's processor time."""
_TIMES_A_PROBE = 3
"""Factor by which an answer may take longer than a probe: it covers hundreds of groups."""


class GroupObserver:
    """Observer of one process; `tick` is called about once a second and waits for no cluster and no database."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._reading = OneThread("group-names")
        self._position: int | None = None
        self._names_due = float("-inf")
        self._news: _Known | None = None
        """Clusters and names that were read and are not watched yet."""
        self._watches: dict[str, ClusterGroupsWatch] = {}

    def tick(self) -> None:
        """Start an observation of each cluster that is due, unless one is under way."""
        # Nothing is taken while the thread may still set it.
        if not self._reading.is_working:
            if self._news is not None:
                self._watch(self._news)
                self._news = None
            if time.monotonic() >= self._names_due:
                # For thousands of streams, names take longer than other work of this thread should wait.
                self._reading.begin(self._read)
        for watch in self._watches.values():
            watch.begin_if_due()

    def _read(self) -> None:
        began = time.monotonic()
        try:
            self._read_news()
        except DomainError as error:
            log.warning("groups: names not read", reason=error.detail)
        except Exception:
            log.exception("groups: names not read")
        finally:
            self._names_due = began + max(_NAMES_SECONDS, _PAUSES * (time.monotonic() - began))

    def _read_news(self) -> None:
        with self._engine.begin() as connection:
            # The position is read first: events that arrive in between are read twice, never missed.
            position = newest_position(connection, but=PHASE_EVENTS)
            if position == self._position:
                return
            rows = list_clusters(connection)
            names = read_names(connection)
            group_store.delete_except(connection, [row.name for row in rows])
        self._news, self._position = _Known(rows, names), position

    def _watch(self, news: _Known) -> None:
        watched: dict[str, ClusterGroupsWatch] = {}
        for row in news.clusters:
            # The reconcile loop finds out when a cluster that does not answer is back.
            if row.state == "online":
                known = self._watches.get(row.name)
                same = known is not None and known.same(row)
                watch = known if known and same else ClusterGroupsWatch(row, self._engine, self._settings)
                watch.names = news.names.get(row.name, NO_NAMES)
                watched[row.name] = watch
        for name, watch in self._watches.items():
            if watched.get(name) is not watch:
                watch.end()
        self._watches = watched


@dataclass(frozen=True)
class _Known:
    """Clusters, and the names on them."""

    clusters: Sequence[ClusterRow]
    names: Mapping[str, GroupNames]


@dataclass(frozen=True, kw_only=True)
class _Observed:
    """One observation of a cluster's groups, to be stored."""

    seen: GroupsSeen
    rows: Iterator[GroupRow]
    tracks: GroupTracks
    at: datetime


class ClusterGroupsWatch(ClusterWatch):
    """The groups of one cluster."""

    def __init__(self, row: ClusterRow, engine: Engine, settings: Settings) -> None:
        super().__init__("groups", row, engine, settings)
        self._states: GroupStates | None = None
        self._clients: ClusterClients | None = None
        self._tracks: GroupTracks | None = None
        self._stored: dict[str, tuple[int, float]] = {}
        """Hash of what is stored of each group, and when its row was written, by the monotonic clock."""
        self._stored_at = float("-inf")
        self._groups = 0
        self._observed: _Observed | None = None
        self.names: GroupNames = NO_NAMES

    @property
    def _pause(self) -> float:
        # Groups of many partitions, or names that many environments may claim, take longer.
        measured = _PAUSES * self._cpu_seconds
        return max(self._settings.groups_look_seconds, self._groups / GROUPS_A_SECOND, measured)

    def _store_reason(self, reason: str) -> None:
        with self._engine.begin() as connection:
            group_store.store_failure(connection, self._row.name, reason)

    def observe(self) -> None:
        """Observe the cluster once. Raises KafkaCallFailed, DomainError."""
        states, clients, tracks = self._opened()
        seen = states.observe(self._settings.groups_most)
        self._groups = len(seen.groups)
        places = {
            place
            for group in seen.groups.values()
            for place in (*group.committed, *(each for member in group.members for each in member.partitions))
        }
        ends = clients.ends(places, undecided_too=True)
        with self._engine.connect() as connection:
            at = group_store.database_time(connection)
        at_ms = round(1000 * at.timestamp())
        tracks.observe_ends(ends, at_ms)
        rows = tracks.rows(seen.groups.values(), ends, self.names, at_ms)
        self._observed = _Observed(seen=seen, rows=rows, tracks=tracks, at=at)

    def store(self) -> None:
        """Store the groups that changed, while their rows are computed. Raises DomainError."""
        assert self._observed is not None
        observed, self._observed = self._observed, None
        self._store(observed.seen, observed.rows, observed.tracks, observed.at)

    def _opened(self) -> tuple[GroupStates, ClusterClients, GroupTracks]:
        row, seconds = self._row, _TIMES_A_PROBE * self._settings.probe_timeout_seconds
        if self._states is None:
            self._states = GroupStates(row.bootstrap_servers, row.properties, seconds)
        if self._clients is None:
            self._clients = ClusterClients(row.name, row.bootstrap_servers, row.properties)
        if self._tracks is None:
            with self._engine.connect() as connection:
                self._tracks = GroupTracks(row.name, group_store.stored_groups(connection, row.name))
        return self._states, self._clients, self._tracks

    def _store(self, seen: GroupsSeen, rows: Iterator[GroupRow], tracks: GroupTracks, at: datetime) -> None:
        now = time.monotonic()
        if now - self._stored_at > _ALONE_SECONDS + self._pause:
            # Another process may have stored other rows since.
            self._stored = {}
        stored: dict[str, tuple[int, float]] = {}
        old: list[str] = []
        # Few at a time, so that neither rows nor transactions become large.
        while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
            changed = []
            for row in some:
                name, digest = row.technical_group, _hash(row)
                before, written = self._stored.get(name, (None, now))
                if before != digest:
                    changed.append(row)
                    written = now
                elif now - written >= TOUCH_SECONDS:
                    old.append(name)
                    written = now
                stored[name] = digest, written
            if changed:
                with self._engine.begin() as connection:
                    group_store.store_rows(connection, changed)
        # Groups whose broker does not answer stay as they were.
        silent = tracks.names - stored.keys() if seen.reason is not None else frozenset()
        kept = stored.keys() | silent
        with self._engine.begin() as connection:
            group_store.touch_groups(connection, self._row.name, old, at)
            group_store.store_groups(
                connection,
                self._row.name,
                (),
                at,
                unchanged=kept,
                reason=seen.reason,
                truncated=seen.truncated,
            )
        self._stored, self._stored_at = stored, now
        tracks.forget_except(kept)

    def _close(self) -> None:
        if self._states is not None:
            self._states.close()
            self._states = None
        if self._clients is not None:
            self._clients.close()
            self._clients = None


def _hash(row: GroupRow) -> int:
    """Return a hash of everything that is stored of a group but the time of the observation."""
    names = (row.state, row.protocol, row.place, row.group, row.reason, tuple(row.tenants))
    return hash((names, row.diagnosis, row.since_ms, row.members, row.partitions))
