"""The history of measures: series of points for charts, their subjects, and marks of what happened meanwhile.

Samples are read at the resolution that the step allows; the newest ten minutes always come from samples of a
minute. Values are stored with seven significant digits.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import ARRAY, JSONPATH

from backend.domain.history.metrics import ALL, Aggregate, Area, MetricInfo, metric_called
from backend.domain.history.metrics import METRICS as METRICS
from backend.domain.history.steps import MINUTE, TEN_MINUTES, TEN_MINUTES_MS, Sample, choose_step_ms, in_steps
from backend.projections.clusters import clusters
from backend.projections.temporal import as_of
from backend.projections.trees import tree_targets
from backend.queries.history.marks import Mark as Mark
from backend.queries.history.marks import marks as marks
from backend.queries.history.measure_tables import SERIES_A_BLOCK, measure_samples, measure_series
from backend.queries.history.switch_holds import hold_sources, read_holds
from backend.queries.offsets.group_tables import observed_groups
from backend.settings import settings

_WITHOUT_STREAM = sa.cast("$[*] ? (!exists(@.stream))", JSONPATH)
_EDGE = sa.func.concat(tree_targets.c.cluster, ":", tree_targets.c.level, type_=sa.Text)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Values of one series over time."""

    metric: str
    subject: str
    step_ms: int
    points: Sequence[tuple[int, float | None]]
    """(start in milliseconds since 1970, value) of each step; None where nothing was measured."""


def read_measure(
    connection: Connection, metric: str, subject: str, from_ms: int, to_ms: int, step_ms: int | None = None
) -> Measured:
    """Return one series from `from_ms` until before `to_ms`; see `read_many`."""
    return read_many(connection, metric, [subject], from_ms, to_ms, step_ms)[subject]


def read_many(
    connection: Connection,
    metric: str,
    subjects: Collection[str],
    from_ms: int,
    to_ms: int,
    step_ms: int | None = None,
) -> dict[str, Measured]:
    """Return the series of several subjects, each with the same steps, by subject, with at most two statements.

    `step_ms`: a multiple of a minute; None: at most 180 points. A subject without samples has points without
    values. Rights are not checked: see `list_subjects` and `has_subject`. Raises ValueInvalid for an unknown
    metric, and for a step or range that is not possible.
    """
    info = metric_called(metric)
    minutes_since_ms = int(1000 * (time.time() - 3600 * settings().history_minute_hours))
    chosen_ms = choose_step_ms(from_ms, to_ms, step_ms, minutes_since_ms)
    # The first step may begin earlier.
    from_ms = from_ms // chosen_ms * chosen_ms
    if info.is_sampled:
        found = _samples(connection, metric, subjects, from_ms, to_ms, chosen_ms)
    else:
        found = read_holds(connection, from_ms, to_ms)
    return {
        subject: Measured(
            metric=metric,
            subject=subject,
            step_ms=chosen_ms,
            points=in_steps(found.get(subject, ()), from_ms, to_ms, chosen_ms, info.aggregate),
        )
        for subject in subjects
    }


def list_subjects(connection: Connection, metric: str, tenants: Collection[str] | None = None) -> list[str]:
    """Return the subjects with a history of this metric, sorted.

    `tenants`: only groups that one of these tenants may see, and nothing of other metrics; None: all. Raises
    ValueInvalid for an unknown metric.
    """
    info = metric_called(metric)
    if tenants is not None and info.area is not Area.GROUPS:
        return []
    if not info.is_sampled:
        return hold_sources(connection)
    query = sa.select(measure_series.c.subject).where(measure_series.c.metric == metric)
    if tenants is not None:
        query = query.where(measure_series.c.subject.in_(_groups_of(tenants)))
    return sorted(connection.scalars(query))


def has_subject(connection: Connection, metric: str, subject: str, tenants: Collection[str] | None = None) -> bool:
    """Return whether `list_subjects` has this subject, or will have it once it is sampled."""
    info = metric_called(metric)
    if tenants is not None and info.area is not Area.GROUPS:
        return False
    if not info.is_sampled:
        return subject in hold_sources(connection)
    query = sa.select(measure_series.c.id).where(_is_series(info, [subject]))
    if tenants is not None:
        query = query.where(measure_series.c.subject.in_(_groups_of(tenants)))
    return connection.execute(query).one_or_none() is not None or _exists(connection, info, subject, tenants)


def groups_with_history(
    connection: Connection, metric: str, subjects: Collection[str], tenants: Collection[str]
) -> list[str]:
    """Return those of the groups with a history of this metric that members of these tenants may see."""
    is_series = _is_series(METRICS[metric], subjects)
    of = measure_series.c.subject
    return list(connection.scalars(sa.select(of).where(is_series, of.in_(_groups_of(tenants)))))


def _exists(connection: Connection, info: MetricInfo, subject: str, tenants: Collection[str] | None) -> bool:
    """Return whether a subject exists now, whatever was sampled of it."""
    match info.area:
        case Area.DISTRIBUTION:
            of = tree_targets.c
            query = sa.select(of.level).where(as_of(tree_targets, None), _EDGE.in_([subject]))
        case Area.GROUPS:
            of = observed_groups.c
            cluster, _, group = subject.partition("/")
            query = sa.select(of.cluster).where(of.cluster == cluster, of.technical_group == group)
            if tenants is not None:
                query = query.where(_is_seen_by(tenants))
        case Area.CLUSTERS if not info.name.startswith("broker."):
            query = sa.select(clusters.c.name).where(as_of(clusters, None), clusters.c.name == subject)
        case _:
            return info.area is Area.ZONES and subject == ALL
    return connection.execute(query.limit(1)).one_or_none() is not None


def is_full(connection: Connection) -> bool:
    """Return whether the newest minute has as many samples as there may be series: groups may be missing.

    Series that are no longer sampled give up their numbers to new ones, and do not count.
    """
    most, of = settings().history_most_series, measure_samples.c
    last = connection.scalar(sa.select(sa.func.max(measure_series.c.id)))
    if last is None or last + 1 < most:
        return False
    newest = sa.select(sa.func.max(of.at)).where(of.step_seconds == MINUTE, of.block == 0).scalar_subquery()
    # With these blocks, the rows are found by the primary key.
    blocks = sa.literal(list(range(last // SERIES_A_BLOCK + 1)), ARRAY(sa.Integer))
    samples = sa.func.sum(sa.func.cardinality(sa.func.array_remove(of["values"], sa.null())))
    found = connection.scalar(
        sa.select(samples).where(of.step_seconds == MINUTE, of.block == sa.any_(blocks), of.at == newest)
    )
    return (found or 0) >= most


def _groups_of(tenants: Collection[str]) -> sa.Select[str]:
    """Return the subjects of the groups that members of these tenants see as a whole.

    A sum over more than they see (`seen_by`) cannot be divided afterwards, and would tell them about the rest.
    """
    of = observed_groups.c
    return sa.select(of.cluster + "/" + of.technical_group).where(_is_seen_by(tenants))


def _is_seen_by(tenants: Collection[str]) -> ColumnElement[bool]:
    of, theirs = observed_groups.c, sa.cast(sorted(tenants), ARRAY(sa.Text))
    is_own = sa.func.coalesce(sa.func.split_part(of.place, "/", 1) == sa.any_(theirs), sa.false())
    # Topics of no stream belong to no tenant. Only partitions of groups that are stored as shared are looked at.
    is_whole = sa.or_(sa.not_(of.is_shared), sa.not_(sa.func.jsonb_path_exists(of.partitions, _WITHOUT_STREAM)))
    return sa.and_(of.tenants.overlap(theirs), sa.or_(is_own, of.tenants.contained_by(theirs)), is_whole)


def _is_series(info: MetricInfo, subjects: Collection[str]) -> ColumnElement[bool]:
    wanted = sa.literal(list(subjects), ARRAY(sa.Text))
    return sa.and_(measure_series.c.metric == info.name, measure_series.c.subject == sa.any_(wanted))


def _samples(
    connection: Connection, metric: str, subjects: Collection[str], from_ms: int, to_ms: int, step_ms: int
) -> dict[str, list[Sample]]:
    query = sa.select(measure_series).where(_is_series(METRICS[metric], subjects))
    series = {row.id: row for row in connection.execute(query)}
    found: dict[str, list[Sample]] = {row.subject: [] for row in series.values()}
    if not series:
        return found
    since, until = _time(from_ms), _time(to_ms)
    steps: Iterable[int] = (MINUTE,) if step_ms % TEN_MINUTES_MS else (TEN_MINUTES, MINUTE)
    for step_seconds in steps:
        newest = since
        # Where a step has one sample, that is the aggregate.
        aggregate = METRICS[metric].aggregate if step_ms > 1000 * step_seconds else Aggregate.MAX
        steps_of_series = _steps(series, step_seconds, since, until, step_ms // 1000, aggregate)
        for row in connection.execute(_rows(steps_of_series)):
            samples = found[series[row.id].subject]
            for at, count, value in zip(row.times, row.counts, row.values, strict=True):
                samples.append((at, step_seconds * count, value))
            newest = max(newest, _time(1000 * (row.newest + step_seconds)))
        # Minutes that are no part of ten minutes yet.
        since = newest
    return found


def _steps(
    series: Collection[int],
    step_seconds: int,
    since: datetime,
    until: datetime,
    seconds: int,
    aggregate: Aggregate,
) -> sa.Subquery:
    """Build the query for one value of each series and step of a chart, which has so many seconds."""
    of, each = measure_samples.c, measure_series.c
    at = sa.cast(sa.func.extract("epoch", of.at), sa.BigInteger)
    value = of["values"][each.id % SERIES_A_BLOCK + 1]
    inside = [of.at >= since, of.at < until, of.at >= each.since, value.is_not(None)]
    values = {
        Aggregate.MAX: sa.func.max(value),
        Aggregate.SUM: sa.func.sum(_exact(value)),
        Aggregate.MEAN: sa.func.avg(_exact(value)),
    }
    return (
        sa.select(
            each.id,
            (at - at % seconds).label("at"),
            sa.func.count().label("count"),
            values[aggregate].label("value"),
            sa.func.max(at).label("newest"),
        )
        .join(measure_samples, sa.and_(of.step_seconds == step_seconds, of.block == each.id // SERIES_A_BLOCK))
        .where(each.id == sa.any_(sa.literal(list(series), ARRAY(sa.Integer))), *inside)
        .group_by(each.id, sa.text("2"))
        .subquery("steps")
    )


def _exact(value: ColumnElement[Any]) -> ColumnElement[float]:
    """Return a stored value as a double that is written with the same digits."""
    return sa.cast(sa.cast(value, sa.Text), sa.Double)


def _rows(steps: sa.Subquery) -> sa.Select[Any]:
    """Build the query for the values of each series, as arrays: they are read faster than as many rows."""
    of = steps.c
    arrays = [
        sa.func.array_agg(column).label(name)
        for name, column in (("times", of.at), ("counts", of.count), ("values", of.value))
    ]
    return sa.select(of.id, *arrays, sa.func.max(of.newest).label("newest")).group_by(of.id)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
