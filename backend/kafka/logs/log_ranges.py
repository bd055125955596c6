"""Reading ranges of logs: from one offset up to another, ended by position and never by a timeout.

The last offsets of a range may be control records, gaps of compaction or aborted records, which no reader gets. So
a partition's range has ended when a record at or after its end arrived, or the broker reported the log's end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from backend.domain.records import copy_flags, origin
from backend.domain.records.incarnations import Incarnations
from backend.domain.records.log_prefix import Hole, LogPrefix
from backend.domain.records.origin import Vector
from backend.kafka.base.errors import KafkaCallFailed, sentence
from backend.kafka.base.message_headers import headers_of
from backend.kafka.logs.following import committed_reader

_CHUNK_RECORDS = 2_000
_BUFFER_KBYTES = 16 * 1024
_WAIT_SECONDS = 0.2
_SILENT_SECONDS = 30.0

OPEN_END = 2**63 - 1
"""End of a range without end: for streams, which limit each of their reads themselves."""


@dataclass(frozen=True, kw_only=True)
class LogRange:
    """The offsets from `first` to `end`, exclusive, of a topic's partition."""

    log: int
    """The caller's number of this log."""
    topic: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True, kw_only=True)
class OriginContext:
    """Facts that are necessary to resolve the origins of a range's records."""

    number: int
    """Number of the cluster."""
    stream: str
    incarnations: Incarnations
    seen: Vector
    """Vector of the records before the range."""
    known_origins: frozenset[int]
    """Numbers of all clusters that were ever leaves of the tree, read after the range's end was: any other number
    is not ours."""
    holes: frozenset[Hole] = frozenset()
    flags_header: str = "copy-flags"
    origin_header: str = "copy-origin"


def messages(config: Mapping[str, Any], ranges: Sequence[LogRange]) -> Iterator[tuple[LogRange, list[Message]]]:
    """Yield committed records of the ranges in pieces, in log order; ranges of one partition one after the other.

    Raises KafkaCallFailed, also if a range's beginning is no longer in the log.
    """
    reader = RangeReader(config)
    try:
        yield from reader.messages(ranges)
    finally:
        reader.close()


class RangeReader:
    """Reader of many ranges over the same connections; used by one thread. Raises KafkaCallFailed."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        # A range whose beginning is gone is an error: continuing elsewhere would give a wrong vector.
        self._consumer = committed_reader(
            config, auto_offset_reset="error", fetch_wait_max_ms=20, queued_max_messages_kbytes=_BUFFER_KBYTES
        )

    def messages(self, ranges: Sequence[LogRange]) -> Iterator[tuple[LogRange, list[Message]]]:
        """Yield the same as the function `messages`."""
        reading = _Reading(self._consumer, ranges)
        try:
            while reading.open:
                yield from reading.read()
        except KafkaException as error:
            raise KafkaCallFailed(sentence(error)) from error
        finally:
            reading.end()

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()


class _Reading:
    def __init__(self, consumer: Consumer, ranges: Sequence[LogRange]) -> None:
        self._consumer = consumer
        self._waiting: dict[tuple[str, int], list[LogRange]] = {}
        for one in sorted(ranges, key=lambda each: each.first, reverse=True):
            if one.first < one.end:
                self._waiting.setdefault((one.topic, one.partition), []).append(one)
        self.open: dict[tuple[str, int], LogRange] = {}
        self._heard = time.monotonic()
        for place in list(self._waiting):
            self._begin(place)

    def _begin(self, place: tuple[str, int]) -> None:
        one = self._waiting[place].pop()
        self.open[place] = one
        self._consumer.incremental_assign([TopicPartition(*place, one.first)])

    def _end(self, place: tuple[str, int]) -> None:
        del self.open[place]
        self._consumer.incremental_unassign([TopicPartition(*place)])
        if self._waiting[place]:
            self._begin(place)

    def read(self) -> Iterator[tuple[LogRange, list[Message]]]:
        found: dict[tuple[str, int], list[Message]] = {}
        ended: list[tuple[str, int]] = []
        # Wait for one record only: a call for many waits until it has that many.
        first = self._consumer.consume(1, _WAIT_SECONDS)
        for message in first + (self._consumer.consume(_CHUNK_RECORDS, 0) if first else []):
            place, offset, error = (message.topic(), message.partition()), message.offset(), message.error()
            one = self.open.get(place)  # type: ignore[arg-type]
            if one is None or place in ended:
                continue  # fetched before its range had ended
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                if error.fatal() or not error.retriable():
                    raise KafkaException(error)
                continue
            if offset is not None and offset >= one.end:
                ended.append(place)  # type: ignore[arg-type]
            elif error is None:
                found.setdefault(place, []).append(message)  # type: ignore[arg-type]
        if first:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > _SILENT_SECONDS:
            places = ", ".join(f"{topic}/{partition}" for topic, partition in self.open)
            raise KafkaCallFailed(f"no record and no end came for {_SILENT_SECONDS:g} s from {places}")
        yield from ((self.open[place], some) for place, some in found.items())
        for place in ended:
            self._end(place)

    def end(self) -> None:
        """Stop reading, even if not everything was read."""
        with contextlib.suppress(KafkaException):  # the failure that ended it is reported already
            for place in list(self.open):
                self._consumer.incremental_unassign([TopicPartition(*place)])
        self.open.clear()


@dataclass(slots=True)
class LogRows:
    """Records as columns; the values of a record have the same index.

    Origin, incarnation and reached are None for a record with flags, but no origin: it was copied before origins
    were written.
    """

    log: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    timestamp_ms: list[int] = field(default_factory=list)
    origin: list[int | None] = field(default_factory=list)
    incarnation: list[int | None] = field(default_factory=list)
    reached: list[int | None] = field(default_factory=list)

    @property
    def columns(self) -> tuple[list[Any], ...]:
        """Return all columns, in the order above."""
        return self.log, self.offset, self.timestamp_ms, self.origin, self.incarnation, self.reached

    def clear(self) -> None:
        """Remove all records."""
        for column in self.columns:
            column.clear()


def prefix(
    one: LogRange, origin_context: OriginContext, foreign: Callable[[int], bool] = lambda number: True
) -> LogPrefix:
    """Return the resolver of the origins of a range's records.

    `foreign` is that of `LogPrefix`, for readers whose `known_origins` may be older than the records.
    """
    return LogPrefix(
        origin_context.number,
        stream=origin.stream_id(origin_context.stream),
        partition=one.partition,
        incarnations=origin_context.incarnations,
        seen=origin_context.seen,
        known_origins=origin_context.known_origins,
        holes=origin_context.holes,
        foreign=foreign,
    )


def row_adder(
    rows: LogRows, log: int, judge: LogPrefix, origin_context: OriginContext
) -> Callable[[Message], None]:
    """Return a function that adds the next record of a log to `rows`."""

    def add(message: Message) -> None:
        offset = message.offset()
        assert offset is not None
        headers = headers_of(message)
        rows.log.append(log)
        rows.offset.append(offset)
        rows.timestamp_ms.append(message.timestamp()[1])
        found = None
        if headers:
            found = origin.decode([value for name, value in headers if name == origin_context.origin_header])
            flags, _ = copy_flags.decode([value for name, value in headers if name == origin_context.flags_header])
            if found is None and flags:
                rows.origin.append(None)
                rows.incarnation.append(None)
                rows.reached.append(None)
                return
        record_origin = judge.origin_of(offset, found)
        rows.origin.append(record_origin.cluster)
        rows.incarnation.append(record_origin.incarnation)
        rows.reached.append(record_origin.offset)

    return add
