"""Samples of measures that are taken by hand: of any minute, and of any values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from backend.domain.history.series_ids import Assignment
from backend.queries.history import measure_writing, measures
from backend.queries.history.measure_tables import measure_samples, measure_series
from tests.support.database.postgres import Database

KEPT = measure_writing.Kept(minute_hours=25, hours=192, most_series=1000)
LAG, GROUP_LAG = "edge.lag_records", "group.lag_records"


def sample(
    database: Database,
    at: datetime,
    values: Mapping[str, float],
    kept: measure_writing.Kept = KEPT,
    metric: str = LAG,
) -> Assignment:
    """Write the minute `at`, with what follows a minute; the values are those of subjects of one metric."""
    return sample_all(database, at, {(metric, subject): value for subject, value in values.items()}, kept)


def sample_all(
    database: Database,
    at: datetime,
    values: Mapping[tuple[str, str], float],
    kept: measure_writing.Kept = KEPT,
) -> Assignment:
    """Write a minute of any metrics."""
    with database.engine.begin() as connection:
        assert measure_writing.lock(connection)
        given = measure_writing.write_minute(connection, at, values, kept)
        measure_writing.write_ten_minutes(connection, at)
        measure_writing.delete_old(connection, at, kept)
    return given


def rows(database: Database, step: int) -> list[tuple[datetime, int]]:
    """Return times and blocks of the samples of a resolution."""
    of = measure_samples.c
    query = sa.select(of.at, of.block).where(of.step_seconds == step).order_by(of.at, of.block)
    with database.engine.connect() as connection:
        return [(row.at, row.block) for row in connection.execute(query)]


def ids(database: Database) -> dict[str, int]:
    """Return the numbers of all series, by subject."""
    with database.engine.connect() as connection:
        return {row.subject: row.id for row in connection.execute(sa.select(measure_series))}


def points(database: Database, subject: str, since: datetime, until: datetime, **more: Any) -> list[float | None]:
    """Return the values of a series."""
    with database.engine.connect() as connection:
        from_ms, to_ms = (round(each.timestamp() * 1000) for each in (since, until))
        found = measures.read_measure(connection, more.pop("metric", LAG), subject, from_ms, to_ms, **more)
    return [value for _, value in found.points]
