"""Fetched messages as records of a merge, with or without a sieve.

A search has a sieve: consecutive messages that do not pass it become one `Record` without a message, which takes
its turn among the others. So most of what is scanned takes neither memory nor a place in the merge, and the order
of the messages that pass is the same as without a sieve.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from backend.kafka.base.message_headers import Message, headers_of

_MESSAGE_BYTES = 500  # of a record in memory, besides its contents


class Record(NamedTuple):
    """A message, or a run of `length` consecutive messages that did not pass the sieve."""

    message: Message | None
    partition: int
    offset: int
    last: int
    """Offset of the last message of a run."""
    timestamp_ms: int
    """A run has the timestamp that is reached at its end: the highest forward, the lowest backward."""
    size: int
    """Bytes of keys, values and headers."""
    kept: int
    """Bytes in memory."""
    length: int


class Refused(NamedTuple):
    """A record that was not kept."""

    timestamp_ms: int
    size: int
    kept: int
    length: int


@dataclass(frozen=True)
class Sieve:
    """Filter on fetched messages; runs of what it leaves out have at most so many records and bytes."""

    passing: Callable[[Sequence[Message]], Sequence[Message]]
    """Returns the messages that pass, in their order."""
    records: int
    bytes: int


Reached = Callable[[Sequence[int]], int]
"""Returns the timestamp that a merge has reached after messages with these timestamps."""


def records_of(partition: int, messages: Sequence[Message], sieve: Sieve | None, reached: Reached) -> list[Record]:
    """Return the records of consecutive messages of a partition."""
    sizes = [size_of(each) for each in messages]
    if sieve is None:
        return [_record(partition, *each) for each in zip(messages, sizes, strict=True)]
    passing = set(map(id, sieve.passing(messages)))
    found: list[Record] = []
    begin = 0
    for place in [place for place, each in enumerate(messages) if id(each) in passing] if passing else ():
        found += _runs(partition, messages[begin:place], sizes[begin:place], sieve, reached)
        found.append(_record(partition, messages[place], sizes[place]))
        begin = place + 1
    return found + _runs(partition, messages[begin:], sizes[begin:], sieve, reached)


def _record(partition: int, message: Message, size: int) -> Record:
    offset = offset_of(message)
    return Record(message, partition, offset, offset, message.timestamp()[1], size, size + _MESSAGE_BYTES, 1)


def _runs(
    partition: int, messages: Sequence[Message], sizes: Sequence[int], sieve: Sieve, reached: Reached
) -> list[Record]:
    found: list[Record] = []
    timestamps = [each.timestamp()[1] for each in messages]
    sums = [0, *accumulate(sizes)]
    begin = 0
    while begin < len(messages):
        most = bisect_right(sums, sums[begin] + sieve.bytes) - 1
        end = min(max(begin + 1, most), begin + sieve.records, len(messages))
        first, last = offset_of(messages[begin]), offset_of(messages[end - 1])
        time, size = reached(timestamps[begin:end]), sums[end] - sums[begin]
        found.append(Record(None, partition, first, last, time, size, _MESSAGE_BYTES, end - begin))
        begin = end
    return found


def offset_of(message: Message) -> int:
    """Return a consumed message's offset."""
    return message.offset() or 0


def size_of(message: Message) -> int:
    """Return the bytes of a message's key, value and headers."""
    size = len(message.key() or b"") + len(message.value() or b"")
    for name, value in headers_of(message):
        size += len(name) if value is None else len(name) + len(value)
    return size


def refused(record: Record) -> Refused:
    """Return what is known of a record that is not kept."""
    return Refused(record.timestamp_ms, record.size, record.kept, record.length)


def kept_size(records: Sequence[Record]) -> int:
    """Return the bytes in memory."""
    return sum([record.kept for record in records])


def length_of(records: Iterable[Record]) -> int:
    """Return how many messages records stand for."""
    return sum([record.length for record in records])
