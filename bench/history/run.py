"""Size and speed of the history of measures: python bench/history/run.py [--groups N].

Starts a PostgreSQL of its own, fills both resolutions up to their retention with random samples, and prints a
Markdown table: the size of the tables, and the durations of a minute's sample and of charts. No peer: there is no
other history to compare it with.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(PROJECT_ROOT), str(PROJECT_ROOT / "bench")]

import sqlalchemy as sa  # noqa: E402
from local_postgres import postgres  # noqa: E402
from sqlalchemy import Engine  # noqa: E402

from backend.domain.history.series_ids import Series  # noqa: E402
from backend.domain.history.steps import MINUTE, TEN_MINUTES  # noqa: E402
from backend.queries.history import measure_writing, measures  # noqa: E402
from backend.queries.history.measure_tables import SERIES_A_BLOCK  # noqa: E402
from backend.settings import Settings  # noqa: E402

TIMES = 5
FILL = """
INSERT INTO measure_samples
SELECT :step, block, :first + make_interval(secs => number * :step),
  ARRAY(SELECT (random() * 1e6)::real FROM generate_series(1, :places) WHERE block >= 0 AND number >= 0)
FROM generate_series(0, :blocks - 1) block, generate_series(0, :rows - 1) number
"""


def values_of(groups: int) -> dict[Series, float]:
    """Return values of an estate of five clusters with 20 distributors, 15 brokers and these groups on each."""
    clusters = [f"cluster-{number}" for number in range(1, 6)]
    edges = [f"{cluster}:{level}" for cluster in clusters for level in range(1, 5)]
    brokers = [f"{cluster}/{broker}" for cluster in clusters for broker in range(1, 4)]
    named = [f"{clusters[number % 5]}/acme-retail-prod-group-{number}" for number in range(groups)]
    subjects = {"edge": edges, "cluster": clusters, "broker": brokers, "group": named}
    return {
        (metric, subject): random.uniform(0, 1e6)
        for metric in measures.METRICS
        for subject in subjects.get(metric.partition(".")[0], ())
    }


def fill(engine: Engine, at: datetime, values: dict[Series, float], kept: measure_writing.Kept) -> None:
    """Write samples of both resolutions up to their retention."""
    with engine.begin() as connection:
        measure_writing.write_minute(connection, at - kept.longest, values, kept)
        connection.execute(sa.text("DELETE FROM measure_samples"))
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        for step in (MINUTE, TEN_MINUTES):
            given = {
                "step": step,
                "rows": int(kept.retention(step).total_seconds()) // step,
                "first": at - kept.retention(step),
                "blocks": -(-len(values) // SERIES_A_BLOCK),
                "places": SERIES_A_BLOCK,
            }
            connection.execute(sa.text(FILL), given)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE measure_samples"))


def median_ms(work: Callable[[int], object]) -> float:
    """Return the median duration of a few runs, in milliseconds."""
    taken = []
    for number in range(TIMES):
        began = time.perf_counter()
        work(number)
        taken.append(1000 * (time.perf_counter() - began))
    return statistics.median(taken)


def charts(engine: Engine, at: datetime, groups: int) -> dict[str, float]:
    """Return the durations of charts, in milliseconds."""
    now_ms = round(at.timestamp() * 1000)
    hour_ms = 3_600_000

    def read(hours: int, subjects: list[str], step_ms: int | None = None) -> None:
        with engine.connect() as connection:
            found = measures.read_many(
                connection, "group.lag_records", subjects, now_ms - hours * hour_ms, now_ms, step_ms
            )
        points = [value for each in found.values() for _, value in each.points]
        assert None not in points, "the bench has samples of every step"

    def name(number: int) -> str:
        return f"cluster-{number % 5 + 1}/acme-retail-prod-group-{number}"

    return {
        "one group, 1 h": median_ms(lambda number: read(1, [name(number)])),
        "one group, 24 h": median_ms(lambda number: read(24, [name(number)])),
        "one group, 24 h, every minute": median_ms(lambda number: read(24, [name(number)], 60_000)),
        "one group, 7 d": median_ms(lambda number: read(168, [name(number)])),
        "100 groups, 1 h": median_ms(
            lambda number: read(1, [name(each) for each in range(number, groups, max(1, groups // 100))])
        ),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--groups", type=int, default=10_000)
    groups = options.parse_args().groups
    settings = Settings()
    kept = measure_writing.Kept(
        minute_hours=settings.history_minute_hours,
        hours=settings.history_hours,
        most_series=settings.history_most_series,
    )
    at = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    values = values_of(groups)
    with postgres() as engine:
        fill(engine, at, values, kept)

        def sample(number: int) -> None:
            with engine.begin() as connection:
                measure_writing.write_minute(connection, at + timedelta(minutes=number), values, kept)
                measure_writing.write_ten_minutes(connection, at + timedelta(minutes=number))
                measure_writing.delete_old(connection, at + timedelta(minutes=number), kept)

        durations = charts(engine, at, groups)
        cpu_began = time.process_time()
        durations["write a minute"] = median_ms(sample)
        cpu_ms = 1000 * (time.process_time() - cpu_began) / TIMES
        with engine.connect() as connection:
            size = connection.scalar(sa.text("SELECT pg_total_relation_size('measure_samples')")) or 0
            series_size = connection.scalar(sa.text("SELECT pg_total_relation_size('measure_series')")) or 0
    print(f"| {len(values):,} series of {groups:,} groups | |\n|---|---|")
    print(f"| samples of {kept.minute_hours:g} h and {kept.hours:g} h | {size / 1e6:,.0f} MB |")
    print(f"| a series | {size / len(values):,.0f} bytes |")
    print(f"| names of series | {series_size / 1e6:,.1f} MB |")
    for what, milliseconds in durations.items():
        print(f"| {what} | {milliseconds:,.1f} ms |")
    print(f"| CPU of writing a minute, without the database's | {cpu_ms:,.0f} ms |")


if __name__ == "__main__":
    main()
