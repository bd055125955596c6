"""Reads the commits of groups on a cluster as progress, which is what the translation to another cluster needs.

The translator writes the same for every commit, a second or more after it was made (`offsets/translator.py`). Here
it is available at once: from the translator's stored rows, or from the nearest known vector of the log and the
records since, read once for all groups.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.domain.offsets.commit_rules import CommittedOffset
from backend.domain.offsets.offset_map import NO_TIMESTAMP, GroupPartition, Progress
from backend.domain.records import incarnations
from backend.domain.records.incarnations import Incarnations
from backend.domain.records.log_index import Prefix
from backend.kafka.logs.log_ranges import LogRange
from workers.distribution import checkpoints
from workers.switches import commit_rows, task_positions
from workers.switches.commit_rows import CommitRow, CommitRows
from workers.switches.estate_view import EstateView
from workers.switches.prefixes import AskedPrefixes, PrefixReader, PrefixState, bases_of
from workers.switches.topology import Partition, Place, Topology

_TIMES_BEFORE, _TIMES_BEHIND = 1_000, 20_000
"""Offsets read before and behind a commit for timestamps, where nothing else gives the group's progress."""


@dataclass(frozen=True)
class _Log:
    partition: Partition
    place: Place
    incarnations: Incarnations
    low: int
    end: int
    """End of the log for readers of decided transactions."""
    high: int

    def at(self, offset: int) -> int:
        """Return an offset within the log: a group may have committed one behind the end."""
        return min(offset, max(self.low, self.end))


class ProgressReader:
    """Reads the progress of one cluster's groups; used by one thread."""

    def __init__(self, estate: EstateView, cluster: str) -> None:
        self._estate, self._cluster = estate, cluster
        settings = estate.settings
        self._headers = (settings.copy_flags_header, settings.copy_origin_header)
        self._known: dict[Partition, tuple[Incarnations, list[Prefix]]] = {}
        """Vectors computed in the last read; the next one continues from there."""
        self._times: dict[tuple[Partition, int], int] = {}
        """(partition, offset) -> timestamp of the last record before the offset."""
        self._noticed: dict[GroupPartition, tuple[int, int]] = {}
        """Group and partition -> (offset, time first observed in ms) of commits without a known commit time."""

    def read(
        self, topology: Topology, committed: Mapping[GroupPartition, CommittedOffset], generation: int
    ) -> dict[GroupPartition, Progress]:
        """Return the progress of groups with a commit; leave out unreadable logs. Raises KafkaCallFailed."""
        logs = self._logs(topology, {(each.stream_name, each.partition) for each in committed})
        with self._estate.engine.connect() as connection:
            incarnations = {partition: log.incarnations[-1][1] for partition, log in logs.items()}
            rows = commit_rows.read(connection, self._cluster, incarnations)
        asked: dict[Partition, set[int]] = {partition: set() for partition in logs}
        for group_partition, stands in committed.items():
            partition = (group_partition.stream_name, group_partition.partition)
            if partition in logs and stands.offset is not None:
                asked[partition].add(logs[partition].at(stands.offset))
        found: dict[tuple[Partition, int], PrefixState] = {}
        if self._estate.settings.origin_header:
            found = self._vectors(topology, logs, asked, rows)
        progress: dict[GroupPartition, Progress] = {}
        for group_partition, stands in committed.items():
            log, offset = logs.get((group_partition.stream_name, group_partition.partition)), stands.offset
            if log is None or offset is None:
                continue
            row = rows.by_follower.get(group_partition)
            row = row if row is not None and row.offset == offset else None
            committed_at_ms = self._committed_at_ms(group_partition, offset, stands, row)
            if self._estate.settings.origin_header:
                known = found[log.partition, log.at(offset)]
                progress[group_partition] = self._by_vector(
                    topology, log, offset, known, row, committed_at_ms, generation
                )
            else:
                progress[group_partition] = self._by_time(
                    topology, log, group_partition, offset, row, committed_at_ms, generation
                )
        return progress

    def _committed_at_ms(
        self, group_partition: GroupPartition, offset: int, stands: CommittedOffset, row: CommitRow | None
    ) -> int:
        """Return the commit time; if it is unknown, the time of the first observation, which is later."""
        if stands.mark is not None:
            return stands.mark.committed_at_ms
        if row is not None:
            return row.committed_at_ms
        if self._noticed.get(group_partition, (-1, 0))[0] != offset:
            self._noticed[group_partition] = (offset, int(time.time() * 1000))
        return self._noticed[group_partition][1]

    def _logs(self, topology: Topology, partitions: set[Partition]) -> dict[Partition, _Log]:
        """Read the present beginnings and ends of the logs."""
        wanted = {}
        for stream, number in partitions:
            place = topology.place(self._cluster, (stream, number))
            incarnations = topology.known.incarnations(self._cluster, stream, number)
            if place is not None and incarnations is not None:
                wanted[place] = ((stream, number), incarnations)
        clients = self._estate.clients(topology.clusters[self._cluster])
        high, ends = clients.ends(wanted, undecided_too=True), clients.ends(wanted)
        return {
            partition: _Log(partition, place, incarnations, *ends[place], high[place][1])
            for place, (partition, incarnations) in wanted.items()
            if place in ends and place in high
        }

    def _vectors(
        self,
        topology: Topology,
        logs: Mapping[Partition, _Log],
        asked: Mapping[Partition, set[int]],
        rows: CommitRows,
    ) -> dict[tuple[Partition, int], PrefixState]:
        incarnations = {partition: log.incarnations for partition, log in logs.items()}
        positions = task_positions.read(topology, self._estate, self._cluster, incarnations)
        with self._estate.engine.connect() as connection:
            noted = checkpoints.read(connection, self._cluster, list(logs))
        wanted = []
        for partition, log in logs.items():
            before = self._known.get(partition)
            bases = [
                *(before[1] if before is not None and before[0] == log.incarnations else ()),
                *rows.bases.get(partition, ()),
                *positions.get(partition, ()),
                *bases_of(noted.get(partition, ()), log.incarnations),
            ]
            wanted.append(
                AskedPrefixes(
                    partition=partition,
                    topic=log.place[0],
                    incarnations=log.incarnations,
                    low=log.low,
                    offsets=asked[partition],
                    bases=[base for base in bases if base.offset <= log.end],
                    told=rows.told.get(partition, ()),
                )
            )
        row = topology.clusters[self._cluster]
        reader = PrefixReader(self._estate.clients(row).reader, row.number, self._headers)
        found = reader.read(wanted, topology.known)
        known: dict[Partition, list[Prefix]] = {partition: [] for partition in logs}
        told = {place: each.timestamp_ms for place, each in found.items() if each.timestamp_ms is not None}
        self._times = {place: at for place, at in self._times.items() if place in found} | told
        for (partition, offset), stands in found.items():
            known[partition].append(Prefix(offset=offset, seen=stands.seen, whole=stands.whole))
        self._known = {partition: (logs[partition].incarnations, some) for partition, some in known.items()}
        return found

    def _by_vector(
        self,
        topology: Topology,
        log: _Log,
        offset: int,
        known: PrefixState,
        row: CommitRow | None,
        committed_at_ms: int,
        generation: int,
    ) -> Progress:
        timestamp = row.timestamp_ms if row is not None else self._times.get((log.partition, log.at(offset)))
        number = topology.clusters[self._cluster].number
        return Progress(
            timestamp_ms=timestamp,
            committed_at_ms=committed_at_ms,
            generation=generation,
            vector=known.seen,
            offset=offset,
            passed=incarnations.passed(number, log.incarnations, log.at(offset), known.seen),
            # Records of open transactions may still be committed or aborted.
            whole=known.whole and not log.end < offset <= log.high,
            topic_incarnation=topology.known.streams[log.partition[0]].incarnations[self._cluster],
        )

    def _by_time(
        self,
        topology: Topology,
        log: _Log,
        group_partition: GroupPartition,
        offset: int,
        row: CommitRow | None,
        committed_at_ms: int,
        generation: int,
    ) -> Progress:
        """Return the progress without origins: the timestamp less the environment's margin, as the translator."""
        told = () if row is None else (row.timestamp_ms, row.safe_timestamp_ms)
        times = [each for each in told if each is not None and each != NO_TIMESTAMP]
        if not times:
            times = self._times_around(topology, log, offset)
        rules = topology.known.rules[group_partition.tenant, group_partition.instance, group_partition.environment]
        return Progress(
            timestamp_ms=min(times) - rules.margin_ms if times else None,
            committed_at_ms=committed_at_ms,
            generation=generation,
            vector=None,
            offset=offset,
        )

    def _times_around(self, topology: Topology, log: _Log, offset: int) -> list[int]:
        """Return the timestamp of the last record before an offset, and the smallest one read behind it."""
        first = max(log.low, log.at(offset) - _TIMES_BEFORE)
        end = min(log.end, log.at(offset) + _TIMES_BEHIND)
        read = LogRange(log=0, topic=log.place[0], partition=log.place[1], first=first, end=end)
        last: Sequence[int] = ()
        behind: list[int] = []
        clients = self._estate.clients(topology.clusters[self._cluster])
        for _, messages in clients.reader.messages([read]):
            for message in messages:
                timestamp, at = message.timestamp()[1], message.offset() or 0
                if timestamp == NO_TIMESTAMP:
                    continue
                if at < offset:
                    last = (timestamp,)
                else:
                    behind.append(timestamp)
        if not last and first > log.low:
            return []  # no timestamp was found: start from the beginning, so that nothing is skipped
        return [*last, *([min(behind)] if behind else ())]
