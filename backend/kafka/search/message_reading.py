"""Pages of a topic's messages over several partitions, by time.

A page never reads beyond the ends that the logs had when it began, so that a busy topic ends too. Its positions
say how far each partition was scanned: the walk from page to page gives every record exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from confluent_kafka import Message

from backend.kafka.search import record_merge
from backend.kafka.search.record_cursors import BackwardCursor, Cursor, ForwardCursor
from backend.kafka.search.record_merge import Merge
from backend.kafka.search.record_search import LogRange
from backend.kafka.search.sieved_records import Record, Sieve
from backend.kafka.search.topic_reader import TopicPlace, TopicReader

_BATCH_RECORDS = 4_000
_SEARCHED_FIRST, _SEARCHED_RECORDS, _SIEVED_AHEAD = 2_000, 20_000, 60_000
_RUNS = 64
"""Runs of records that a sieve leaves out, in the bounds of a page: a page ends between two of them."""
_LEAST_WINDOW = 16
_PAGE_WAIT_MS = 10
_QUEUE_KBYTES = 4 * 1024
_RESPONSE_BYTES = 4 * 1024 * 1024
_PARTITION_BYTES = 1024 * 1024
LEAST_PARTITION_BYTES = 32 * 1024  # a batch with the usual `batch.size` of 16 KB, so not one for each request


@dataclass(frozen=True)
class Bounds:
    """Limits of one request: seconds; records and bytes that are scanned, over all partitions.

    The first record comes even if it has more bytes.
    """

    seconds: float
    records: int
    bytes: int


@dataclass(frozen=True)
class Earliest:
    """Read forward from the beginning."""


@dataclass(frozen=True)
class Newest:
    """Read backward from the end."""


@dataclass(frozen=True)
class AtOffset:
    """Read forward from an offset of a single partition."""

    offset: int


@dataclass(frozen=True)
class Since:
    """Read forward from the first record of each partition with this timestamp or a later one."""

    timestamp_ms: int


@dataclass(frozen=True)
class After:
    """Read forward from an offset of each partition; one without an offset is read from its beginning."""

    offsets: Mapping[int, int]


@dataclass(frozen=True)
class Before:
    """Read backward what is below an offset of each partition; one without an offset is not read."""

    offsets: Mapping[int, int]


Start = Earliest | Newest | AtOffset | Since | After | Before


class Selected(NamedTuple):
    """A message that was selected, and what `Select` made of it."""

    message: Message
    decoded: object


class EndedBy(StrEnum):
    """Reason why a page ended."""

    LIMIT = "limit"
    END = "end"
    TIME = "time"
    RECORDS = "records"
    BYTES = "bytes"


class PageEnded(Exception):
    """The page has no room, or no time, for more than `found` of the present batch: nothing more is read.

    The page's positions are behind this batch. The one who raises it has to move them to what was left out.
    """

    def __init__(self, found: list[Selected], ended_by: EndedBy) -> None:
        super().__init__(f"the page is ended by its {ended_by}")
        self.found = found
        self.ended_by = ended_by


Select = Callable[[list[Message]], list[Selected]]
"""Returns those of a batch that match, in the order of the batch. Of a page, it may raise PageEnded."""
Passing = Callable[[Sequence[Message]], Sequence[Message]]
"""Returns those of some messages that may match, in their order: one that costs little and decides for most."""


@dataclass(frozen=True)
class Page:
    """Selected messages, and where the next page begins."""

    found: list[Selected]
    """Forward, merged by timestamp; backward, newest first. Never against the order of a partition's offsets."""
    after: Mapping[int, int] | None
    """Offsets for `After`, or for `Before` if `backward`; None if everything was scanned."""
    backward: bool
    scanned_records: int
    scanned_bytes: int
    """Bytes of keys, values and headers."""
    ended_by: EndedBy
    ranges: Mapping[int, LogRange]
    """Readable offsets of each partition when the page was begun."""
    started: Mapping[int, int]
    """Where the page began in each partition, in terms of `after`."""


class OffsetOutside(Exception):
    """An offset is outside of the partition's log, whose readable offsets are from `low` to `high`, exclusive."""

    def __init__(self, partition: int, offset: int, log_range: LogRange) -> None:
        super().__init__(
            f"offset {offset} is not in partition {partition}, which has {log_range.low} to {log_range.high}"
        )
        self.partition = partition
        self.offset = offset
        self.low = log_range.low
        self.high = log_range.high


def read_messages(
    place: TopicPlace,
    start: Start,
    limit: int,
    bounds: Bounds,
    select: Select,
    *,
    is_search: bool = False,
    passing: Passing | None = None,
) -> Page:
    """Return at most `limit` selected messages; positions are moved by every page, or it fails.

    `is_search` expects that `select` leaves most messages out: batches are large from the beginning. `select` gets
    only messages that pass `passing`; the others are counted as scanned.

    Raises KafkaCallFailed, also if nothing was scanned in the time allowed; OffsetOutside for an offset outside of
    the log (the end itself is inside), and for one of `After` above its end; ClusterUnreachable for a secret that
    cannot be read or a forbidden address.
    """
    room = record_merge.BUFFER_BYTES // (2 * len(place.partitions))
    reader = TopicReader(
        place,
        bounds.seconds,
        wait_ms=_PAGE_WAIT_MS,
        # Several answers fit, also of small records: what does not would be discarded, and fetched again.
        partition_bytes=max(LEAST_PARTITION_BYTES, min(_PARTITION_BYTES, room // 10)),
        response_bytes=_RESPONSE_BYTES,
        queue_kbytes=_QUEUE_KBYTES,
    )
    try:
        ranges = reader.ranges()
        sieve = None if passing is None else _sieve(passing, bounds)
        cursors = _cursors(reader, start, ranges, room, _SEARCHED_FIRST if is_search else limit, sieve)
        backward = isinstance(start, Newest | Before)
        merge = Merge(reader, cursors, backward=backward)
        ahead = (_SEARCHED_RECORDS if sieve is None else _SIEVED_AHEAD) if is_search else None
        return _page(merge, limit, bounds, select, ranges, backward=backward, ahead=ahead)
    finally:
        reader.close()


def _sieve(passing: Passing, bounds: Bounds) -> Sieve:
    records = min(_SEARCHED_FIRST, max(1, bounds.records // _RUNS))
    return Sieve(passing, records, max(1, bounds.bytes // _RUNS))


def _cursors(
    reader: TopicReader,
    start: Start,
    ranges: Mapping[int, LogRange],
    room: int,
    limit: int,
    sieve: Sieve | None,
) -> list[Cursor]:
    window = max(_LEAST_WINDOW, limit * 5 // 4 // len(ranges))
    match start:
        case Newest():
            positions = {partition: each.high for partition, each in ranges.items()}
        case Before(offsets):
            positions = {p: min(offsets.get(p, each.low), each.high) for p, each in ranges.items()}
        case _:
            positions = _first_offsets(reader, start, ranges)
            return [ForwardCursor(p, positions[p], each.high, room, sieve) for p, each in ranges.items()]
    return [BackwardCursor(p, positions[p], each.low, room, window, sieve) for p, each in ranges.items()]


def _first_offsets(
    reader: TopicReader, start: Earliest | AtOffset | Since | After, ranges: Mapping[int, LogRange]
) -> dict[int, int]:
    match start:
        case Earliest():
            return {partition: each.low for partition, each in ranges.items()}
        case AtOffset(offset):
            for partition, each in ranges.items():
                if not each.low <= offset <= each.high:
                    raise OffsetOutside(partition, offset, each)
            return dict.fromkeys(ranges, offset)
        case Since(timestamp_ms):
            found = reader.offsets(max(0, timestamp_ms), ranges)
            return {p: each.high if found[p] < 0 else min(found[p], each.high) for p, each in ranges.items()}
        case After(offsets):
            positions = {}
            for partition, each in ranges.items():
                # Records below the beginning were deleted since the last page. Above the end were never any: it is
                # another log, or was truncated.
                positions[partition] = max(offsets.get(partition, each.low), each.low)
                if positions[partition] > each.high:
                    raise OffsetOutside(partition, positions[partition], each)
            return positions


def _page(
    merge: Merge,
    limit: int,
    bounds: Bounds,
    select: Select,
    ranges: Mapping[int, LogRange],
    *,
    backward: bool,
    ahead: int | None,
) -> Page:
    """Read a page; `ahead` is for a search, how many messages of a partition are fetched in the meantime."""
    started = merge.positions
    found: list[Selected] = []
    scanned_records = scanned_bytes = 0
    is_search = ahead is not None
    step, largest = (max(limit, _SEARCHED_FIRST), _SEARCHED_RECORDS) if is_search else (limit, _BATCH_RECORDS)
    ended_by: EndedBy | None = None
    while ended_by is None:
        positions = merge.positions
        batch = merge.take(
            min(step, bounds.records - scanned_records),
            bounds.bytes - scanned_bytes,
            at_least_one=scanned_records == 0,
            ahead=ahead,
        )
        step = min(step * 2, largest)
        scanned_records += sum([record.length for record in batch])
        scanned_bytes += sum([record.size for record in batch])
        messages = [record.message for record in batch if record.message is not None]
        told: EndedBy | None = None
        try:
            selected = select(messages) if messages else []
        except PageEnded as ended:
            selected, told = ended.found, ended.ended_by
        room = limit - len(found)
        found += selected[:room]
        if len(selected) > room:
            # Records behind the last one of the page are scanned again by the next page.
            positions = _scanned_to(positions, batch, found[-1].message, backward=backward)
            ended_by = EndedBy.LIMIT
            break
        positions = merge.positions
        if told is not None:
            ended_by = told
        elif merge.is_over:
            ended_by = EndedBy.END
        elif len(found) == limit:
            ended_by = EndedBy.LIMIT
        elif merge.time_over is not None:
            if positions == started:
                raise merge.time_over
            ended_by = EndedBy.TIME
        elif scanned_records >= bounds.records or (
            not batch and scanned_records + merge.next_length > bounds.records
        ):
            ended_by = EndedBy.RECORDS
        elif not batch:
            ended_by = EndedBy.BYTES
    return Page(
        found=found,
        after=None if ended_by is EndedBy.END else positions,
        backward=backward,
        scanned_records=scanned_records,
        scanned_bytes=scanned_bytes,
        ended_by=ended_by,
        ranges=ranges,
        started=started,
    )


def _scanned_to(
    positions: Mapping[int, int], batch: list[Record], last: Message, *, backward: bool
) -> dict[int, int]:
    """Return the positions after the records of a batch up to `last`."""
    moved = dict(positions)
    end = (last.partition(), last.offset())
    for record in batch:
        moved[record.partition] = record.offset if backward else record.last + 1
        if record.message is not None and (record.partition, record.offset) == end:
            break
    return moved
