"""Numbers of series, and which series have none when there are too many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.base.errors import ValueInvalid
from backend.domain.history.metrics import METRICS, metric_called
from backend.domain.history.series_ids import KnownSeries, Series, assign_ids
from backend.domain.history.zone_bytes import bytes_since

START = datetime(2026, 1, 1, tzinfo=UTC)
EDGE, LAG, RATE = "edge.lag_records", "group.lag_records", "group.records_per_second"


def known(*series: Series) -> dict[Series, KnownSeries]:
    """Return series with the numbers of their order; the first was seen longest ago."""
    return {
        each: KnownSeries(id=number, seen_at=START + timedelta(hours=number)) for number, each in enumerate(series)
    }


def test_new_series_get_the_smallest_numbers_that_are_free() -> None:
    a, b, c = (EDGE, "a:1"), (EDGE, "b:1"), (EDGE, "c:1")
    first = assign_ids({b: 1.0, a: 2.0}, {}, 10)
    assert (first.ids, first.left_out) == ({a: 0, b: 1}, 0)
    given_c = {a: KnownSeries(id=0, seen_at=START), c: KnownSeries(id=2, seen_at=START)}
    second = assign_ids({a: 1.0, b: 1.0, c: 1.0}, given_c, 10)
    assert (second.ids, list(second.new), list(second.ended)) == ({a: 0, b: 1, c: 2}, [b], [])


def test_series_that_are_gone_give_up_their_numbers_first() -> None:
    gone, older, here, new = (LAG, "c/gone"), (LAG, "c/older"), (LAG, "c/here"), (LAG, "c/new")
    found = assign_ids({here: 0.0, new: 0.0}, known(older, gone, here), 3)
    assert (found.ids, list(found.ended), found.left_out) == ({here: 2, new: 0}, [older], 0)


def test_a_group_keeps_its_number_unless_another_has_more_than_twice_its_lag() -> None:
    old, new = (LAG, "c/old"), (LAG, "c/new")
    assert assign_ids({old: 10.0, new: 20.0}, known(old), 1).ids == {old: 0}
    found = assign_ids({old: 10.0, new: 30.0}, known(old), 1)
    assert (found.ids, list(found.ended), found.left_out) == ({new: 0}, [old], 1)


def test_both_measures_of_a_group_rank_by_its_lag() -> None:
    values = {(LAG, "c/a"): 5.0, (RATE, "c/a"): 900.0, (LAG, "c/b"): 50.0, (RATE, "c/b"): 0.0}
    assert assign_ids(values, {}, 2).ids.keys() == {(LAG, "c/b"), (RATE, "c/b")}


SERIES = st.tuples(st.sampled_from([EDGE, LAG, RATE, "broker.leaders"]), st.sampled_from("abcdefgh"))


@given(st.lists(st.dictionaries(SERIES, st.floats(0, 1e6), max_size=20), max_size=8), st.integers(1, 12))
def test_numbers_are_small_and_each_belongs_to_one_series(minutes: list[dict[Series, float]], most: int) -> None:
    series: dict[Series, KnownSeries] = {}
    for minute, values in enumerate(minutes):
        found = assign_ids(values, series, most)
        for each in found.ended:
            del series[each]
        assert not series.keys() & set(found.new)
        at = START + timedelta(minutes=minute)
        series |= {each: KnownSeries(id=number, seen_at=at) for each, number in found.ids.items()}
        numbers = [each.id for each in series.values()]
        assert len(set(numbers)) == len(numbers) and all(number < most for number in numbers)
        assert len(found.ids) + found.left_out == len(values)
        assert len(found.ids) == min(most, len(values))
        ranked = {each for each in values if each[0] in (EDGE, "broker.leaders")}
        assert len(ranked & found.ids.keys()) == min(most, len(ranked)), "groups come last"


def test_an_unknown_metric_is_told_with_the_known_ones() -> None:
    with pytest.raises(ValueInvalid) as refused:
        metric_called("edge.lag")
    assert all(name in refused.value.detail for name in METRICS)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {}, {}),
        ({"n": {}}, {"n": {}}, {"all": 0}),
        ({"n": {"a>b": 5}}, {"n": {"a>b": 7, "b>a": 1}}, {"all": 3, "a>b": 2, "b>a": 1}),
        ({"n": {"a>b": 5}}, {"n": {"a>b": 4}}, {"all": 4, "a>b": 4}),
        # The counter of a node that was silent, or has no row any more, may be that of days.
        ({"n": {"a>b": 5}}, {"n": {"a>b": 6}, "m": {"a>b": 10**12}}, {"all": 1, "a>b": 1}),
        ({"n": {"a>b": 5}}, {"m": {"a>b": 10**12}}, {}),
        ({}, {"n": {"a>b": 10**12}}, {}),
        ({"n": {"a>b": 5}}, {}, {}),
    ],
)
def test_only_what_a_node_has_counted_since_its_last_report_counts(
    before: dict[str, dict[str, int]], now: dict[str, dict[str, int]], expected: dict[str, int]
) -> None:
    assert bytes_since(before, now) == expected
