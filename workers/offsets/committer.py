"""The offset committer of one cluster: groups with later progress elsewhere continue from there on this cluster.

It reads the map on its cluster, reads the group's committed offset, and sets the offset from which the group
continues: never one that skips a record that the group has not read (`domain/offsets/target_log.py`), never for a
group with active members here, never backwards (`domain/offsets/commit_rules.py`). Results are stored, so that a
restart does not repeat them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from backend.cluster_requests.offset_lock import setting_offsets
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.offsets.offset_map import GroupPartition, Progress, newest
from backend.domain.tenants.tenant import MARGIN
from backend.kafka.base.client_config import client_config
from backend.kafka.groups.group_offsets import GroupOffsets
from backend.kafka.groups.map_topic import MapReader, MapRow
from backend.kafka.logs.log_ranges import RangeReader
from backend.queries.clusters.clusters import ClusterRow
from backend.settings import Settings
from workers.distribution import checkpoints
from workers.offsets.applied import Applied, AppliedOffsets, LostOffsets, State
from workers.offsets.directory import Directories, Directory
from workers.offsets.offset_choice import Chooser
from workers.offsets.offset_setter import DueOffset, OffsetSetter
from workers.offsets.target_logs import Partition, TargetLogs

_LEAST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.1, 1.0
"""Limits of a wait for map records, which end it; the longest bounds how late an expiry or a lost offset is
noticed."""
_MOST_AT_ONCE = 500
"""Most group partitions processed in one pass."""
_FIRST_PAUSE_SECONDS = 1.0
_TURN_SECONDS = 3.0
_LONGEST_PAUSE_SECONDS = 20.0
_REST, _LONGEST_REST_SECONDS = 10.0, 60.0
"""Pause before unsettled offsets are checked again, as a multiple of the last pass's duration: others get their
turn."""
_SWEEP_SECONDS = 10.0


@dataclass(frozen=True)
class _Check:
    """Time of a group partition's next check, and the pause before it."""

    due: float
    pause_seconds: float = 0.0


class Committer:
    """Committer for one thread, which calls `tick` in a loop. Every method raises KafkaCallFailed."""

    def __init__(
        self, engine: Engine, settings: Settings, directories: Directories, row: ClusterRow, lost: LostOffsets
    ) -> None:
        self._lost = lost
        self._engine, self._directories, self._here = engine, directories, row.name
        self._renew_ms = settings.offsets_renew_seconds * 1000
        config = client_config(row.bootstrap_servers, row.properties)
        self._map_topic = MapReader(config, settings.offsets_topic, settings.copy_flags_header)
        self._reader = RangeReader(config)
        offsets = GroupOffsets(config)
        headers = (settings.copy_flags_header, settings.copy_origin_header)
        logs = TargetLogs(self._reader, row.number, headers)
        chooser = Chooser(row.name, offsets, logs, self._checkpoints)
        self._setter = OffsetSetter(row.name, offsets, chooser, lambda: setting_offsets(engine, row.name))
        self._applied = AppliedOffsets(engine, row.name)
        self._map: dict[GroupPartition, dict[str, MapRow]] = {}
        self._checks: dict[GroupPartition, _Check] = {}
        self._swept_at = 0.0
        self._swept_position = -1
        """Position of the event log at the last sweep: re-created topics are recorded there."""

    def tick(self) -> int:
        """Read the map, then process what is due; return how many group partitions were checked."""
        for row in self._map_topic.read(self._wait_seconds()):
            self._take(row)
        if not self._map_topic.caught_up:
            return 0  # a later record may be newer
        for group_partition in self._lost.take(self._here):
            self._applied.forget(group_partition)
            self._checks[group_partition] = _Check(0.0)
        known = self._directories.read()
        self._sweep(known)
        due_offsets = self._due(known)
        if due_offsets:
            started = time.monotonic()
            results = self._setter.set_due(due_offsets, self._directories.read)
            pause_seconds = min(_REST * (time.monotonic() - started), _LONGEST_REST_SECONDS)
            for group_partition, done in results.items():
                self._note(group_partition, done, pause_seconds)
        self._applied.save()
        return len(due_offsets)

    def _wait_seconds(self) -> float:
        """Return the time until something is due: an idle cluster must cost next to nothing."""
        due = min((check.due for check in self._checks.values()), default=math.inf)
        return min(max(due - time.monotonic(), _LEAST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)

    def _take(self, row: MapRow) -> None:
        by_cluster = self._map.setdefault(row.group_partition, {})
        by_cluster[row.cluster] = row
        if row.progress is None:
            del by_cluster[row.cluster]
        if not by_cluster:
            del self._map[row.group_partition]
        self._checks[row.group_partition] = _Check(0.0)

    def _sweep(self, known: Directory) -> None:
        """Schedule checks of expiring offsets, and of those that changed rules or topics allow to advance."""
        if time.monotonic() - self._swept_at < _SWEEP_SECONDS:
            return
        self._swept_at = time.monotonic()
        for group_partition, row in self._applied.items():
            if group_partition.stream_name not in known.streams:
                self._applied.forget(group_partition)
            elif group_partition not in self._checks and not self._holds(group_partition, row, known):
                self._checks[group_partition] = _Check(0.0)
        if known.position == self._swept_position:
            return
        self._swept_position = known.position
        for group_partition in self._map:
            if self._applied.get(group_partition) is None and self._in_other_topic(group_partition, known):
                self._checks.setdefault(group_partition, _Check(0.0))

    def _due(self, known: Directory) -> list[DueOffset]:
        """Return the work that is due, the longest waiting first."""
        now, found = time.monotonic(), []
        due = [group_partition for group_partition, check in self._checks.items() if check.due <= now]
        for group_partition in sorted(due, key=lambda each: self._checks[each].due):
            due_offset = self._due_offset(group_partition, known)
            if due_offset is not None:
                found.append(due_offset)
            if len(found) == _MOST_AT_ONCE:
                break
        return found

    def _due_offset(self, group_partition: GroupPartition, known: Directory) -> DueOffset | None:
        """Return the work for a group partition; drop it from the schedule if there is none."""
        rows = self._map.get(group_partition, {})
        found = newest((cluster, row.progress) for cluster, row in rows.items() if row.progress is not None)
        before = self._applied.get(group_partition)
        stream = known.streams.get(group_partition.stream_name)
        if found is None or stream is None or self._is_done(group_partition, found, before, known):
            del self._checks[group_partition]
            return None
        groups = known.groups.get(self._here)
        if groups is None or self._here not in stream.incarnations:
            # The stream's topic does not exist here yet.
            self._again(group_partition)
            return None
        return DueOffset(
            group_partition=group_partition,
            group=groups.technical_group(group_partition),
            topic=stream.technical_names[self._here],
            newest=found,
            flags=rows[found[0]].flags,
            own=self._own(group_partition),
            exact=known.is_exact(group_partition),
            before=before,
            renew=self._is_old(before),
            in_other_topic=self._in_other_topic(group_partition, known),
            incarnation=self._incarnation(group_partition, known),
        )

    def _is_done(
        self,
        group_partition: GroupPartition,
        found: tuple[str, Progress],
        before: Applied | None,
        known: Directory,
    ) -> bool:
        """Tell whether nothing is to be done, without reading the group's committed offset."""
        if before is None:
            # An own offset needs nothing, unless another offset was set before, or its topic is gone.
            return found[0] == self._here and not self._in_other_topic(group_partition, known)
        return (
            before.is_of(*found)
            and before.state == State.APPLIED
            and bool(before.settled)
            and self._holds(group_partition, before, known)
        )

    def _holds(self, group_partition: GroupPartition, row: Applied, known: Directory) -> bool:
        """Tell whether the last result is still the best possible."""
        return not (
            self._is_old(row)
            or self._rules_changed(group_partition, row, known)
            or row.incarnation != self._incarnation(group_partition, known)
        )

    def _incarnation(self, group_partition: GroupPartition, known: Directory) -> int | None:
        """Return the incarnation of the newest records of the log here."""
        incarnations = known.incarnations(self._here, group_partition.stream_name, group_partition.partition)
        return None if incarnations is None else incarnations[-1][1]

    def _own(self, group_partition: GroupPartition) -> Progress | None:
        """Return the group's progress made on this cluster."""
        row = self._map.get(group_partition, {}).get(self._here)
        return row.progress if row is not None and isinstance(row.progress, Progress) else None

    def _in_other_topic(self, group_partition: GroupPartition, known: Directory) -> bool:
        """Tell whether the group's progress here was made in a topic that has been re-created since."""
        own = self._own(group_partition)
        return own is not None and known.has_newer_topic(
            self._here, group_partition.stream_name, own.topic_incarnation
        )

    def _is_old(self, row: Applied | None) -> bool:
        """Tell whether the offset must be set again before the cluster expires it.

        The group's own commit in a topic that was re-created is not renewed: like any commit, it may expire.
        """
        if row is None or row.applied_at_ms is None or row.origin_cluster == self._here:
            return False
        return time.time() * 1000 - row.applied_at_ms > self._renew_ms

    def _rules_changed(self, group_partition: GroupPartition, row: Applied, known: Directory) -> bool:
        """Tell whether the rules now allow a later offset. An earlier one has to wait for the next commit."""
        rows = self._map.get(group_partition, {})
        progress = rows[row.origin_cluster].progress if row.origin_cluster in rows else None
        has_vector = isinstance(progress, Progress) and progress.vector is not None
        return row.mode == MARGIN and has_vector and known.is_exact(group_partition)

    def _note(self, group_partition: GroupPartition, row: Applied | None, pause_seconds: float) -> None:
        """Store a result and schedule the next check.

        `pause_seconds` is the least pause before an unsettled offset is checked again: it may never settle, and a
        search in a long log takes long.
        """
        if row is None:
            self._applied.forget(group_partition)
        else:
            self._applied.put(group_partition, row)
        if row is None or (row.state == State.APPLIED and row.settled):
            self._checks.pop(group_partition, None)
        else:
            # Work that waits for other work waits for its turn, without a growing pause.
            longest = _TURN_SECONDS if row.state == State.WAITING else _LONGEST_PAUSE_SECONDS
            self._again(group_partition, longest, pause_seconds if row.state == State.APPLIED else 0.0)

    def _again(
        self,
        group_partition: GroupPartition,
        longest_seconds: float = _LONGEST_PAUSE_SECONDS,
        least_seconds: float = 0.0,
    ) -> None:
        """Schedule the next check after a growing pause."""
        check = self._checks.get(group_partition, _Check(0.0))
        pause = min(max(check.pause_seconds * 1.5, _FIRST_PAUSE_SECONDS), longest_seconds)
        pause = max(pause, least_seconds)
        self._checks[group_partition] = _Check(time.monotonic() + pause, pause)

    def _checkpoints(self, places: Collection[Partition]) -> Mapping[Partition, Sequence[Checkpoint]]:
        with self._engine.connect() as connection:
            return checkpoints.read(connection, self._here, places)

    def close(self) -> None:
        """Close the connections."""
        self._map_topic.close()
        self._reader.close()
