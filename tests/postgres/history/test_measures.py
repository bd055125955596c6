"""Measures over time: samples at two resolutions become the points of a chart."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from backend.domain.base.errors import ValueInvalid
from backend.domain.history.metrics import Aggregate
from backend.domain.history.steps import Sample, in_steps
from backend.queries.history import measures
from backend.queries.history.largest import largest_since
from backend.queries.history.measure_tables import measure_samples, measure_series
from tests.support.database.postgres import Database

LAG = "edge.lag_records"


def series(database: Database, identity: int, metric: str, subject: str, since_s: int = 0) -> None:
    at = datetime.fromtimestamp(since_s, UTC)
    row = {"id": identity, "metric": metric, "subject": subject, "since": at, "seen_at": at}
    with database.engine.begin() as connection:
        connection.execute(sa.insert(measure_series).values(row))


def samples(database: Database, step: int, block: int, rows: Mapping[int, Sequence[float | None]]) -> None:
    with database.engine.begin() as connection:
        for at, values in rows.items():
            row = {"step_seconds": step, "block": block, "at": datetime.fromtimestamp(at, UTC), "values": values}
            connection.execute(sa.insert(measure_samples).values(row))


def test_points_come_from_the_place_of_their_series_and_gaps_have_no_value(database: Database) -> None:
    hour = int(time.time()) // 3600 * 3600
    series(database, 0, LAG, "c1:1")
    series(database, 101, LAG, "c2:1")
    series(database, 102, LAG, "c3:1", since_s=hour + 120)
    samples(database, 60, 0, {hour: [5], hour + 120: [7.5]})
    samples(database, 60, 1, {hour: [None, 1, 9], hour + 60: [3, 2, 9], hour + 120: [3]})
    with database.engine.connect() as connection:
        found = measures.read_many(
            connection, LAG, ["c1:1", "c2:1", "c3:1", "c4:1"], 1000 * hour, 1000 * hour + 180_000, 60_000
        )
        one = measures.read_measure(connection, LAG, "c1:1", 1000 * hour, 1000 * hour + 180_000)
        assert measures.list_subjects(connection, LAG) == ["c1:1", "c2:1", "c3:1"]
        assert measures.list_subjects(connection, LAG, {"acme"}) == []
        assert measures.has_subject(connection, LAG, "c1:1")
        assert not measures.has_subject(connection, LAG, "c4:1")
        assert not measures.has_subject(connection, LAG, "c1:1", {"acme"})
        with pytest.raises(ValueInvalid, match=LAG):
            measures.list_subjects(connection, "edge.lag")
    times = [1000 * hour + minute * 60_000 for minute in range(3)]
    assert [value for _, value in found["c1:1"].points] == [5, None, 7.5]
    assert [value for _, value in found["c2:1"].points] == [1, 2, None]
    # What was before it is of a former series at the same place.
    assert [value for _, value in found["c3:1"].points] == [None, None, None]
    assert [at for at, _ in found["c4:1"].points] == times and found["c4:1"].points[0][1] is None
    assert one == found["c1:1"] and one.step_ms == 60_000


def test_the_newest_minutes_are_added_to_samples_of_ten_minutes(database: Database) -> None:
    day = int(time.time()) // 86_400 * 86_400
    series(database, 3, "edge.records_per_second", "c1:1")
    samples(database, 600, 0, {day: [None, None, None, 4], day + 600: [None, None, None, 8]})
    samples(database, 60, 0, {day + 600: [0, 0, 0, 100], day + 1200: [0, 0, 0, 2], day + 1260: [0, 0, 0, 4]})
    with database.engine.connect() as connection:
        found = measures.read_measure(
            connection, "edge.records_per_second", "c1:1", 1000 * day, 1000 * day + 1_800_000, 600_000
        )
        whole = measures.read_measure(
            connection, "edge.records_per_second", "c1:1", 1000 * day + 100, 1000 * day + 1_800_000, 1_800_000
        )
    assert [value for _, value in found.points] == [4, 8, 3]
    assert whole.points == [(1000 * day, pytest.approx((10 * 4 + 10 * 8 + 2 + 4) / 22))]


def test_subjects_are_ordered_by_their_own_samples_of_late(database: Database) -> None:
    now = int(time.time()) // 60 * 60
    series(database, 0, LAG, "c1:1")
    series(database, 1, "group.lag_records", "c1/g")
    series(database, 205, LAG, "c2:1")
    series(database, 206, LAG, "c3:1", since_s=now - 60)
    series(database, 207, LAG, "silent:1")
    series(database, 208, LAG, "c0:1")
    # Another metric, a former series at the same place, and samples of ten minutes and of earlier do not count.
    samples(database, 60, 0, {now - 120: [4, 90], now - 60: [6, 90], now: [5]})
    samples(database, 60, 2, {now - 7200: [None] * 5 + [80, 80, 80], now - 120: [None] * 5 + [7, 95, None, 6]})
    samples(database, 60, 2, {now: [None] * 5 + [3, 8]})
    samples(database, 600, 2, {now: [None] * 5 + [70, 70, 70]})
    with database.engine.connect() as connection:
        since = datetime.fromtimestamp(now - 3600, UTC)
        assert largest_since(connection, LAG, since) == ["c3:1", "c2:1", "c0:1", "c1:1"]
        assert largest_since(connection, "group.lag_records", since) == ["c1/g"]
        assert largest_since(connection, "broker.bytes", since) == []


@pytest.mark.parametrize(
    ("metric", "aggregate"),
    [(LAG, Aggregate.MAX), ("edge.records_per_second", Aggregate.MEAN), ("zones.cross_zone_bytes", Aggregate.SUM)],
)
def test_no_more_samples_are_read_than_points_are_drawn(
    database: Database, monkeypatch: pytest.MonkeyPatch, metric: str, aggregate: Aggregate
) -> None:
    end = int(time.time()) // 3600 * 3600
    begun, hours = end - 12 * 3600, 3
    series(database, 2, metric, "x")
    chance = random.Random(7)
    tens = {at: chance.uniform(0, 1e4) for at in range(begun, end - 1200, 600) if at % 5400 != 600}
    ones = {at: chance.uniform(0, 1e4) for at in range(end - 1200, end, 60)}
    samples(database, 600, 0, {at: [None, 3.0, value] for at, value in tens.items()})
    samples(database, 60, 0, {at: [None, 3.0, value] for at, value in ones.items()})
    given: list[Sample] = []

    def counted(found: Iterable[Sample], *rest: Any) -> list[tuple[int, float | None]]:
        given.extend(found)
        return in_steps(given, *rest)

    monkeypatch.setattr(measures, "in_steps", counted)
    with database.engine.connect() as connection:
        found = measures.read_measure(connection, metric, "x", 1000 * begun, 1000 * end, hours * 3_600_000)
    raw = [(at, 600, value) for at, value in tens.items()] + [(at, 60, value) for at, value in ones.items()]
    first = 1000 * (begun // (3600 * hours) * 3600 * hours)
    expected = in_steps(raw, first, 1000 * end, hours * 3_600_000, aggregate)
    assert [at for at, _ in found.points] == [at for at, _ in expected]
    assert [value for _, value in found.points] == [pytest.approx(value, rel=1e-6) for _, value in expected]
    # The newest minutes are no part of ten minutes yet.
    assert len(given) <= len(expected) + 1
