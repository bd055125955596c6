"""One micro-batch: from commits to the log ranges to read, and from what was read to answers and index entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from backend.domain.distribution import rescan
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.offsets.group_log import OffsetKey, OffsetValue
from backend.domain.records import incarnations, log_index, origin
from backend.domain.records.incarnations import Incarnations
from backend.domain.records.log_index import Mark, Plan, Prefix, Prefixes, Segment
from backend.domain.records.origin import Vector
from backend.kafka.logs.log_ranges import LogRange, OriginContext
from backend.queries.clusters.clusters import ClusterRow
from spark.micro_batch import Answer, Found
from spark.sources.slices import Slice
from workers.offsets.directory import Directory
from workers.offsets.store import Log


@dataclass(frozen=True, kw_only=True)
class OffsetFacts(Answer):
    """Answer about a committed offset, completed with what is known of records no longer in the log."""

    passed: Vector
    """See `Progress.passed`."""
    whole: bool
    """See `Progress.whole`."""
    incarnation: int | None
    """Incarnation of the log that the answer describes; None beyond the log's end: what will be there is not
    known."""
    is_open: bool
    """Tells whether records before the offset are in open transactions: the answer may change later."""


@dataclass(kw_only=True)
class AskedLog:
    """A log with the offsets to answer for."""

    log: Log
    topic: str
    incarnations: Incarnations
    asked: set[int]
    committed: list[tuple[OffsetKey, OffsetValue]] = field(default_factory=list)
    """Commits of groups in this log."""
    marks: Sequence[Mark] = ()
    checkpoints: Sequence[Checkpoint] = ()
    is_there: bool = False
    """Tells whether the log's first offset and end are known."""
    low: int = 0
    end: int = 0
    """Last stable offset."""
    high: int = 0
    """High watermark; queried only if a group has committed beyond `end`."""
    from_low: bool = False
    """Tells whether the log must be read from its beginning, because index entries alone gave no answer."""
    begins: int = field(default=0, init=False)
    """First offset from which the log is known."""
    plan: Plan | None = field(default=None, init=False)
    prefixes: Prefixes = field(default_factory=Prefixes)
    """Further knowledge of the log's beginning; needed if `has_gap`."""
    _places: Sequence[Mark] = field(default=(), init=False)
    """Marks, and the offset before them at which reading begins, in order."""

    @property
    def is_beyond(self) -> bool:
        """Tell whether any group has committed beyond the log's end."""
        return any(value.offset > self.end for _, value in self.committed)

    def is_open(self, offset: int) -> bool:
        """Tell whether some of the records before an offset are in open transactions."""
        return self.end < offset <= self.high

    @property
    def to_read(self) -> int:
        """Return how many offsets the plan reads."""
        assert self.plan is not None
        return sum(part.end - part.first for part in self.plan.parts)

    @property
    def kept_from(self) -> int:
        """Return the offset before which marks are no longer needed, except the newest of all."""
        return min(self.low - log_index.BLOCK + 1, self.marks[-1].first if self.marks else 0)

    @property
    def has_gap(self) -> bool:
        """Tell whether part of the log was deleted before it was read for one of the offsets."""
        return any(offset < self.low or not self._is_whole(self.at(offset)) for offset in self.asked)

    @property
    def incarnation(self) -> int:
        """Return the incarnation of the log's newest records: an index of another incarnation is useless."""
        return self.incarnations[-1][1]

    def at(self, offset: int) -> int:
        """Clamp an offset into the log: a group may have committed one that the log does not have."""
        return min(max(offset, self.low), max(self.low, self.end))

    @property
    def places(self) -> set[int]:
        """Return the offsets to answer for, clamped into the log."""
        return {self.at(offset) for offset in self.asked}

    def make_plan(self, most: int) -> None:
        """Plan what to read: at most `most` offsets that have no marks yet."""
        # Reading begins before the offset itself: the record before it is needed.
        places = self.places
        first = max(self.low, min(places) - log_index.BLOCK)
        base = None
        if self.marks and not self.marks[-1].whole:
            # Part of the log was deleted when the mark was made; a later checkpoint may know what lay there.
            *others, newest = self.marks
            known = self._nearest(newest.first)
            if known.offset >= self.low:
                self.marks = [*others, replace(newest, seen=origin.merge([newest.seen, known.seen]), whole=True)]
        if self.from_low or not self.marks or first < self.marks[0].first:
            nearest = self._nearest(self.low if self.from_low else first)
            begins = max(nearest.offset, self.low)
            if not self.marks or begins < self.marks[0].first:
                base = Mark(first=begins, seen=nearest.seen, whole=nearest.offset >= self.low)
        self.begins = self.marks[0].first if base is None else base.first
        self.plan = log_index.plan(self.marks, base, self.low, max(self.low, self.end), places, most)
        self._places = [*([base] if base else []), *(() if self.plan.anew else self.marks)]

    def _is_whole(self, offset: int) -> bool:
        return log_index.is_whole(self._places, offset, self.low)

    def known_places(self) -> list[Prefix]:
        """Return the checkpoints that describe this log."""
        held = [each for each in self.checkpoints if each.seen and rescan.holds(each, self.incarnations)]
        return [Prefix(offset=each.offset, seen=each.seen) for each in held]

    def _nearest(self, offset: int) -> Checkpoint:
        """Return the last checkpoint at or before an offset, with what all checkpoints know of their prefixes.

        The checkpoint's own offset may no longer be in the log.
        """
        fit = [each for each in self.checkpoints if each.offset <= offset and each.seen]
        held = [each for each in fit if rescan.holds(each, self.incarnations)]
        nearest = max(held, key=lambda each: each.offset, default=rescan.BEGINNING)
        return replace(nearest, seen=origin.merge([each.seen for each in held]))

    def says_enough(self, offset: int, answer: Answer) -> bool:
        """Tell whether an answer without a record before the offset proves that there is none."""
        return answer.timestamp_ms is not None or min(self.at(offset), self.begins) <= self.low

    def facts_at(self, offset: int, answer: Answer, cluster: int) -> OffsetFacts:
        """Return what is known of an offset; `cluster` is the number of the log's cluster."""
        # Beyond the log's end no record was produced yet.
        place = min(offset, self.at(offset))
        known, is_all = self.prefixes.before(place, self.low)
        if offset >= self.low:
            vector = origin.merge([answer.vector, known])
            whole = is_all or self._is_whole(place)
        else:
            # The records from that offset to the log's beginning are deleted here and were not read; other
            # clusters may have them.
            answer = Answer(timestamp_ms=None, safe_timestamp_ms=answer.safe_timestamp_ms, vector={})
            vector, whole = known, is_all or offset == 0
        answered = self.incarnation if place == offset else None
        beyond = incarnations.passed(cluster, self.incarnations, place, vector)
        is_open = self.is_open(offset)
        return OffsetFacts(
            **{**vars(answer), "vector": vector},
            passed=beyond,
            whole=whole and not is_open,
            incarnation=answered,
            is_open=is_open,
        )

    def new_marks(self, found: Sequence[Segment]) -> list[Mark]:
        """Return the marks gained by what was read, where there were none or less complete ones."""
        assert self.plan is not None
        before = {} if self.plan.anew else {mark.first: mark for mark in self.marks}
        made = [mark for part in self.plan.parts for mark in log_index.extended(part, found)]
        return [mark for mark in made if mark.last is not None or mark.first not in before]


class Turns:
    """Scheduler of the logs to read in the next run; used by one thread."""

    def __init__(self, most_offsets: int) -> None:
        self._most = most_offsets
        self._runs = 0
        self._waiting: dict[Log, int] = {}
        """Logs that were requested and not read, with the run since which each waits."""

    def next(self, asked: Mapping[Log, AskedLog]) -> list[AskedLog]:
        """Return logs with at most `most_offsets` in all, or one log: the longest waiting, then short ones."""
        self._runs += 1
        for place in asked:
            self._waiting.setdefault(place, self._runs)
        longest = min(asked, key=lambda place: self._waiting[place], default=None)
        found, left = [], self._most
        for one in sorted(asked.values(), key=lambda each: (each.log != longest, each.to_read)):
            if left > 0:
                found.append(one)
                del self._waiting[one.log]
            left -= one.to_read
        return found


@dataclass(frozen=True)
class Batch:
    """Logs of one run; a log's index in `logs` is its number in the Spark job."""

    logs: Sequence[AskedLog]

    def slices(self, directory: Directory, headers: tuple[str, str]) -> list[Slice]:
        """Return what the job reads, by cluster; `headers` are the names of the headers for flags and origin."""
        by_cluster: dict[str, list[tuple[LogRange, OriginContext]]] = {}
        for number, one in enumerate(self.logs):
            cluster, stream, partition = one.log
            assert one.plan is not None
            for part in one.plan.parts:
                read = LogRange(log=number, topic=one.topic, partition=partition, first=part.first, end=part.end)
                origin_context = OriginContext(
                    number=directory.clusters[cluster].number,
                    stream=stream,
                    incarnations=one.incarnations,
                    seen=part.seen,
                    known_origins=directory.known_origins,
                    holes=directory.holes.get((stream, partition), frozenset()),
                    flags_header=headers[0],
                    origin_header=headers[1],
                )
                by_cluster.setdefault(cluster, []).append((read, origin_context))
        return [_slice(directory.clusters[name], ranges) for name, ranges in by_cluster.items()]

    def known(self) -> list[tuple[int, Segment]]:
        """Return the (log number, segment) pairs that the index already has."""
        return [
            (number, segment) for number, one in enumerate(self.logs) if one.plan for segment in one.plan.known
        ]

    def asked(self) -> list[tuple[int, int]]:
        """Return the (log number, offset) pairs that this run can answer."""
        return [
            (number, offset)
            for number, one in enumerate(self.logs)
            if one.plan and one.plan.answers
            for offset in sorted(one.places)
        ]

    def answers(self, found: Found, directory: Directory) -> dict[tuple[Log, int], OffsetFacts]:
        """Return the answers by (log, offset)."""
        answers: dict[tuple[Log, int], OffsetFacts] = {}
        for number, one in enumerate(self.logs):
            cluster = directory.clusters[one.log[0]].number
            for offset in one.asked:
                answer = found.answers.get((number, one.at(offset)))
                if answer is not None:
                    answers[one.log, offset] = one.facts_at(offset, answer, cluster)
        return answers


def _slice(row: ClusterRow, ranges: list[tuple[LogRange, OriginContext]]) -> Slice:
    return Slice(bootstrap_servers=row.bootstrap_servers, properties=row.properties, ranges=ranges)
