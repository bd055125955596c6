"""Merge of a topic's partitions by timestamp, forward or backward, never against the order of offsets.

A record can be given out once the next record of every other partition is known. So a partition that is far ahead
is stopped until the others have caught up, and read again from where it was. Of a record that is too large to be
kept until its turn, only the timestamp is kept; it is fetched a second time.

Kafka reads logs forward only. Backward, a partition is read in windows, from the end down. A window has ended when
a record behind it or the end of the log was reached, since its own last offsets may have no readable record. A
window that yields little makes the next one larger; one with more bytes than may be kept is halved.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Message

from backend.kafka.base.message_headers import headers_of
from backend.kafka.search.topic_reader import TimeOver, TopicReader

BUFFER_BYTES = 16 * 1024 * 1024
"""Bytes that all cursors of a merge keep at most, besides one record whose turn it is."""
_BATCH_BYTES = 4 * 1024 * 1024
_MESSAGE_BYTES = 500  # of a record in memory, besides its contents
_WINDOW_RECORDS = 4_000
_WAIT_SECONDS = 0.2


class Record(NamedTuple):
    """A message with its size: the bytes of key, value and headers."""

    message: Message
    offset: int
    timestamp_ms: int
    size: int


class Refused(NamedTuple):
    """A record that was not kept."""

    timestamp_ms: int
    size: int


class Cursor(ABC):
    """Progress in one partition; `room`: bytes of records that it may keep."""

    def __init__(self, partition: int, position: int, room: int) -> None:
        self.partition = partition
        self.position = position
        """Forward, everything below was given out; backward, everything from here on."""
        self.ahead = 0
        """Number of records that may be given out next; forward, not more of them are kept."""
        self.is_reading = False
        self.is_next = False
        """It is the turn of this partition's record, which is kept however large it is."""
        self.records: deque[Record] = deque()
        self.refused: Refused | None = None
        """The next record after those that are kept, if it was not kept."""
        self.kept_bytes = 0
        self._fetched = position
        self._room = room

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Return whether everything was given out."""

    @property
    @abstractmethod
    def is_due(self) -> bool:
        """Return whether the partition is not read now, but should be."""

    @property
    @abstractmethod
    def next_record(self) -> Record | Refused | None:
        """Return the record to be given out next; None if it is not known."""

    @abstractmethod
    def begin(self) -> int:
        """Start reading; return from which offset."""

    @abstractmethod
    def pop(self) -> Record:
        """Give out the next record."""

    @abstractmethod
    def _hear_record(self, record: Record, spare: int) -> None: ...

    @abstractmethod
    def _hear_end(self, offset: int) -> None: ...

    def hear(self, message: Message, spare: int) -> int:
        """Take in what was fetched; return the additional bytes that are now kept, of `spare` in all cursors."""
        offset, kept = message.offset(), self.kept_bytes
        assert offset is not None
        if message.error() is not None:
            self._hear_end(offset)
        elif offset >= self._fetched:
            self._hear_record(Record(message, offset, message.timestamp()[1], _size_of(message)), spare)
        return self.kept_bytes - kept

    def _fits(self, record: Record, spare: int, *, is_first: bool) -> bool:
        """Account for a record that is to be kept, if there is room for it."""
        size = record.size + _MESSAGE_BYTES
        if self.kept_bytes + size > self._room and not (is_first and (self.is_next or size <= spare)):
            return False
        self.kept_bytes += size
        self._fetched = record.offset + 1
        self.refused = None
        return True

    def _forget(self, record: Record) -> None:
        self.kept_bytes -= record.size + _MESSAGE_BYTES
        self.is_next = False


class ForwardCursor(Cursor):
    """Progress in a partition that is read up to `end`, exclusive."""

    def __init__(self, partition: int, position: int, end: int, room: int) -> None:
        super().__init__(partition, position, room)
        self._end = end
        self._is_fetched = position >= end

    @property
    def is_over(self) -> bool:
        """Return whether everything was given out."""
        return self._is_fetched and not self.records

    @property
    def is_due(self) -> bool:
        """Return whether the partition is not read now, but should be."""
        if self.is_reading or self._is_fetched:
            return False
        if self.refused is None or self.is_next:
            return True
        return len(self.records) <= self.ahead // 2 and self.kept_bytes + self.refused.size <= self._room // 2

    @property
    def next_record(self) -> Record | Refused | None:
        """Return the record to be given out next; None if it is not known."""
        return self.records[0] if self.records else self.refused

    def begin(self) -> int:
        """Start reading; return from which offset."""
        self.is_reading = True
        return self._fetched

    def pop(self) -> Record:
        """Give out the next record."""
        record = self.records.popleft()
        self._forget(record)
        self.position = self._end if self.is_over else record.offset + 1
        return record

    def _hear_record(self, record: Record, spare: int) -> None:
        if record.offset >= self._end:
            self._finish()
        elif len(self.records) >= self.ahead or not self._fits(record, spare, is_first=not self.records):
            self.refused = Refused(record.timestamp_ms, record.size)
            self.is_reading = False
        else:
            self.records.append(record)
            if record.offset + 1 == self._end:
                self._finish()

    def _hear_end(self, offset: int) -> None:
        if offset >= self._end:
            self._finish()

    def _finish(self) -> None:
        self.is_reading, self._is_fetched = False, True
        if not self.records:
            self.position = self._end


class BackwardCursor(Cursor):
    """Progress in a partition that is read down to `low`; `window`: offsets of its first window."""

    def __init__(self, partition: int, position: int, low: int, room: int, window: int) -> None:
        super().__init__(partition, position, room)
        self._low = low
        self._window = window
        self._first = self._above = position
        self._coming: list[Record] = []
        """Records of the window from `_first` to `_above`, exclusive, which is being read."""

    @property
    def is_over(self) -> bool:
        """Return whether everything was given out."""
        return self.position <= self._low

    @property
    def is_due(self) -> bool:
        """Return whether the partition is not read now, but should be."""
        if self.is_reading or self._above <= self._low:
            return False
        if not self.records:
            return self.refused is None or self.is_next
        # The next window is read early: one window after the other is a request each.
        is_low = len(self.records) <= self.ahead // 8 and self.kept_bytes <= self._room // 4
        return is_low and self.refused is None

    @property
    def next_record(self) -> Record | Refused | None:
        """Return the record to be given out next; None if it is not known."""
        if self.records:
            return self.records[-1]
        return None if self.is_reading else self.refused

    def begin(self) -> int:
        """Start reading; return from which offset."""
        self.is_reading = True
        self._first = self._fetched = max(self._low, self._above - self._window)
        return self._first

    def pop(self) -> Record:
        """Give out the next record."""
        record = self.records.pop()
        self._forget(record)
        self.position = record.offset if self.records else self._above
        return record

    def _hear_record(self, record: Record, spare: int) -> None:
        length = self._above - self._first
        if record.offset >= self._above:
            self._finish()
        elif self._fits(record, spare, is_first=not self.records and not self._coming):
            self._coming.append(record)
            if record.offset + 1 == self._above:
                self._finish()
        else:
            self.is_reading = False
            if length == 1:
                self.refused = Refused(record.timestamp_ms, record.size)
            else:
                self._window = length // 2
                self.kept_bytes -= sum(each.size + _MESSAGE_BYTES for each in self._coming)
                self._coming = []

    def _hear_end(self, offset: int) -> None:
        if offset >= self._above:
            self._finish()

    def _finish(self) -> None:
        if len(self._coming) <= _WINDOW_RECORDS // 2 and self.kept_bytes <= self._room // 4:
            self._window *= 2
        self.is_reading = False
        self.records.extendleft(reversed(self._coming))
        self._coming = []
        self._above = self._first
        if not self.records:
            self.position = self._above


class Merge:
    """Records of several partitions in one order; used by one thread. Raises KafkaCallFailed."""

    def __init__(self, reader: TopicReader, cursors: Sequence[Cursor], *, backward: bool) -> None:
        self._reader = reader
        self._cursors = {cursor.partition: cursor for cursor in cursors}
        self._sign = -1 if backward else 1
        self._known: list[tuple[int, int]] = []
        """Heap of the partitions whose next record is known: (its timestamp, negative if backward, partition)."""
        self._unknown = {cursor.partition for cursor in cursors if not cursor.is_over}
        self._assigned: set[int] = set()
        self.time_over: TimeOver | None = None
        """Tells that the reader's time is over, in which case `take` may return less than there is."""

    @property
    def is_over(self) -> bool:
        """Return whether everything was given out."""
        return not self._known and not self._unknown

    @property
    def positions(self) -> dict[int, int]:
        """Return the position of each partition."""
        return {partition: cursor.position for partition, cursor in self._cursors.items()}

    def take(self, most_records: int, most_bytes: int, *, at_least_one: bool) -> list[Record]:
        """Give out the next records, several megabytes at most.

        None if the next one has more than `most_bytes`, unless `at_least_one` asks for it all the same.
        """
        taken: list[Record] = []
        size = 0
        for cursor in self._cursors.values():
            cursor.ahead = most_records
        try:
            self._reader.left()
            while len(taken) < most_records and size < _BATCH_BYTES:
                if self._unknown:
                    self._fetch()
                    continue
                if not self._known:
                    break
                cursor = self._cursors[self._known[0][1]]
                upcoming = cursor.next_record
                assert upcoming is not None
                if size + upcoming.size > most_bytes and (taken or not at_least_one):
                    break
                heapq.heappop(self._known)
                if cursor.records:
                    taken.append(cursor.pop())
                    size += upcoming.size
                else:
                    cursor.is_next = True
                self._sort_in(cursor)
        except TimeOver as over:
            self.time_over = over
        return taken

    def _fetch(self) -> None:
        """Read until the time is over or something was fetched."""
        due = {cursor.partition: cursor.begin() for cursor in self._cursors.values() if cursor.is_due}
        self._reader.begin(due)
        self._assigned |= due.keys()
        spare = BUFFER_BYTES - sum(cursor.kept_bytes for cursor in self._cursors.values())
        for message in self._reader.read(min(_WAIT_SECONDS, self._reader.left())):
            partition = message.partition()
            assert partition is not None
            cursor = self._cursors[partition]
            # What follows a refused record in the same answer does not follow what is kept.
            if cursor.is_reading:
                spare -= cursor.hear(message, spare)
        stopped = {partition for partition in self._assigned if not self._cursors[partition].is_reading}
        self._reader.stop(stopped)
        self._assigned -= stopped
        for partition in list(self._unknown):
            self._sort_in(self._cursors[partition])

    def _sort_in(self, cursor: Cursor) -> None:
        """Put a cursor that is not in the heap where it belongs."""
        upcoming = cursor.next_record
        self._unknown.discard(cursor.partition)
        if upcoming is not None and (cursor.records or not cursor.is_next):
            heapq.heappush(self._known, (self._sign * upcoming.timestamp_ms, cursor.partition))
        elif not cursor.is_over:
            self._unknown.add(cursor.partition)


def _size_of(message: Message) -> int:
    size = len(message.key() or b"") + len(message.value() or b"")
    for name, value in headers_of(message):
        size += len(name) + len(value or b"")
    return size
