"""Measurements of a task's streams: committed records, by their timestamps."""

from __future__ import annotations

from typing import Any

import pytest

from backend.kafka.copy import measuring
from backend.kafka.copy.measuring import Copies, Measures, StreamMeasure

NOW_MS = 1_800_000_000_000
ORDERS, ITEMS = "acme/retail/prod/orders", "acme/retail/prod/items"


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring.time, "time", lambda: NOW_MS / 1000)


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock, to be set."""
    at = [1000.0]
    monkeypatch.setattr(measuring.time, "monotonic", lambda: at[0])
    return at


def copies(*records: tuple[int, int]) -> Copies:
    found = Copies()
    for size, timestamp_ms in records:
        found.add(1, size, timestamp_ms, timestamp_ms)
    return found


def taken(measures: Measures) -> dict[str, StreamMeasure]:
    return {each.stream: each for each in measures.take_changed()}


def lags(measures: Measures, *partitions: tuple[str, int | None]) -> int | None:
    """Take measurements of one partition after the other, each with 100 records."""
    return measures.lags((stream, (stream, n), lag, 100) for n, (stream, lag) in enumerate(partitions))


def expect(measure: StreamMeasure, **facts: Any) -> None:
    assert {name: getattr(measure, name) for name in facts} == facts


def test_the_latency_is_that_of_the_oldest_record_and_the_age_of_the_newest() -> None:
    measures, handed = Measures(), copies((10, NOW_MS - 50), (20, NOW_MS - 400), (30, NOW_MS - 90))
    measures.committed(ORDERS, handed, None)
    expect(taken(measures)[ORDERS], records=3, size=60, newest_ms=NOW_MS - 50, latency_ms=400)
    # It is counted once, and what goes back in time makes nothing newer.
    measures.committed(ORDERS, handed, None)
    assert taken(measures) == {}
    measures.committed(ORDERS, copies((1, NOW_MS - 9000)), None)
    expect(taken(measures)[ORDERS], records=4, size=61, newest_ms=NOW_MS - 50, latency_ms=9000)


def test_records_of_the_future_and_records_without_a_time() -> None:
    measures = Measures()
    measures.committed(ORDERS, copies((1, NOW_MS + 5000)), None)
    expect(taken(measures)[ORDERS], latency_ms=0, newest_ms=NOW_MS + 5000)
    measures.committed(ITEMS, copies((1, -1), (1, 0)), None)
    expect(taken(measures)[ITEMS], records=2, latency_ms=None, newest_ms=None)


def test_what_was_aborted_does_not_count() -> None:
    measures, handed = Measures(), copies((10, NOW_MS))
    handed.clear()
    measures.committed(ORDERS, handed, None)
    assert taken(measures) == {}


def test_lags_of_partitions_add_up_by_stream_and_one_that_is_not_known_is_told(seconds: list[float]) -> None:
    measures = Measures()
    assert lags(measures, (ORDERS, 3), (ITEMS, 0), (ORDERS, 4)) == 7
    found = taken(measures)
    assert (found[ORDERS].lag_records, found[ITEMS].lag_records) == (7, 0)
    assert lags(measures, (ORDERS, 3), (ITEMS, 0), (ORDERS, 4)) == 7
    seconds[0] += 5
    assert taken(measures) == {}, "nothing is new"
    seconds[0] += 5
    assert lags(measures, (ORDERS, None), (ITEMS, 5), (ORDERS, 4)) is None
    found = taken(measures)
    assert (found[ORDERS].lag_records, found[ITEMS].lag_records) == (None, 5)
    assert lags(measures) == 0


def test_the_wait_is_that_of_the_slowest_partition_and_not_known_while_a_lag_is_not(seconds: list[float]) -> None:
    measures = Measures()
    assert measures.wait_seconds is None
    lags(measures, (ORDERS, 3), (ITEMS, 0))
    assert measures.wait_seconds == 0
    seconds[0] += 7
    lags(measures, (ORDERS, 3), (ITEMS, 2))
    assert measures.wait_seconds == 7
    lags(measures, (ORDERS, 3), (ITEMS, None))
    assert measures.wait_seconds is None
    seconds[0] += 1
    lags(measures, (ORDERS, 0), (ITEMS, 2))
    assert measures.wait_seconds == 8, "of what was not known it is known since when it waits"
    lags(measures, (ORDERS, 0), (ITEMS, 0))
    assert measures.wait_seconds == 0


def test_a_lag_alone_is_told_every_five_seconds_and_with_what_else_is_new(seconds: list[float]) -> None:
    measures = Measures()
    lags(measures, (ORDERS, 3), (ITEMS, 0))
    assert taken(measures).keys() == {ORDERS, ITEMS}, "what is seen for the first time is told at once"
    lags(measures, (ORDERS, 4), (ITEMS, 1))
    assert taken(measures) == {}
    measures.committed(ITEMS, copies((1, NOW_MS)), None)
    expect(taken(measures)[ITEMS], lag_records=1, records=1)
    seconds[0] += 5
    expect(taken(measures)[ORDERS], lag_records=4)
    assert taken(measures) == {}


def test_an_edge_that_skips_everything_moves_though_nothing_is_copied() -> None:
    measures, skipped = Measures(), Copies(100)
    skipped.add(0, 0, 0, NOW_MS - 30)
    measures.committed(ORDERS, skipped, 140)
    expect(taken(measures)[ORDERS], records=0, passed=40, newest_ms=NOW_MS - 30, latency_ms=None, copied_ms=None)
    measures.committed(ORDERS, skipped, 140)
    assert taken(measures) == {}, "nothing came"
    measures.committed(ORDERS, skipped, 90)  # a log that was cut off
    measures.committed(ORDERS, skipped, 95)
    expect(taken(measures)[ORDERS], passed=45, newest_ms=NOW_MS - 30)


def test_what_is_passed_counts_from_the_first_position_that_is_known() -> None:
    measures, copied = Measures(), Copies()
    copied.add(3, 30, NOW_MS, NOW_MS)
    measures.committed(ORDERS, copied, 70)
    expect(taken(measures)[ORDERS], records=3, passed=0)
    measures.committed(ORDERS, copied, 72)
    expect(taken(measures)[ORDERS], records=3, passed=2, copied_ms=NOW_MS)


def test_a_checkpoint_counts_when_it_was_written_and_the_first_when_it_was_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measures = Measures()
    measures.checkpoint_taken(ORDERS)
    expect(taken(measures)[ORDERS], checkpoint_ms=NOW_MS)
    monkeypatch.setattr(measuring.time, "time", lambda: NOW_MS / 1000 + 60)
    measures.checkpoint_taken(ORDERS)
    expect(taken(measures)[ORDERS], checkpoint_ms=NOW_MS)
    measures.checkpointed([ORDERS])
    expect(taken(measures)[ORDERS], checkpoint_ms=NOW_MS + 60_000)


def test_what_is_taken_stays_as_it_was() -> None:
    measures = Measures()
    measures.committed(ORDERS, copies((10, NOW_MS)), None)
    first = taken(measures)[ORDERS]
    measures.checkpointed([ORDERS])
    assert first.checkpoint_ms is None
    expect(taken(measures)[ORDERS], records=1, checkpoint_ms=NOW_MS)
