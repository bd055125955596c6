"""A cluster's logs as scanned by its committer, to find the first record that a group has not read.

A log is scanned once: from the last checkpoint before which the groups in question have read everything, to its
end, and from there as it grows; three numbers are held for each record. For a group that is far behind a separate
search runs, together with its neighbours; it ends where they are found and holds only what they have not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from backend.domain.distribution import rescan
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.offsets import target_log
from backend.domain.offsets.offset_map import Progress
from backend.domain.offsets.target_log import ChosenOffset, TargetLog
from backend.domain.records import origin
from backend.domain.records.incarnations import Incarnations
from backend.domain.records.log_prefix import LogPrefix
from backend.domain.records.origin import Vector
from backend.kafka.logs.log_ranges import LogRange, LogRows, OriginContext, RangeReader, prefix, row_adder
from workers.offsets.directory import Directory

HELD_RECORDS = 200_000
"""Most records held of one log; twice as many for a while."""
MOST_SEARCHED = 1_000_000
"""Most records held in one search for groups far behind: then it ends, and continues with the next one."""
HELD_IN_ALL = 2_000_000
"""Most records held of all logs, about 50 MB."""

Partition = tuple[str, int]
"""(stream, partition)."""


@dataclass(frozen=True, kw_only=True)
class TargetPartition:
    """A log with its current start offset and end, and checkpoints at which a scan may begin."""

    place: Partition
    topic: str
    incarnations: Incarnations
    low: int
    end: int
    checkpoints: Sequence[Checkpoint]


@dataclass
class _Scan:
    log: TargetLog
    judge: LogPrefix
    origin_context: OriginContext


class ScanMethod(Enum):
    """Method of finding the first record that a group has not read."""

    HELD = 1
    """Use the scan that is held."""
    SCAN = 2
    """Scan from a checkpoint near the log's end; the scan is then held."""
    SEARCH = 3
    """Search separately: the group is far behind."""


class TargetLogs:
    """Scanned logs of one cluster; used by one thread."""

    def __init__(
        self,
        reader: RangeReader,
        number: int,
        headers: tuple[str, str],
    ) -> None:
        """`number` is the cluster's number; `headers` are the names of the headers for flags and origin."""
        self._reader, self._number, self._headers = reader, number, headers
        self._held: dict[Partition, _Scan] = {}

    def method_for(self, one: TargetPartition, vector: Vector) -> ScanMethod:
        """Return the method for a vector."""
        held = self._usable(one)
        if held is not None and held.log.reaches_back_to(vector):
            return ScanMethod.HELD
        return ScanMethod.SCAN if one.end - self._start(one, vector).offset <= HELD_RECORDS else ScanMethod.SEARCH

    def scan(
        self, asked: Iterable[tuple[TargetPartition, Sequence[Vector]]], known: Directory
    ) -> Iterator[TargetLog]:
        """Scan each log to its end, from an offset before which all of its vectors cover everything.

        The vectors of one log have the same method, which is not SEARCH. Logs with little to read are read
        together. Raises KafkaCallFailed.
        """
        some: list[tuple[TargetPartition, _Scan]] = []
        wanted: list[Sequence[Vector]] = []
        left = 0
        for one, vectors in asked:
            scanned = self._scan_of(one, vectors, known)
            some.append((one, scanned))
            wanted.append(vectors)
            left += one.end - scanned.log.end
            if left > HELD_RECORDS:
                yield from self._scanned(some, wanted)
                some, wanted, left = [], [], 0
        yield from self._scanned(some, wanted)

    def _scan_of(self, one: TargetPartition, vectors: Sequence[Vector], known: Directory) -> _Scan:
        """Return the held scan, or a new one.

        The scan is not held again before it succeeds: while it runs, the judge may have seen records that the log
        lacks.
        """
        held = self._usable(one)
        start = min((self._start(one, vector) for vector in vectors), key=lambda at: at.offset)
        if held is not None and not held.log.knows_all_from(held.log.first) and start.offset > held.log.first:
            held = None  # records without origin may lie before what all groups have read by now
        if held is None or not all(held.log.reaches_back_to(vector) for vector in vectors):
            held = self._begun(one, start, known)
        self._held.pop(one.place, None)
        held.judge.known_origins = known.known_origins
        held.judge.holes = known.holes.get(one.place, frozenset())
        return held

    def _scanned(
        self, some: Sequence[tuple[TargetPartition, _Scan]], wanted: Sequence[Sequence[Vector]]
    ) -> Iterator[TargetLog]:
        for _ in self._records(some):
            pass
        for (one, held), vectors in zip(some, wanted, strict=True):
            held.log.scanned_to(one.end)
            if held.log.size > HELD_RECORDS:
                held.log.forget_before(min(held.log.first_uncovered(vector) for vector in vectors))
            if held.log.size <= 2 * HELD_RECORDS:
                self._held[one.place] = held
                self._forget_oldest()
            yield held.log

    def _forget_oldest(self) -> None:
        """Drop the least recently used logs if too many records are held."""
        most = sum(held.log.size for held in self._held.values()) - HELD_IN_ALL
        for place in list(self._held)[:-1]:
            if most <= 0:
                return
            most -= self._held.pop(place).log.size

    def neighbours(self, one: TargetPartition, reads: Sequence[Vector]) -> list[int]:
        """Return the indices of the vectors that are searched in one scan.

        The scan begins for the vector that is furthest behind, and holds everything that one of them has not read.
        """
        starts = [self._start(one, read).offset for read in reads]
        last = min(starts, default=0) + HELD_RECORDS
        return [index for index, start in enumerate(starts) if start <= last]

    def search(self, one: TargetPartition, progresses: Sequence[Progress], known: Directory) -> list[ChosenOffset]:
        """Find the offsets from which groups that are far behind continue.

        The scan ends at the log's end, or once each group's vector was seen and a record that it has not read.
        Raises KafkaCallFailed.
        """
        start = min((self._start(one, each.read) for each in progresses), key=lambda at: at.offset)
        scanned, found, left = self._begun(one, start, known), {}, dict(enumerate(progresses))
        for _ in self._records([(one, scanned)]):
            end = scanned.log.end
            seen = scanned.log.seen_at(end)
            for index, each in list(left.items()):
                # All that it has read was seen, so every record that it reads again is counted. Records that
                # passed a cluster where nothing is produced will never be seen.
                if scanned.log.first_uncovered(each.read) < end and origin.covers(
                    seen, each.read, each.vector or ()
                ):
                    found[index] = first_unread(each, scanned.log, one.low)
                    del left[index]
            if not left:
                break
            if scanned.log.size > MOST_SEARCHED:
                return [
                    found.get(index) or _so_far(each, scanned.log, one) for index, each in enumerate(progresses)
                ]
            scanned.log.forget_before(min(scanned.log.first_uncovered(each.read) for each in left.values()))
        else:
            scanned.log.scanned_to(one.end)
        for index, each in left.items():
            found[index] = first_unread(each, scanned.log, one.low)
        return [found[index] for index in range(len(progresses))]

    def _usable(self, one: TargetPartition) -> _Scan | None:
        held = self._held.get(one.place)
        if held is None or held.origin_context.incarnations != one.incarnations or held.log.end > one.end:
            return None
        # A scan that is far behind would have to read, and hold, everything since.
        return held if one.end - held.log.end <= HELD_RECORDS else None

    def _records(self, scans: Sequence[tuple[TargetPartition, _Scan]]) -> Iterator[None]:
        """Scan on to the logs' ends; yield after each chunk."""
        ranges = [
            LogRange(
                log=index,
                topic=one.topic,
                partition=one.place[1],
                first=max(scanned.log.end, one.low),
                end=one.end,
            )
            for index, (one, scanned) in enumerate(scans)
        ]
        rows = LogRows()
        adders = [row_adder(rows, 0, scanned.judge, scanned.origin_context) for _, scanned in scans]
        for read, messages in self._reader.messages(ranges):
            scanned, add = scans[read.log][1], adders[read.log]
            for message in messages:
                add(message)
            for place, number, incarnation, reached in zip(
                rows.offset, rows.origin, rows.incarnation, rows.reached, strict=True
            ):
                known = None if incarnation is None or reached is None else (incarnation, reached)
                scanned.log.add(place, number, known)
            rows.clear()
            yield

    def _start(self, one: TargetPartition, vector: Vector) -> Checkpoint:
        fit = [
            each
            for each in one.checkpoints
            if each.offset <= one.end
            # A checkpoint without origins may follow records that carry no origin.
            and each.seen
            and rescan.holds(each, one.incarnations)
            and origin.covers(vector, each.seen, each.seen)
        ]
        return max(fit, key=lambda each: each.offset, default=rescan.BEGINNING)

    def _begun(self, one: TargetPartition, start: Checkpoint, known: Directory) -> _Scan:
        flags, origins = self._headers
        origin_context = OriginContext(
            number=self._number,
            stream=one.place[0],
            incarnations=one.incarnations,
            seen=start.seen,
            known_origins=known.known_origins,
            holes=known.holes.get(one.place, frozenset()),
            flags_header=flags,
            origin_header=origins,
        )
        log = TargetLog(max(start.offset, one.low), start.seen)
        read = LogRange(log=0, topic=one.topic, partition=one.place[1], first=log.end, end=one.end)
        return _Scan(log, prefix(read, origin_context), origin_context)


def first_unread(progress: Progress, log: TargetLog, low: int) -> ChosenOffset:
    """Return the offset from which a group continues in a scanned log that now begins at `low`."""
    return target_log.exact(progress.vector or {}, progress.read, log, low, whole=progress.whole)


def _so_far(progress: Progress, log: TargetLog, one: TargetPartition) -> ChosenOffset:
    """Return the choice found before the log's end: the rest was not scanned."""
    return replace(first_unread(progress, log, one.low), re_read_bound=None, settled=False)
