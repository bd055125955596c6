"""Write samples of measures: every minute, every ten minutes from those of the minutes, and delete old ones.

Rows are never updated, apart from the time when a series was last seen, every few hours. A row of block 0 is
always written, also without values: it tells that its time was sampled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import ARRAY, insert

from backend.domain.history.metrics import METRICS, Aggregate
from backend.domain.history.series_ids import Assignment, KnownSeries, Series, assign_ids
from backend.domain.history.steps import MINUTE, TEN_MINUTES, aggregated
from backend.queries.history.measure_tables import SERIES_A_BLOCK, measure_samples, measure_series

Row = Sequence[float | None]
"""Samples of a block's series, by their places."""
_LOCK = sa.func.pg_try_advisory_xact_lock(sa.func.hashtext("treeline.measures"))
SEEN_EVERY = timedelta(hours=6)
"""Age from which the time when a series was last seen is written anew."""
DELETED_AT_ONCE = timedelta(hours=1)
"""Time range of samples that are deleted at once; after a long pause the others follow, a minute later each."""
MOST_WINDOWS = 6
"""Windows of ten minutes that are computed at once."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Retention of samples, and the maximum number of series."""

    minute_hours: float
    hours: float
    most_series: int

    def retention(self, step_seconds: int) -> timedelta:
        """Return how long samples of a resolution are kept."""
        return timedelta(hours=self.minute_hours if step_seconds == MINUTE else self.hours)

    @property
    def longest(self) -> timedelta:
        """Return how long any sample is kept."""
        return max(self.retention(MINUTE), self.retention(TEN_MINUTES))


def lock(connection: Connection) -> bool:
    """Take the lock of writers until the transaction ends; return False if another process has it."""
    return bool(connection.scalar(sa.select(_LOCK)))


def database_time(connection: Connection) -> datetime:
    """Return the time of the database, by whose clock samples are dated."""
    now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return now.astimezone(UTC)


def is_sampled(connection: Connection, at: datetime) -> bool:
    """Return whether a minute has samples."""
    query = sa.select(sa.literal(1)).where(_of(MINUTE), measure_samples.c.block == 0, measure_samples.c.at == at)
    return connection.execute(query).one_or_none() is not None


def write_minute(connection: Connection, at: datetime, values: Mapping[Series, float], kept: Kept) -> Assignment:
    """Store the samples of a minute, under the lock; series get their numbers."""
    known = _known_series(connection, at - kept.longest - SEEN_EVERY)
    given = assign_ids(values, known, kept.most_series)
    _store_series(connection, at, given, known)
    blocks: dict[int, list[float | None]] = {0: []}
    for series, number in given.ids.items():
        block, place = divmod(number, SERIES_A_BLOCK)
        row = blocks.setdefault(block, [])
        row.extend([None] * (place + 1 - len(row)))
        row[place] = float(values[series])
    _insert(connection, MINUTE, at, blocks)
    return given


def _known_series(connection: Connection, unseen_since: datetime) -> dict[Series, KnownSeries]:
    """Return all series, after those are deleted that have no samples any more."""
    of = measure_series.c
    connection.execute(sa.delete(measure_series).where(of.seen_at < unseen_since))
    rows = connection.execute(sa.select(of.id, of.metric, of.subject, of.seen_at))
    return {(row.metric, row.subject): KnownSeries(id=row.id, seen_at=row.seen_at) for row in rows}


def _store_series(
    connection: Connection, at: datetime, given: Assignment, known: Mapping[Series, KnownSeries]
) -> None:
    of = measure_series.c
    if given.ended:
        gone = [known[each].id for each in given.ended]
        connection.execute(sa.delete(measure_series).where(_any(of.id, gone)))
    if given.new:
        rows = [
            {"id": given.ids[each], "metric": each[0], "subject": each[1], "since": at, "seen_at": at}
            for each in given.new
        ]
        connection.execute(sa.insert(measure_series), rows)
    late = [
        number for each, number in given.ids.items() if each in known and known[each].seen_at < at - SEEN_EVERY
    ]
    if late:
        connection.execute(sa.update(measure_series).where(_any(of.id, late)).values(seen_at=at))


def write_ten_minutes(connection: Connection, at: datetime) -> None:
    """Store samples of ten minutes for windows that ended before `at` and have samples of minutes.

    At most MOST_WINDOWS of them are stored, the oldest first; the next call goes on.
    """
    windows = _open_windows(connection, at)
    if windows:
        of = measure_series.c
        metrics = {row.id: row.metric for row in connection.execute(sa.select(of.id, of.metric))}
        aggregates = {number: METRICS[metric].aggregate for number, metric in metrics.items() if metric in METRICS}
        for window in windows:
            _insert(connection, TEN_MINUTES, window, _window(connection, window, aggregates))


def _open_windows(connection: Connection, at: datetime) -> list[datetime]:
    of = measure_samples.c
    marker = sa.select(of.at).where(of.block == 0)
    newest = marker.where(_of(TEN_MINUTES)).order_by(of.at.desc()).limit(1)
    last = connection.execute(newest).scalar_one_or_none()
    minutes = marker.where(_of(MINUTE), of.at < _window_of(at))
    if last is not None:
        minutes = minutes.where(of.at >= last + timedelta(seconds=TEN_MINUTES))
    return sorted({_window_of(each) for each in connection.scalars(minutes)})[:MOST_WINDOWS]


def _window_of(at: datetime) -> datetime:
    return datetime.fromtimestamp(int(at.timestamp()) // TEN_MINUTES * TEN_MINUTES, UTC)


def _window(
    connection: Connection, window: datetime, aggregates: Mapping[int, Aggregate]
) -> dict[int, list[float | None]]:
    """Return the samples of ten minutes, by block."""
    of = measure_samples.c
    until = window + timedelta(seconds=TEN_MINUTES)
    query = sa.select(of.block, of["values"]).where(_of(MINUTE), _in_blocks(connection, MINUTE))
    minutes: dict[int, list[Row]] = {}
    for block, values in connection.execute(query.where(of.at >= window, of.at < until)):
        minutes.setdefault(block, []).append(values)
    return {0: []} | {
        block: [
            _aggregated(samples, aggregates.get(block * SERIES_A_BLOCK + place))
            for place, samples in enumerate(zip_longest(*rows))
        ]
        for block, rows in minutes.items()
    }


def _aggregated(samples: Iterable[float | None], aggregate: Aggregate | None) -> float | None:
    """Return the value of ten minutes; None for a place without samples, or whose series has ended."""
    found = [(MINUTE, value) for value in samples if value is not None]
    return aggregated(found, aggregate) if found and aggregate is not None else None


def delete_old(connection: Connection, at: datetime, kept: Kept) -> None:
    """Delete samples that are older than their retention, the oldest first."""
    of = measure_samples.c
    for step_seconds in (MINUTE, TEN_MINUTES):
        first = sa.select(of.at).where(_of(step_seconds), of.block == 0).order_by(of.at).limit(1)
        oldest = connection.execute(first).scalar_one_or_none()
        if oldest is not None and oldest < (horizon := at - kept.retention(step_seconds)):
            until = min(horizon, oldest + DELETED_AT_ONCE)
            old = sa.and_(_of(step_seconds), _in_blocks(connection, step_seconds), of.at < until)
            connection.execute(sa.delete(measure_samples).where(old))


def _insert(
    connection: Connection, step_seconds: int, at: datetime, blocks: Mapping[int, list[float | None]]
) -> None:
    rows = [
        {"step_seconds": step_seconds, "block": block, "at": at, "values": values}
        for block, values in sorted(blocks.items())
    ]
    connection.execute(insert(measure_samples).on_conflict_do_nothing(), rows)


def _of(step_seconds: int) -> ColumnElement[bool]:
    return measure_samples.c.step_seconds == step_seconds


def _in_blocks(connection: Connection, step_seconds: int) -> ColumnElement[bool]:
    """Return a condition that all blocks meet: with it, a time range is found by the primary key."""
    of = measure_samples.c
    last = connection.scalar(
        sa.select(of.block).where(_of(step_seconds)).order_by(of.block.desc(), of.at.desc()).limit(1)
    )
    return _any(of.block, range(0 if last is None else last + 1))


def _any(column: ColumnElement[int], numbers: Collection[int]) -> ColumnElement[bool]:
    return column == sa.any_(sa.literal(list(numbers), ARRAY(sa.Integer)))
