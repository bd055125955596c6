"""Computes vectors at offsets of a cluster's logs, from the nearest known vectors and the records since."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from backend.domain.distribution import rescan
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records.incarnations import Incarnations
from backend.domain.records.log_index import Prefix, Prefixes
from backend.domain.records.origin import Vector, merge
from backend.kafka.logs.log_ranges import LogRange, LogRows, OriginContext, RangeReader, prefix, row_adder
from workers.offsets.directory import Directory
from workers.switches.topology import Partition


@dataclass(frozen=True, kw_only=True)
class AskedPrefixes:
    """A log and the offsets at which its vector is requested.

    None of the offsets is behind the log's end for readers of decided transactions.
    """

    partition: Partition
    topic: str
    incarnations: Incarnations
    low: int
    """Present beginning of the log."""
    offsets: Collection[int]
    bases: Sequence[Prefix]
    """Offsets with known vectors, where reading can begin."""
    told: Sequence[Prefix] = ()
    """Offsets with partly known vectors."""


@dataclass(frozen=True, kw_only=True)
class PrefixState:
    """Vector and timestamp before an offset."""

    seen: Vector
    whole: bool
    """True if the vector covers all records that ever were there; False if some were deleted unseen."""
    timestamp_ms: int | None = None
    """Timestamp of the last record, if it was read."""


@dataclass(frozen=True)
class Stretch:
    """Range of offsets to read at once, and the vector before it."""

    first: int
    end: int
    seen: Vector


def stretches(offsets: Iterable[int], prefixes: Sequence[Prefix], low: int) -> Iterator[Stretch]:
    """Yield the ranges to read of a log that begins at `low`, so that the vector at each offset is known.

    Each range begins at the nearest known vector, or continues the range before it if that is nearer.
    """
    ordered, known = sorted(prefixes, key=lambda each: each.offset), Prefixes(prefixes)
    first = end = None
    for offset in sorted({max(each, low) for each in offsets}):
        base = max((each.offset for each in ordered if each.offset <= offset), default=low)
        base = max(base, low)
        if first is None or end is None or base > end:
            if first is not None and end is not None:
                yield Stretch(first, end, known.before(first, low)[0])
            first = base
        end = offset
    if first is not None and end is not None:
        yield Stretch(first, end, known.before(first, low)[0])


def bases_of(checkpoints: Iterable[Checkpoint], incarnations: Incarnations) -> list[Prefix]:
    """Return the checkpoints that are valid for the log's present incarnations."""
    # A checkpoint without origins may have records before it that do not tell where they were produced.
    held = [each for each in checkpoints if each.seen and rescan.holds(each, incarnations)]
    return [Prefix(offset=each.offset, seen=each.seen) for each in held]


class PrefixReader:
    """Reads vectors of one cluster's logs; used by one thread."""

    def __init__(self, reader: RangeReader, number: int, headers: tuple[str, str]) -> None:
        """`number`: number of the cluster; `headers`: names of the flags header and the origin header."""
        self._reader, self._number, self._headers = reader, number, headers

    def read(self, logs: Sequence[AskedPrefixes], known: Directory) -> dict[tuple[Partition, int], PrefixState]:
        """Return vectors by (partition, offset). `known` was read after the log ends. Raises KafkaCallFailed."""
        ranges: list[LogRange] = []
        walks: list[_Walk] = []
        by_log: list[list[_Walk]] = []
        for one in logs:
            mine = []
            for stretch in stretches(one.offsets, one.bases, one.low):
                read = LogRange(
                    log=len(ranges),
                    topic=one.topic,
                    partition=one.partition[1],
                    first=stretch.first,
                    end=stretch.end,
                )
                asked = [each for each in one.offsets if stretch.first <= each <= stretch.end]
                ranges.append(read)
                mine.append(_Walk(read, self._origin_context(one, stretch.seen, known), asked))
            walks += mine
            by_log.append(mine)
        for read, messages in self._reader.messages(ranges):
            walks[read.log].take(messages)
        return {
            (one.partition, offset): stands
            for one, mine in zip(logs, by_log, strict=True)
            for offset, stands in _stands(one, mine)
        }

    def present(self, one: AskedPrefixes, end: int, known: Directory) -> Vector:
        """Return, by origin, the highest record that the log has before `end`. Raises KafkaCallFailed."""
        read = LogRange(log=0, topic=one.topic, partition=one.partition[1], first=one.low, end=end)
        origin_context = self._origin_context(one, Prefixes(one.bases).before(one.low, one.low)[0], known)
        rows, found = LogRows(), Vector()
        add = row_adder(rows, 0, prefix(read, origin_context), origin_context)
        for _, messages in self._reader.messages([read]):
            for message in messages:
                add(message)
            for number, incarnation, reached in zip(rows.origin, rows.incarnation, rows.reached, strict=True):
                if number is not None and incarnation is not None and reached is not None:
                    found[number] = max(found.get(number, (-1, -1)), (incarnation, reached))
            rows.clear()
        return found

    def _origin_context(self, one: AskedPrefixes, seen: Vector, known: Directory) -> OriginContext:
        flags, origins = self._headers
        return OriginContext(
            number=self._number,
            stream=one.partition[0],
            incarnations=one.incarnations,
            seen=seen,
            known_origins=known.known_origins,
            holes=known.holes.get(one.partition, frozenset()),
            flags_header=flags,
            origin_header=origins,
        )


class _Walk:
    """Reader of one range, which notes the vector at each requested offset."""

    def __init__(self, read: LogRange, origin_context: OriginContext, asked: Iterable[int]) -> None:
        self._judge, self._rows = prefix(read, origin_context), LogRows()
        self._add = row_adder(self._rows, 0, self._judge, origin_context)
        self._left = sorted(asked, reverse=True)
        self._timestamp_ms: int | None = None
        self._found: dict[int, tuple[Vector, int | None]] = {}

    def take(self, messages: Iterable[object]) -> None:
        """Consume the next records."""
        for message in messages:
            offset = message.offset()  # type: ignore[attr-defined]
            while self._left and self._left[-1] <= offset:
                self._note()
            self._add(message)  # type: ignore[arg-type]
            self._timestamp_ms = self._rows.timestamp_ms[-1]
        self._rows.clear()

    def _note(self) -> None:
        self._found[self._left.pop()] = (dict(self._judge.seen), self._timestamp_ms)

    def found(self) -> Mapping[int, tuple[Vector, int | None]]:
        """Return offset -> (vector, timestamp of the last record), after all records were consumed."""
        while self._left:
            self._note()
        return self._found


def _stands(one: AskedPrefixes, walks: Iterable[_Walk]) -> Iterator[tuple[int, PrefixState]]:
    prefixes = Prefixes([*one.bases, *one.told])
    found = dict(itertools.chain.from_iterable(walk.found().items() for walk in walks))
    for offset in one.offsets:
        # Records deleted before the read may be known from stored prefixes, but only up to the offset.
        seen, is_all = prefixes.before(offset, one.low)
        timestamp = None
        if offset >= one.low:
            read, timestamp = found[offset]
            seen = merge([seen, read])
        yield offset, PrefixState(seen=seen, whole=is_all or one.low == 0 or offset == 0, timestamp_ms=timestamp)
