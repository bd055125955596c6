"""Lag of groups: in records, as rates, and as time."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.names.readings import Reader
from backend.domain.offsets.group_lag import MOST_SAMPLES, EndHistory, OffsetRate, TimeLag, lag_records
from backend.domain.offsets.group_places import GroupPlaces

STEPS = st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 10_000)), min_size=1, max_size=60)


def history(*samples: tuple[int, int]) -> EndHistory:
    (at, end), *others = samples
    found = EndHistory(at, end)
    for each in others:
        found.observe(*each)
    return found


@pytest.mark.parametrize(
    ("committed", "end", "lag"),
    [(3, 10, 7), (10, 10, 0), (11, 10, 0), (None, 10, None), (3, None, None), (None, None, None)],
)
def test_lag_in_records(committed: int | None, end: int | None, lag: int | None) -> None:
    assert lag_records(committed, end) == lag


@pytest.mark.parametrize(
    ("committed", "lag"),
    [
        (300, TimeLag(ms=0)),
        (301, TimeLag(ms=0)),
        (200, TimeLag(ms=10_000)),
        (250, TimeLag(ms=5_000)),
        (100, TimeLag(ms=20_000)),
        (99, TimeLag(at_least_ms=30_000)),
    ],
)
def test_time_lag_is_interpolated_between_observations_of_the_end(committed: int, lag: TimeLag) -> None:
    found = history((1_000, 100), (11_000, 100), (21_000, 200), (31_000, 300))
    assert found.time_lag(committed, 31_000) == lag


def test_an_idle_log_remembers_when_its_last_record_came() -> None:
    found = history((0, 100), *((1_000 * at, 100) for at in range(1, 500)), (500_000, 110))
    assert found.time_lag(100, 500_000) == TimeLag(ms=1_000)
    assert found.rate == pytest.approx(10 / 31, rel=0.6)


def test_a_log_created_anew_starts_a_new_history() -> None:
    found = history((0, 100), (10_000, 200), (20_000, 5))
    assert found.rate is None
    assert found.time_lag(9, 20_000) == TimeLag(ms=0)
    assert found.time_lag(0, 25_000) == TimeLag(at_least_ms=5_000)


def test_hours_are_remembered_in_a_few_samples() -> None:
    found = history(*((15_000 * step, 10 * step) for step in range(2_000)))
    now = 15_000 * 1_999
    for step in (100, 1_000, 1_900, 1_990):
        exact = now - 15_000 * step
        told = found.time_lag(10 * step, now).ms
        assert told is not None and abs(told - exact) <= 0.01 * exact, "records came evenly"


@given(STEPS, st.integers(0, 600_000), st.integers(0, 1_000_000))
def test_time_lag_is_never_negative_nor_longer_than_the_history(
    steps: list[tuple[int, int]], committed: int, wait: int
) -> None:
    times, ends = (list(accumulate(each)) for each in zip(*steps, strict=True))
    found = history(*zip(times, ends, strict=True))
    now = times[-1] + wait
    lag = found.time_lag(committed, now)
    for ms in (lag.ms, lag.at_least_ms):
        assert ms is None or 0 <= ms <= now - times[0]
    assert (lag.ms is None) != (lag.at_least_ms is None)
    assert (lag.ms == 0) >= (committed >= ends[-1])
    assert len(found._times) <= MOST_SAMPLES


@given(STEPS)
def test_a_rate_is_never_negative_and_at_most_that_of_the_quickest_step(steps: list[tuple[int, int]]) -> None:
    at, offset = 0, 0
    rate = OffsetRate(at, offset)
    quickest = 0.0
    for ms, more in steps:
        at, offset = at + ms, offset + more
        quickest = max(quickest, 1000 * more / ms)
        found = rate.observe(at, offset)
        assert found is not None and 0 <= found <= quickest * 1.000001


def test_a_rate_follows_a_change_within_two_minutes_and_starts_anew_after_a_reset() -> None:
    rate = OffsetRate(0, 0)
    at = offset = 0
    for _ in range(40):
        at, offset = at + 15_000, offset + 1_500
        assert rate.observe(at, offset) == pytest.approx(100)
    for _ in range(8):
        at += 15_000
        found = rate.observe(at, offset)
    assert found == 0
    assert rate.observe(at + 15_000, 10) is None
    assert rate.observe(at + 30_000, 25) == pytest.approx(1)


PLACES = [("acme", "retail", "prod"), ("acme", "retail", "test"), ("acme", "shop", "prod")]


@pytest.mark.parametrize(
    ("group_format", "name", "streams", "found"),
    [
        ("{tenant}-{instance}-{environment}-{group}", "acme-retail-prod-g", (), ("acme/retail/prod", "g")),
        ("{tenant}-{instance}-{environment}-{group}", "acme-retail-prod-", (), (None, None)),
        ("{tenant}-{instance}-{environment}-{group}", "other-retail-prod-g", (), (None, None)),
        ("{tenant}-{environment}-{group}", "acme-prod-g", (), (None, None)),
        ("{tenant}-{environment}-{group}", "acme-prod-g", ("acme/shop/prod/s",), ("acme/shop/prod", "g")),
        ("{tenant}-{environment}-{group}", "acme-prod-g", ("globex/shop/prod/s",), (None, None)),
        ("{tenant}-{environment}-{group}", "acme-test-g", (), ("acme/retail/test", "g")),
        ("{group}.{environment}.{instance}.{tenant}", "g.prod.retail.acme", (), ("acme/retail/prod", "g")),
        ("{tenant}-{instance}-{environment}-{group}", "acme-retail-prod-\u202e", (), (None, None)),
        ("{group}", "g", (), (None, None)),
        ("{group}", "g", ("acme/shop/prod/s",), ("acme/shop/prod", "g")),
        ("{group}", "g", ("acme/shop/prod/s", "acme/retail/test/s"), (None, None)),
        ("{group}-{environment}", "g-test", (), ("acme/retail/test", "g")),
        ("{group}-{environment}", "-test", (), (None, None)),
        ("{group}-{environment}-{group}", "g-test-g", (), ("acme/retail/test", "g")),
        ("{group}-{environment}-{group}", "g-test-h", (), (None, None)),
    ],
)
def test_a_technical_name_is_read_back(
    group_format: str, name: str, streams: tuple[str, ...], found: tuple[str | None, str | None]
) -> None:
    assert GroupPlaces(group_format, PLACES).read(name, streams) == found


@pytest.mark.parametrize(
    ("group_format", "name"), [("{group}.{tenant}", "g.t123"), ("{tenant}.{group}", "t123.g"), ("{group}", "g")]
)
def test_a_name_is_compared_with_one_pattern_however_many_environments_there_are(
    monkeypatch: pytest.MonkeyPatch, group_format: str, name: str
) -> None:
    tried: list[str] = []
    within = Reader.within
    monkeypatch.setattr(Reader, "within", lambda reader, name: tried.append(name) or within(reader, name))
    places = GroupPlaces(group_format, [(f"t{number}", "i", "e") for number in range(300)])
    assert places.read(name, ["t123/i/e/s"]) == ("t123/i/e", "g")
    assert tried == [name]
