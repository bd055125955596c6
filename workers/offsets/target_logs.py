"""A cluster's logs as its committer has walked through them, to tell the first record that a group has not read.

A log is walked once: from the furthest checkpoint before which those who are asked about have read all, on to its
end, and from there on as it grows; three numbers a record are held. A group that is far behind is looked for in a
walk of its own, which ends where it is found and holds what the group has not read only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backend.domain import origin, rescan
from backend.domain.births import Births
from backend.domain.log_prefix import LogPrefix
from backend.domain.offset_map import Progress
from backend.domain.origin import Vector
from backend.domain.rescan import Checkpoint
from backend.domain.target_log import TargetLog
from backend.kafka.log_ranges import BornIn, LogRange, LogRows, RangeReader, prefix, row_adder
from workers.offsets.directory import Directory

HELD_RECORDS = 200_000
"""Of one log."""

Partition = tuple[str, int]
"""(stream, partition)."""


@dataclass(frozen=True, kw_only=True)
class TargetPartition:
    """A log, where it begins and ends now, and places of it where a walk may begin."""

    place: Partition
    topic: str
    births: Births
    low: int
    end: int
    checkpoints: Sequence[Checkpoint]


@dataclass
class _Walked:
    log: TargetLog
    judge: LogPrefix
    born: BornIn


class TargetLogs:
    """One cluster's; used by one thread."""

    def __init__(
        self,
        reader: RangeReader,
        number: int,
        headers: tuple[str, str],
    ) -> None:
        """`number`: of the cluster; `headers`: names of the headers for flags and origin."""
        self._reader, self._number, self._headers = reader, number, headers
        self._held: dict[Partition, _Walked] = {}

    def near(self, one: TargetPartition, vector: Vector) -> bool:
        """Whether a vector's first record is looked for in the walk that all share."""
        held = self._usable(one)
        if held is not None and held.log.reaches_back_to(vector):
            return True
        return one.end - self._start(one, vector).offset <= HELD_RECORDS

    def walk(self, one: TargetPartition, vectors: Sequence[Vector], known: Directory) -> TargetLog:
        """The log up to its end, from a place before which all vectors have everything. Raises KafkaCallFailed."""
        held = self._usable(one)
        start = min((self._start(one, vector) for vector in vectors), key=lambda at: at.offset)
        if held is not None and not held.log.knows_all_from(held.log.first) and start.offset > held.log.first:
            held = None  # what nobody can tell of may lie before what all have read by now
        if held is None or not all(held.log.reaches_back_to(vector) for vector in vectors):
            held = self._begun(one, start, known)
        # Until all is well: the judge may have seen what the log lacks.
        self._held.pop(one.place, None)
        held.judge.known_origins = known.known_origins
        held.judge.holes = known.holes.get(one.place, frozenset())
        for _ in self._records(one, held):
            pass
        held.log.walked_to(one.end)
        if held.log.size > HELD_RECORDS:
            held.log.forget_before(min(held.log.first_uncovered(vector) for vector in vectors))
        if held.log.size <= 2 * HELD_RECORDS:
            self._held[one.place] = held
        return held.log

    def look_for(self, one: TargetPartition, progress: Progress, known: Directory) -> TargetLog:
        """The log from a place before which the group has read everything, up to where all that its vector has was
        seen, and something that it has not read; or up to the log's end. Raises KafkaCallFailed."""
        vector, read = progress.vector or {}, progress.read
        walked = self._begun(one, self._start(one, read), known)
        for _ in self._records(one, walked):
            first = walked.log.first_uncovered(read)
            walked.log.forget_before(first)
            if first < walked.log.end and origin.covers(walked.log.seen_at(walked.log.end), vector, vector):
                return walked.log
        walked.log.walked_to(one.end)
        return walked.log

    def _usable(self, one: TargetPartition) -> _Walked | None:
        held = self._held.get(one.place)
        if held is None or held.born.births != one.births or held.log.end > one.end:
            return None
        return held

    def _records(self, one: TargetPartition, walked: _Walked) -> Iterable[None]:
        """Walk on to the log's end; yields now and then."""
        read = LogRange(
            log=0,
            topic=one.topic,
            partition=one.place[1],
            first=max(walked.log.end, one.low),
            end=one.end,
        )
        rows = LogRows()
        add = row_adder(rows, 0, walked.judge, walked.born)
        for _, messages in self._reader.messages([read]):
            for message in messages:
                add(message)
            for place, number, incarnation, reached in zip(
                rows.offset, rows.origin, rows.incarnation, rows.reached, strict=True
            ):
                known = None if incarnation is None or reached is None else (incarnation, reached)
                walked.log.add(place, number, known)
            rows.clear()
            yield

    def _start(self, one: TargetPartition, vector: Vector) -> Checkpoint:
        fit = [
            each
            for each in one.checkpoints
            if each.offset <= one.end
            # One that knows of no origin may have records before it that do not say where they were born.
            and each.seen
            and rescan.holds(each, one.births)
            and origin.covers(vector, each.seen, each.seen)
        ]
        return max(fit, key=lambda each: each.offset, default=rescan.BEGINNING)

    def _begun(self, one: TargetPartition, start: Checkpoint, known: Directory) -> _Walked:
        flags, origins = self._headers
        born = BornIn(
            number=self._number,
            stream=one.place[0],
            births=one.births,
            seen=start.seen,
            known_origins=known.known_origins,
            holes=known.holes.get(one.place, frozenset()),
            flags_header=flags,
            origin_header=origins,
        )
        log = TargetLog(max(start.offset, one.low), start.seen)
        read = LogRange(log=0, topic=one.topic, partition=one.place[1], first=log.end, end=one.end)
        return _Walked(log, prefix(read, born), born)
