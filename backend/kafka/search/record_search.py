"""Search for one record in one partition's log, by offset or origin, without reading the whole log.

Copies keep the timestamp of the record, so none can lie before the first record of the log with that timestamp or
a later one: the broker's time index gives that place. From there the log is scanned for a while. If timestamps are
out of order the place may be far before the record; then the rest is bisected, since the offsets of one origin
rise in every log.

Kafka does not store when a record arrived. But each transaction of a distributor ends in a marker with the time of
the broker's own clock, and the broker's time index covers markers too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from backend.domain.records.partition_edge import Header
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, sentence
from backend.kafka.base.message_headers import headers_of
from backend.kafka.base.probe import ConnectionReasons

GROUP = "_treeline.trace"  # names the reader for access rules; nothing is ever committed for it
SCANNED_RECORDS = 5_000
HALVED_DOWN_TO = 1_000
_MARKER_RECORDS = 20_000
_NOT_HEARD_OF_SECONDS = 0.1
_CHUNK_RECORDS = 500


@dataclass(frozen=True)
class Place:
    """One partition's log on one cluster; `properties` holds references to secrets, never the secrets."""

    bootstrap_servers: str
    properties: Mapping[str, str]
    topic: str
    partition: int


@dataclass(frozen=True)
class LogRange:
    """Offsets available to a read_committed reader: from `low` to `high`, exclusive."""

    low: int
    high: int


@dataclass(frozen=True)
class NotThere:
    """A search without a result; `later_there`: the log has a record that comes after the wanted one."""

    later_there: bool


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record without key and value: tracing must not expose them."""

    offset: int
    timestamp_ms: int
    headers: Sequence[Header]


Judge = Callable[[LogRecord], int | None]
"""Returns a negative number for a record before the wanted one, 0 for it, positive after it, None if unrelated."""


class Log:
    """Reader of one partition until a deadline, after which every call raises KafkaCallFailed."""

    def __init__(self, place: Place, seconds: float) -> None:
        self._place = place
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._reasons = ConnectionReasons()
        config = client_config(place.bootstrap_servers, place.properties, error_cb=self._reasons)
        reader = {
            **config,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            "fetch.message.max.bytes": 1024 * 1024,
            "queued.max.messages.kbytes": 8192,
        }
        try:
            self._committed = Consumer({**reader, "isolation.level": "read_committed"})
            self._uncommitted = Consumer({**reader, "isolation.level": "read_uncommitted"})
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error

    def close(self) -> None:
        """Close the connections."""
        self._committed.close()
        self._uncommitted.close()

    def range(self) -> LogRange:
        """Return the readable range. Raises KafkaCallFailed."""
        return self._range(self._committed)

    def _range(self, consumer: Consumer) -> LogRange:
        try:
            low, high = consumer.get_watermark_offsets(self._partition(), self._left())
        except KafkaException as error:
            raise self._failed(error) from error
        return LogRange(low, high)

    def at(self, offset: int) -> LogRecord | None:
        """Return the committed record at an offset within the range; None if there is none."""
        return self._exactly(self._committed, offset)

    def at_uncommitted(self, offset: int) -> LogRecord | None:
        """Return the record at an offset, including aborted and open transactions; None if there is none."""
        self._range(self._uncommitted)
        return self._exactly(self._uncommitted, offset)

    def find(self, judge: Judge, timestamp_ms: int) -> LogRecord | NotThere:
        """Return the record with this timestamp for which `judge` returns 0. Raises KafkaCallFailed."""
        first = self._first_with_timestamp(self._committed, timestamp_ms)
        if first is None:
            return NotThere(later_there=False)
        after = first
        for count, record in enumerate(self._read(self._committed, first)):
            verdict = judge(record)
            if verdict == 0:
                return record
            if verdict is not None and verdict > 0:
                return NotThere(later_there=True)
            after = record.offset + 1
            if count >= SCANNED_RECORDS:
                return self._halve(judge, after)
        return NotThere(later_there=False)

    def _halve(self, judge: Judge, low: int) -> LogRecord | NotThere:
        high, later_there = self.range().high, False
        while high - low > HALVED_DOWN_TO:
            middle = (low + high) // 2
            found = self._next_of_origin(judge, middle, high)
            if found is None:
                high = middle
                continue
            record, verdict = found
            if verdict == 0:
                return record
            if verdict < 0:
                low = record.offset + 1
            else:
                high, later_there = middle, True
        while low < high:
            found = self._next_of_origin(judge, low, high)
            if found is None:
                break
            record, verdict = found
            if verdict == 0:
                return record
            if verdict > 0:
                return NotThere(later_there=True)
            low = record.offset + 1
        return NotThere(later_there)

    def _next_of_origin(self, judge: Judge, low: int, high: int) -> tuple[LogRecord, int] | None:
        for record in self._read(self._committed, low):
            if record.offset >= high:
                return None
            verdict = judge(record)
            if verdict is not None:
                return record, verdict
        return None

    def arrived_at_ms(self, record: LogRecord, *, compacted: bool) -> int | None:
        """Return when a record was in the log at the latest, by the broker's clock; None if unknown.

        This is the timestamp of the first transaction marker after the record. Readers do not get markers: the
        marker is the first offset that a reader of everything does not get, but that the time index has all the
        same, unless a record before it has a later timestamp. Then that is the bound, if it is not in the future.
        (`compacted`: an offset that readers do not get may have been a record.) Raises KafkaCallFailed.
        """
        marker = self._first_gap(record.offset)
        if marker is None:
            return None
        # The highest timestamp up to the marker: its own, or the one that hides it. Usually it is close to the
        # record's, so the steps double until they have passed it, and are then halved.
        reached, found, step, passed = record.timestamp_ms, record.offset, 1, False
        while step >= 1:
            first = self._first_with_timestamp(self._uncommitted, reached + step)
            if first is not None and first <= marker:
                reached, found = reached + step, first
            else:
                passed = True
            step = step // 2 if passed else step * 2
        hidden = found != marker
        return None if reached > time.time() * 1000 or (hidden and compacted) else reached

    def _first_gap(self, offset: int) -> int | None:
        # Requested first: a client that has to find a partition's leader waits half a second between attempts.
        high = self._range(self._uncommitted).high
        expected = offset
        for record in self._read(self._uncommitted, offset):
            if record.offset != expected:
                return expected
            expected += 1
            if expected - offset > _MARKER_RECORDS:
                return None
        return expected if expected < high else None

    def _exactly(self, consumer: Consumer, offset: int) -> LogRecord | None:
        record = next(self._read(consumer, offset), None)
        return record if record is not None and record.offset == offset else None

    def _read(self, consumer: Consumer, offset: int) -> Iterator[LogRecord]:
        """Yield the records from an offset to the present end."""
        try:
            consumer.assign([self._partition(offset)])
            while True:
                # Wait for one record only: a call for many waits until it has that many.
                messages = consumer.consume(1, min(0.2, self._left()))
                for message in messages + consumer.consume(_CHUNK_RECORDS, 0):
                    error = message.error()
                    if error is None:
                        yield _record(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return
                    elif error.fatal() or not error.retriable():
                        raise KafkaException(error)
                self._left()
        except KafkaException as error:
            raise self._failed(error) from error

    def _first_with_timestamp(self, consumer: Consumer, timestamp_ms: int) -> int | None:
        """Return the first offset with this timestamp or a later one; None if there is none."""
        while True:
            try:
                (answer,) = consumer.offsets_for_times([self._partition(max(0, timestamp_ms))], self._left())
            except KafkaException as error:
                raise self._failed(error) from error
            if answer.error is None:
                return answer.offset if answer.offset >= 0 else None
            failure = KafkaException(answer.error)
            if answer.error.code() != KafkaError._UNKNOWN_PARTITION or self._is_over():
                raise self._failed(failure)
            # A broker learns of a new topic slightly later than the client that created it.
            time.sleep(_NOT_HEARD_OF_SECONDS)

    def _partition(self, offset: int | None = None) -> TopicPartition:
        place = self._place
        if offset is None:
            return TopicPartition(place.topic, place.partition)
        return TopicPartition(place.topic, place.partition, offset)

    def _is_over(self) -> bool:
        return time.monotonic() + _NOT_HEARD_OF_SECONDS > self._deadline

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise KafkaCallFailed(self._reasons.last or f"the search did not end within {self._seconds:g} s")
        return left

    def _failed(self, error: BaseException) -> KafkaCallFailed:
        return KafkaCallFailed(self._reasons.last or sentence(error))


def _record(message: Message) -> LogRecord:
    offset = message.offset()
    assert offset is not None
    # Copies of records with timestamp 0 have 1: librdkafka takes 0 for none (`record_loop.py`).
    return LogRecord(offset, message.timestamp()[1] or 1, headers_of(message))
