"""Samples are written each minute and each ten minutes, and deleted; series get small numbers that are reused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from backend.queries.history import measure_writing, measures
from backend.queries.history.measure_tables import measure_series
from backend.settings import Settings
from tests.postgres.history.sampling import GROUP_LAG, KEPT, LAG, ids, points, rows, sample, sample_all
from tests.support.database.postgres import Database

MINUTE = timedelta(minutes=1)


def start() -> datetime:
    """Return a full hour, two hours ago or so: all samples of a test are in the past."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)


def test_a_missed_minute_has_no_value_and_ten_minutes_have_the_largest_lag(database: Database) -> None:
    at = start()
    for minute in range(12):
        if minute not in (3, 4):
            sample(database, at + minute * MINUTE, {"c1:1": minute if minute != 5 else 70, "c2:1": 0.5})
    found = points(database, "c1:1", at, at + 12 * MINUTE, step_ms=60_000)
    assert found == [0, 1, 2, None, None, 70, 6, 7, 8, 9, 10, 11]
    assert [each for each, _ in rows(database, 600)] == [at]
    assert points(database, "c1:1", at, at + 20 * MINUTE, step_ms=600_000) == [70, 11]
    assert points(database, "c2:1", at, at + 20 * MINUTE, step_ms=600_000) == [0.5, 0.5]


def test_each_metric_is_aggregated_as_it_declares(database: Database) -> None:
    at, rate, size = start(), "edge.records_per_second", "zones.cross_zone_bytes"
    for minute in range(11):
        sample_all(database, at + minute * MINUTE, {(rate, "c1:1"): minute, (size, "all"): minute})
    with database.engine.connect() as connection:
        since, until = round(at.timestamp() * 1000), round((at + 10 * MINUTE).timestamp() * 1000)
        for metric, subject, expected in ((rate, "c1:1", 4.5), (size, "all", 45)):
            found = measures.read_measure(connection, metric, subject, since, until, 600_000)
            assert [value for _, value in found.points] == [expected]


def test_windows_without_samples_of_ten_minutes_are_made_up_for(database: Database) -> None:
    at = start()
    with database.engine.begin() as connection:
        for minute in (0, 15, 25, 80):
            measure_writing.write_minute(connection, at + minute * MINUTE, {(LAG, "c1:1"): minute}, KEPT)
    sample(database, at + 90 * MINUTE, {"c1:1": 90})
    assert [each for each, _ in rows(database, 600)] == [at + each * MINUTE for each in (0, 10, 20, 80)]
    sample(database, at + 91 * MINUTE, {"c1:1": 90})
    assert len(rows(database, 600)) == 4


def test_a_minute_that_is_written_twice_stays_as_it_was(database: Database) -> None:
    at = start()
    sample(database, at, {"c1:1": 1})
    sample(database, at, {"c1:1": 2})
    assert points(database, "c1:1", at, at + MINUTE, step_ms=60_000) == [1]
    with database.engine.begin() as connection, database.engine.begin() as other:
        assert measure_writing.is_sampled(connection, at) and not measure_writing.is_sampled(other, at + MINUTE)
        assert measure_writing.lock(connection) and not measure_writing.lock(other)


def test_old_samples_are_deleted_each_resolution_by_its_age(database: Database) -> None:
    at = start()
    kept = replace(KEPT, minute_hours=1, hours=2)
    many = {f"c{number}:1": 1.0 for number in range(150)}
    for minutes in (0, 5, 10, 30, 65, 66, 125, 126):
        sample(database, at + minutes * MINUTE, many, kept)
    # Those that are an hour old, in both blocks; those of ten minutes are kept for two.
    assert rows(database, 60) == [(at + each * MINUTE, block) for each in (66, 125, 126) for block in (0, 1)]
    assert rows(database, 600) == [(at + each * MINUTE, block) for each in (10, 30, 60) for block in (0, 1)]


def test_the_smallest_number_is_reused_once_no_sample_of_its_series_is_kept(database: Database) -> None:
    at = start() - timedelta(days=20)
    sample(database, at, {"c1:1": 1, "c2:1": 2, "c3:1": 3})
    assert ids(database) == {"c1:1": 0, "c2:1": 1, "c3:1": 2}
    later = at + KEPT.longest
    sample(database, later, {"c1:1": 1, "c3:1": 3, "c4:1": 4})
    assert ids(database) == {"c1:1": 0, "c2:1": 1, "c3:1": 2, "c4:1": 3}
    # Unseen for longer than any sample is kept, and than the time of a series is not written anew.
    sample(database, later + measure_writing.SEEN_EVERY + MINUTE, {"c1:1": 1, "c3:1": 3, "c4:1": 4, "c5:1": 5})
    assert ids(database) == {"c1:1": 0, "c3:1": 2, "c4:1": 3, "c5:1": 1}


def test_a_series_that_is_sampled_keeps_its_number_and_is_rarely_updated(database: Database) -> None:
    at = start() - timedelta(days=20)

    def seen() -> datetime:
        with database.engine.connect() as connection:
            found: datetime = connection.execute(sa.select(measure_series.c.seen_at)).scalar_one()
            return found

    for hours, expected in ((0, 0), (5, 0), (7, 7), (12, 7), (230, 230)):
        sample(database, at + timedelta(hours=hours), {"c1:1": 1})
        assert seen() == at + timedelta(hours=expected)
    assert ids(database) == {"c1:1": 0}


def test_with_too_many_series_edges_come_first_and_then_groups_by_lag(database: Database) -> None:
    at, kept = start(), replace(KEPT, most_series=4)
    groups = {(GROUP_LAG, f"c1/{name}"): lag for name, lag in (("a", 5.0), ("b", 500.0), ("c", 50.0), ("d", 0.0))}
    first = sample_all(database, at, {(LAG, "c1:1"): 0.0, **groups}, kept)
    assert set(ids(database)) == {"c1:1", "c1/a", "c1/b", "c1/c"} and first.left_out == 1
    # A second edge ends the history of the group with the smallest lag.
    second = sample_all(database, at + MINUTE, {(LAG, "c1:1"): 0.0, (LAG, "c2:1"): 9.0, **groups}, kept)
    assert set(ids(database)) == {"c1:1", "c2:1", "c1/b", "c1/c"} and second.left_out == 2
    assert points(database, "c2:1", at, at + 2 * MINUTE, step_ms=60_000) == [None, 9]
    assert points(database, "c1/a", at, at + 2 * MINUTE, step_ms=60_000, metric=GROUP_LAG) == [None, None]
    with database.engine.connect() as connection:
        assert not measures.is_full(connection)


def test_the_history_is_full_only_while_as_many_series_are_sampled_as_may_be(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 130
    monkeypatch.setattr(measures, "settings", lambda: Settings(history_most_series=most))
    at, kept = start(), replace(KEPT, most_series=most)

    def is_full_after(minutes: int, first: int, groups: int) -> bool:
        lags = {f"c1/g{number}": 1.0 for number in range(first, first + groups)}
        sample(database, at + minutes * MINUTE, lags, kept, GROUP_LAG)
        with database.engine.connect() as connection:
            return measures.is_full(connection)

    assert not is_full_after(0, 0, most - 1)
    # All numbers are given, most of them to groups that are gone.
    assert not is_full_after(1, 120, 20)
    assert len(ids(database)) == most
    assert is_full_after(2, 300, most)
    assert is_full_after(3, 300, most + 9)
    assert not is_full_after(4, 300, most - 1)
