"""Merge of a topic's partitions by timestamp, forward or backward, never against the order of offsets.

A record can be given out once the next record of every other partition is known. So a partition that is far ahead
is stopped until the others have caught up, and read again from where it was.

Searches scan hundreds of thousands of records a second, so what is kept of all partitions is given out in bulk
where nothing else has to be fetched. Merging record by record gives the same order as a stable sort by the latest
timestamp so far of each partition.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate

from confluent_kafka import Message

from backend.kafka.search.record_cursors import Cursor
from backend.kafka.search.sieved_records import Record
from backend.kafka.search.topic_reader import TimeOver, TopicReader

BUFFER_BYTES = 32 * 1024 * 1024
"""Bytes that all cursors of a merge keep at most, besides one record whose turn it is."""
_BATCH_BYTES = 4 * 1024 * 1024
_WAIT_SECONDS = 0.2


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
    def next_length(self) -> int:
        """Return how many messages the next record stands for; 0 if it is not known."""
        upcoming = None if self._unknown or not self._known else self._cursors[self._known[0][1]].next_record
        return 0 if upcoming is None else upcoming.length

    @property
    def positions(self) -> dict[int, int]:
        """Return the position of each partition."""
        return {partition: cursor.position for partition, cursor in self._cursors.items()}

    def take(
        self, most_records: int, most_bytes: int, *, at_least_one: bool, ahead: int | None = None
    ) -> list[Record]:
        """Give out the next records, several megabytes at most.

        None if the next one is more than `most_records` or has more than `most_bytes`, unless `at_least_one` asks
        for it all the same. `ahead` of a partition are fetched in the meantime, by default as many as are wanted.
        """
        taken: list[Record] = []
        size = count = 0
        for cursor in self._cursors.values():
            cursor.ahead = ahead or most_records
        try:
            self._reader.left()
            while count < most_records and size < _BATCH_BYTES:
                if self._unknown:
                    self._fetch()
                    continue
                if not self._known:
                    break
                if merged := self._merged(most_records - count, min(most_bytes, _BATCH_BYTES) - size):
                    taken += merged
                    size += sum([record.size for record in merged])
                    count += sum([record.length for record in merged])
                    continue
                cursor = self._cursors[self._known[0][1]]
                upcoming = cursor.next_record
                assert upcoming is not None
                is_beyond = size + upcoming.size > most_bytes or count + upcoming.length > most_records
                if is_beyond and (taken or not at_least_one):
                    break
                heapq.heappop(self._known)
                if cursor.records:
                    record = cursor.upcoming(1)
                    cursor.give_out(record)
                    taken += record
                    size += upcoming.size
                    count += upcoming.length
                else:
                    cursor.is_next = True
                self._sort_in(cursor)
        except TimeOver as over:
            self.time_over = over
        return taken

    def _merged(self, most_records: int, most_bytes: int) -> list[Record]:
        """Give out the next records whose order does not depend on anything that is not kept, within the bounds.

        The next record of all partitions must be known.
        """
        columns: dict[int, list[Record]] = {}
        times: dict[int, list[int]] = {}
        ends: list[tuple[int, int]] = []
        for partition in sorted(self._cursors):
            cursor = self._cursors[partition]
            if cursor.is_over:
                continue
            columns[partition] = column = cursor.upcoming(most_records)
            # A record with an earlier timestamp than one before it follows that one at once.
            times[partition] = list(accumulate([self._sign * each.timestamp_ms for each in column], max))
            if len(column) < len(cursor.records):
                ends.append((times[partition][-1], partition))
            elif not cursor.is_complete:
                last = column[-1] if column else cursor.next_record
                assert last is not None
                ends.append((times[partition][-1] if column else self._sign * last.timestamp_ms, partition))
        records, order = _before(min(ends, default=None), columns, times)
        sizes = list(accumulate([record.size for record in records]))
        counts = list(accumulate([record.length for record in records]))
        taken = records[: min(bisect_right(counts, most_records), bisect_right(sizes, most_bytes))]
        if not taken:
            return taken
        given = Counter(order[: len(taken)])
        for partition, count in given.items():
            self._cursors[partition].give_out(columns[partition][:count])
        self._known = []
        for cursor in self._cursors.values():
            if not cursor.is_over:
                self._sort_in(cursor)
        return taken

    def _fetch(self) -> None:
        """Read until the time is over or something was fetched."""
        due = {cursor.partition: cursor.begin() for cursor in self._cursors.values() if cursor.is_due}
        self._reader.begin(due)
        self._assigned |= due.keys()
        spare = BUFFER_BYTES - sum(cursor.kept_bytes for cursor in self._cursors.values())
        fetched: dict[int | None, list[Message]] = defaultdict(list)
        for message in self._reader.read(min(_WAIT_SECONDS, self._reader.left())):
            fetched[message.partition()].append(message)
        for partition, messages in fetched.items():
            assert partition is not None
            cursor = self._cursors[partition]
            if cursor.is_reading:
                spare -= cursor.hear(messages, spare)
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


def _before(
    end: tuple[int, int] | None, columns: Mapping[int, list[Record]], times: Mapping[int, list[int]]
) -> tuple[list[Record], list[int]]:
    """Return the records up to `end` (a time and its partition) in one order, and the partition of each."""
    records: list[Record] = []
    keys: list[int] = []
    partitions: list[int] = []
    for partition, column in columns.items():
        count = len(column)
        if end is not None:
            cut = bisect_right if partition <= end[1] else bisect_left
            count = cut(times[partition], end[0])
        records += column[:count]
        keys += times[partition][:count]
        partitions += [partition] * count
    if len(columns) == 1:
        return records, partitions
    # Stable: records of one time stay in the order of their partitions, and of their offsets.
    order = sorted(range(len(records)), key=keys.__getitem__)
    return [records[place] for place in order], [partitions[place] for place in order]
