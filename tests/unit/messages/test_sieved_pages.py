"""Pages of searches whose filter on bytes is applied as messages are fetched: the same as without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from unittest import mock

import pytest
from confluent_kafka import KafkaError, Message
from hypothesis import given
from hypothesis import strategies as st

from backend.kafka.search import message_reading
from backend.kafka.search.message_reading import (
    After,
    Before,
    Bounds,
    Earliest,
    EndedBy,
    Newest,
    Page,
    Selected,
    Start,
    read_messages,
)
from backend.kafka.search.record_search import LogRange
from backend.kafka.search.topic_reader import TopicPlace

PLACE = TopicPlace("", {}, "t", (0, 1, 2))
MANY = Bounds(10.0, 10**6, 10**9)


class LogInMemory:
    """Stands for a TopicReader; `logs` are messages by partition, with gaps between their offsets."""

    def __init__(self, logs: Mapping[int, Sequence[Message]], chunk: int) -> None:
        self._logs, self._chunk = logs, chunk
        self._positions: dict[int, int] = {}
        self._turn = 0

    def ranges(self) -> dict[int, LogRange]:
        return {
            partition: LogRange(0, 1 + (log[-1].offset() or 0) if log else 0)
            for partition, log in self._logs.items()
        }

    def left(self) -> float:
        return 10.0

    def close(self) -> None:
        pass

    def begin(self, positions: Mapping[int, int]) -> None:
        self._positions |= positions

    def stop(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)

    def read(self, wait_seconds: float) -> list[Message]:
        assert self._positions, "a page that reads nothing does not end"
        self._turn += 1
        partition = sorted(self._positions)[self._turn % len(self._positions)]
        begin = self._positions[partition]
        found = [each for each in self._logs[partition] if (each.offset() or 0) >= begin][: self._chunk]
        if len(found) == self._chunk:
            self._positions[partition] = 1 + (found[-1].offset() or 0)
            return found
        end = self.ranges()[partition].high
        self._positions[partition] = end
        error = KafkaError(KafkaError._PARTITION_EOF)
        return [*found, Message(topic="t", partition=partition, offset=end, error=error)]


def pages(reader: LogInMemory, start: Start, limit: int, bounds: Bounds, *, is_sieved: bool) -> list[Page]:
    def matching(messages: Sequence[Message]) -> list[Message]:
        return [each for each in messages if each.value() == b"wanted"]

    def select(messages: list[Message]) -> list[Selected]:
        assert not is_sieved or matching(messages) == messages
        return [Selected(each, None) for each in matching(messages)]

    found: list[Page] = []
    passing = matching if is_sieved else None
    with mock.patch.object(message_reading, "TopicReader", lambda *_, **__: reader):
        while not found or found[-1].after is not None:
            if found:
                start = (Before if found[-1].backward else After)(found[-1].after or {})
            page = read_messages(PLACE, start, limit, bounds, select, is_search=True, passing=passing)
            assert page.after is None or not found or page.after != found[-1].after
            found.append(page)
    return found


def places(found: Iterable[Page]) -> list[tuple[int | None, int | None]]:
    return [(each.message.partition(), each.message.offset()) for page in found for each in page.found]


@st.composite
def logs(draw: st.DrawFn) -> dict[int, list[Message]]:
    """Draw partitions with gaps, and timestamps that do not always rise."""
    found = {}
    for partition in PLACE.partitions:
        rows = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(-30, 40), st.booleans()), max_size=40))
        offset, time, log = -1, 1_000, []
        for gap, later, wanted in rows:
            offset, time = offset + gap, time + later
            value = b"wanted" if wanted else b"other"
            log.append(Message(topic="t", partition=partition, offset=offset, value=value, timestamp=(1, time)))
        found[partition] = log
    return found


STARTS = st.sampled_from([Earliest(), Newest()])


@given(logs(), st.integers(1, 50), STARTS, st.integers(1, 30))
def test_the_messages_that_pass_come_in_the_same_order(
    found: dict[int, list[Message]], chunk: int, start: Start, limit: int
) -> None:
    plain = pages(LogInMemory(found, chunk), start, 10_000, MANY, is_sieved=False)
    (sieved,) = pages(LogInMemory(found, chunk), start, 10_000, MANY, is_sieved=True)
    assert places([sieved]) == places(plain)
    assert (sieved.scanned_records, sieved.scanned_bytes) == (plain[0].scanned_records, plain[0].scanned_bytes)
    walked = pages(LogInMemory(found, chunk), start, limit, MANY, is_sieved=True)
    assert sorted(places(walked)) == sorted(places(plain))


@given(logs(), st.integers(1, 50), STARTS, st.integers(1, 300), st.integers(1, 300))
def test_bounds_hold_and_nothing_is_skipped(
    found: dict[int, list[Message]], chunk: int, start: Start, records: int, size: int
) -> None:
    expected = places(pages(LogInMemory(found, chunk), start, 10_000, MANY, is_sieved=False))
    bounds = Bounds(10.0, records, size)
    walked = pages(LogInMemory(found, chunk), start, 5, bounds, is_sieved=True)
    assert sorted(places(walked)) == sorted(expected)
    for page in walked:
        assert page.scanned_records <= records
        assert page.scanned_bytes <= size or page.scanned_records == 1


@pytest.mark.parametrize("start", [Earliest(), Newest()], ids=["forward", "backward"])
def test_a_bound_of_records_that_ends_between_two_runs_is_told(start: Start) -> None:
    log = [Message(topic="t", partition=0, offset=n, value=b"other", timestamp=(1, n)) for n in range(3_000)]
    found = pages(LogInMemory({0: log}, 1_000), start, 5, Bounds(10.0, 1_000, 10**9), is_sieved=True)
    assert [page.ended_by for page in found] == [EndedBy.RECORDS] * (len(found) - 1) + [EndedBy.END]
    assert {page.scanned_records for page in found[:-1]} <= set(range(980, 1_001))
