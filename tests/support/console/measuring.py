"""Measures over time for pages: series with samples up to the present minute, as the sampler stores them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from backend.domain.history.metrics import METRICS
from backend.domain.history.steps import MINUTE, TEN_MINUTES
from backend.queries.history.measure_tables import SERIES_A_BLOCK, measure_samples, measure_series
from tests.support.database.postgres import Database

Series = Mapping[tuple[str, str], Sequence[float | None]]
"""(metric, subject) -> values, the newest last."""


def measured(database: Database, series: Series, step_seconds: int = MINUTE) -> None:
    """Store samples, one a step until the present one, beside those that are stored."""
    now = datetime.now(UTC).timestamp() // step_seconds * step_seconds
    length = max(map(len, series.values()))
    begun = datetime.fromtimestamp(now - length * step_seconds, UTC) - timedelta(days=8)
    with database.engine.begin() as connection:
        known = {(row.metric, row.subject): row.id for row in connection.execute(sa.select(measure_series))}
        new = [each for each in series if each not in known]
        ids = known | {each: len(known) + n for n, each in enumerate(new)}
        if new:
            rows = [
                {
                    "id": ids[each],
                    "metric": each[0],
                    "subject": each[1],
                    "since": begun,
                    "seen_at": datetime.now(UTC),
                }
                for each in new
            ]
            connection.execute(sa.insert(measure_series), rows)
        for block in sorted({ids[each] // SERIES_A_BLOCK for each in series}):
            connection.execute(sa.insert(measure_samples), _rows(series, ids, block, step_seconds, now, length))


def _rows(
    series: Series, ids: Mapping[tuple[str, str], int], block: int, step_seconds: int, now: float, length: int
) -> list[dict[str, object]]:
    rows = []
    for ago in range(length):
        values: list[float | None] = [None] * SERIES_A_BLOCK
        for each, found in series.items():
            if ids[each] // SERIES_A_BLOCK == block and ago < len(found):
                values[ids[each] % SERIES_A_BLOCK] = found[-1 - ago]
        at = datetime.fromtimestamp(now - ago * step_seconds, UTC)
        rows.append({"step_seconds": step_seconds, "block": block, "at": at, "values": values})
    return rows


SUBJECTS = {
    "CLUSTER:LEVEL": ("c1:2", "c2:1", "c2:2", "c3:1", "c3:2"),
    "CLUSTER/GROUP": ("c1/acme-retail-prod-billing", "c2/acme-retail-prod-billing", "c1/globex-shop-prod-stock"),
    "CLUSTER": ("c1", "c2", "c3"),
    "CLUSTER/BROKER": tuple(f"c1/{broker}" for broker in range(1, 7)),
    "all or FROM>TO": ("all", "az1>az2"),
}
_SIZES = {"records": 900.0, "records/s": 240.0, "s": 1.5, "B/s": 3.2e6, "B": 4.1e7, "partitions": 6.0}


def a_week(database: Database) -> None:
    """Store a week of every sampled metric for the clusters of `visitors`: days, nights, peaks, and two gaps."""
    series = {
        (info.name, subject): _walk(
            _SIZES[info.unit] / (1 + n), info.unit == "partitions", f"{info.name} {subject}"
        )
        for info in METRICS.values()
        if info.is_sampled
        for n, subject in enumerate(SUBJECTS[info.subject])
    }
    measured(database, {each: values[-24 * 60 :] for each, values in series.items()})
    measured(database, {each: values[::10] for each, values in series.items()}, TEN_MINUTES)


def _walk(size: float, whole: bool, seed: str) -> list[float | None]:
    chance, wave, burst = random.Random(seed), 0.0, 0.0
    values: list[float | None] = []
    minutes = 7 * 24 * 60
    for minute in range(minutes):
        wave += chance.gauss(-wave * 0.02, 0.05)
        burst = 4 + 3 * chance.random() if chance.random() < 0.0006 else burst * 0.94
        day = 1 + 0.6 * math.sin(2 * math.pi * (minute + 60 * (len(seed) % 5)) / 1440)
        value = max(0.0, size * (0.25 * day + 0.1 * wave + 0.25 * burst))
        is_gap = 5200 < minute < 5400 or minutes - 640 < minute < minutes - 560
        values.append(None if is_gap else float(round(value)) if whole else value)
    return values
