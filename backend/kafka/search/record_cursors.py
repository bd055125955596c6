"""Progress of a merge in one partition, forward or backward: which records are kept, and which come next.

Of a record that is too large to be kept until its turn, only the timestamp is kept; it is fetched a second time.

Kafka reads logs forward only. Backward, a partition is read in windows, from the end down. A window has ended when
a record behind it or the end of the log was reached, since its own last offsets may have no readable record. A
window that yields little makes the next one larger; one with more bytes than may be kept is halved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import islice

from backend.kafka.base.message_headers import Message
from backend.kafka.search.sieved_records import (
    Record,
    Refused,
    Sieve,
    kept_size,
    length_of,
    offset_of,
    records_of,
    refused,
)

_WINDOW_RECORDS, _SIEVED_WINDOW_RECORDS = 4_000, 40_000


class Cursor(ABC):
    """Progress in one partition; `room`: bytes of records that it may keep."""

    def __init__(self, partition: int, position: int, room: int, sieve: Sieve | None) -> None:
        self.partition = partition
        self.position = position
        """Forward, everything below was given out; backward, everything from here on."""
        self.ahead = 0
        """Number of records that may be given out next; forward, not more of them are kept or left out."""
        self.is_reading = False
        self.is_next = False
        """It is the turn of this partition's record, which is kept however large it is."""
        self.records: deque[Record] = deque()
        self.refused: Refused | None = None
        """The next record after those that are kept, if it was not kept."""
        self.kept_bytes = 0
        self._fetched = position
        self._room = room
        self._sieve = sieve

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Return whether everything was given out."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Return whether everything that was not given out is kept."""

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
    def upcoming(self, most: int) -> list[Record]:
        """Return the kept records that are given out next, at most so many."""

    @abstractmethod
    def give_out(self, records: Sequence[Record]) -> None:
        """Give out these records, the first of `upcoming`."""

    @property
    @abstractmethod
    def _end_of_reading(self) -> int:
        """Return the offset at which the present reading ends, exclusive."""

    @abstractmethod
    def _reached(self, timestamps: Sequence[int]) -> int:
        """Return the timestamp that a merge has reached after messages with these timestamps."""

    @abstractmethod
    def _may_hear_all(self, records: Sequence[Record]) -> bool:
        """Return whether these records, for which there are bytes left, can be kept without another condition."""

    @abstractmethod
    def _keep_all(self, records: Sequence[Record]) -> None: ...

    @abstractmethod
    def _hear_record(self, record: Record, spare: int) -> None: ...

    @abstractmethod
    def _hear_end(self, offset: int) -> None: ...

    def hear(self, messages: Sequence[Message], spare: int) -> int:
        """Take in what was fetched; return the additional bytes that are now kept, of `spare` in all cursors."""
        kept = self.kept_bytes
        readable = [each for each in messages if each.error() is None]
        ends = (
            [offset_of(each) for each in messages if each.error() is not None]
            if len(readable) < len(messages)
            else []
        )
        if readable and offset_of(readable[-1]) >= self._end_of_reading:
            ends.append(offset_of(readable[-1]))
            readable = readable[: bisect_left(readable, self._end_of_reading, key=offset_of)]
        if readable and offset_of(readable[0]) < self._fetched:
            readable = readable[bisect_left(readable, self._fetched, key=offset_of) :]
        records = records_of(self.partition, readable, self._sieve, self._reached)
        size = kept_size(records)
        if records and kept + size <= self._room and self._may_hear_all(records):
            self.kept_bytes += size
            self._fetched = records[-1].last + 1
            self.refused = None
            self._keep_all(records)
        else:
            for record in records:
                # What follows a refused record in the same answer does not follow what is kept.
                if self.is_reading:
                    self._hear_record(record, spare - (self.kept_bytes - kept))
        for end in ends:
            # What was refused comes before the end.
            if self.is_reading:
                self._hear_end(end)
        return self.kept_bytes - kept

    def _fits(self, record: Record, spare: int, *, is_first: bool) -> bool:
        """Account for a record that is to be kept, if there is room for it."""
        if self.kept_bytes + record.kept > self._room and not (
            is_first and (self.is_next or record.kept <= spare)
        ):
            return False
        self.kept_bytes += record.kept
        self._fetched = record.last + 1
        self.refused = None
        return True

    def _forget(self, records: Sequence[Record]) -> None:
        self.kept_bytes -= kept_size(records)
        self.is_next = False


class ForwardCursor(Cursor):
    """Progress in a partition that is read up to `end`, exclusive."""

    def __init__(self, partition: int, position: int, end: int, room: int, sieve: Sieve | None) -> None:
        super().__init__(partition, position, room, sieve)
        self._end = end
        self._is_fetched = position >= end
        self._length = 0
        """Messages that `records` stand for."""

    @property
    def is_over(self) -> bool:
        """Return whether everything was given out."""
        return self._is_fetched and not self.records

    @property
    def is_complete(self) -> bool:
        """Return whether everything that was not given out is kept."""
        return self._is_fetched

    @property
    def is_due(self) -> bool:
        """Return whether the partition is not read now, but should be."""
        if self.is_reading or self._is_fetched:
            return False
        if self.refused is None or self.is_next:
            return True
        return self._length <= self.ahead // 2 and self.kept_bytes + self.refused.kept <= self._room // 2

    @property
    def next_record(self) -> Record | Refused | None:
        """Return the record to be given out next; None if it is not known."""
        return self.records[0] if self.records else self.refused

    def begin(self) -> int:
        """Start reading; return from which offset."""
        self.is_reading = True
        return self._fetched

    def upcoming(self, most: int) -> list[Record]:
        """Return the kept records that are given out next, at most so many."""
        return list(islice(self.records, most))

    def give_out(self, records: Sequence[Record]) -> None:
        """Give out these records, the first of `upcoming`."""
        for _ in records:
            self.records.popleft()
        self._forget(records)
        self._length -= length_of(records)
        self.position = self._end if self.is_over else records[-1].last + 1

    @property
    def _end_of_reading(self) -> int:
        return self._end

    def _reached(self, timestamps: Sequence[int]) -> int:
        return max(timestamps)

    def _may_hear_all(self, records: Sequence[Record]) -> bool:
        return self._length + length_of(records) <= self.ahead

    def _keep_all(self, records: Sequence[Record]) -> None:
        self.records.extend(records)
        self._length += length_of(records)
        if records[-1].last + 1 == self._end:
            self._finish()

    def _hear_record(self, record: Record, spare: int) -> None:
        if self._length >= self.ahead or not self._fits(record, spare, is_first=not self.records):
            self.refused = refused(record)
            self.is_reading = False
        else:
            self._keep_all([record])

    def _hear_end(self, offset: int) -> None:
        if offset >= self._end:
            self._finish()

    def _finish(self) -> None:
        self.is_reading, self._is_fetched = False, True
        if not self.records:
            self.position = self._end


class BackwardCursor(Cursor):
    """Progress in a partition that is read down to `low`; `window`: offsets of its first window."""

    def __init__(
        self, partition: int, position: int, low: int, room: int, window: int, sieve: Sieve | None
    ) -> None:
        super().__init__(partition, position, room, sieve)
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
    def is_complete(self) -> bool:
        """Return whether everything that was not given out is kept."""
        return self._above <= self._low

    @property
    def is_due(self) -> bool:
        """Return whether the partition is not read now, but should be."""
        if self.is_reading or self._above <= self._low:
            return False
        if not self.records:
            return self.refused is None or self.is_next
        # The next window is read early: one window after the other is a request each.
        is_low = length_of(self.records) <= self.ahead // 8 and self.kept_bytes <= self._room // 4
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

    def upcoming(self, most: int) -> list[Record]:
        """Return the kept records that are given out next, at most so many."""
        return list(islice(reversed(self.records), most))

    def give_out(self, records: Sequence[Record]) -> None:
        """Give out these records, the first of `upcoming`."""
        for _ in records:
            self.records.pop()
        self._forget(records)
        self.position = records[-1].offset if self.records else self._above

    @property
    def _end_of_reading(self) -> int:
        return self._above

    def _reached(self, timestamps: Sequence[int]) -> int:
        return min(timestamps)

    def _may_hear_all(self, records: Sequence[Record]) -> bool:
        return True

    def _keep_all(self, records: Sequence[Record]) -> None:
        self._coming.extend(records)
        if records[-1].last + 1 == self._above:
            self._finish()

    def _hear_record(self, record: Record, spare: int) -> None:
        if self._fits(record, spare, is_first=not self.records and not self._coming):
            self._keep_all([record])
        else:
            self.is_reading = False
            length = self._above - self._first
            if length == 1:
                self.refused = refused(record)
            else:
                self._window = length // 2
                self.kept_bytes -= kept_size(self._coming)
                self._coming = []

    def _hear_end(self, offset: int) -> None:
        if offset >= self._above:
            self._finish()

    def _finish(self) -> None:
        most = _WINDOW_RECORDS if self._sieve is None else _SIEVED_WINDOW_RECORDS
        if length_of(self._coming) <= most // 2 and self.kept_bytes <= self._room // 4:
            self._window *= 2
        self.is_reading = False
        self.records.extendleft(reversed(self._coming))
        self._coming = []
        self._above = self._first
        if not self.records:
            self.position = self._above
