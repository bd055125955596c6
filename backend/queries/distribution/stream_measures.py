"""Measures of streams by tasks: rows that workers write, and their totals for /metrics.

Counts continue when a task gets another holder: counts of former holders are kept beside those of the current one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert

from backend.domain.distribution import assignment
from backend.eventlog.tables import METADATA
from backend.queries.distribution.distributors import task_states_seen
from backend.queries.tree.trees import get_tree

_COUNTED = ("records", "bytes", "passed")
_GIVEN = ("epoch", *_COUNTED, "lag_records", "newest_ms", "copied_ms", "latency_ms", "checkpoint_ms")
_LATENCY_KEPT_MS = 60_000

stream_measures = sa.Table(
    "stream_measures",
    METADATA,
    sa.Column("unit", sa.Text, primary_key=True),
    sa.Column("stream", sa.Text, primary_key=True),
    # The fencing epoch of the last holder that counted.
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("records_before", sa.BigInteger, nullable=False),
    sa.Column("records", sa.BigInteger, nullable=False),
    sa.Column("bytes_before", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    # Offsets of the source's log.
    sa.Column("passed_before", sa.BigInteger, nullable=False),
    sa.Column("passed", sa.BigInteger, nullable=False),
    sa.Column("lag_records", sa.BigInteger),
    # Record timestamp, in ms since 1970.
    sa.Column("newest_ms", sa.BigInteger),
    # Time and latency of the last commit with records.
    sa.Column("copied_ms", sa.BigInteger),
    sa.Column("latency_ms", sa.BigInteger),
    sa.Column("checkpoint_ms", sa.BigInteger),
)


@dataclass(frozen=True)
class MeasuredStream:
    """A stream on one distributor, or all of them, with an empty name; ages are None where unknown."""

    source: str
    target: str
    level: int
    stream: str
    records: int
    bytes: int
    passed: int
    lag_records: int | None
    """None unless all its tasks run and know it; for all streams, the sum of the known ones."""
    record_age_seconds: float | None
    latency_seconds: float | None
    """None if nothing was copied for a minute: older latencies say nothing about now."""
    checkpoint_age_seconds: float | None
    """Time for which records were copied since the last checkpoint; it does not grow without copies."""


def _statement() -> Insert:
    """Build the statement; rows come as one array for each column, so it is the same for any number of them."""
    arrays = (
        sa.bindparam(name, type_=ARRAY(stream_measures.c[name].type)) for name in ("unit", "stream", *_GIVEN)
    )
    rows = sa.func.unnest(*arrays).table_valued("unit", "stream", *_GIVEN).render_derived()
    zero = [sa.literal(0, sa.BigInteger) for _ in _COUNTED]
    names = ["unit", "stream", *_GIVEN, *(f"{counted}_before" for counted in _COUNTED)]
    new = insert(stream_measures).from_select(names, sa.select(*rows.c, *zero))
    old, given = stream_measures.c, new.excluded
    fresh: dict[str, Any] = {"epoch": given.epoch, "lag_records": given.lag_records}
    for counted in _COUNTED:
        # A new holder counts from 0.
        before = old[f"{counted}_before"]
        fresh[f"{counted}_before"] = sa.case((given.epoch > old.epoch, before + old[counted]), else_=before)
        fresh[counted] = given[counted]
    for seen in ("newest_ms", "copied_ms", "checkpoint_ms"):
        fresh[seen] = sa.func.coalesce(given[seen], old[seen])
    fresh["latency_ms"] = sa.case((given.copied_ms.is_(None), old.latency_ms), else_=given.latency_ms)
    return new.on_conflict_do_update(index_elements=["unit", "stream"], set_=fresh, where=old.epoch <= given.epoch)


_WRITE = _statement()


def write(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store measures of tasks: all columns but those of former holders; each task and stream once."""
    if rows:
        connection.execute(_WRITE, {name: [row[name] for row in rows] for name in ("unit", "stream", *_GIVEN)})


def forget_others(connection: Connection, tasks: Collection[str], streams: Collection[str]) -> None:
    """Delete the rows of removed tasks and streams."""
    of = stream_measures.c
    gone = sa.or_(of.unit.not_in(list(tasks)), of.stream.not_in(list(streams)))
    connection.execute(sa.delete(stream_measures).where(gone))


def read(connection: Connection, buckets: int, most: int) -> tuple[list[MeasuredStream], bool]:
    """Return all measured streams of every distributor; `buckets` is the number of tasks of each distributor.


    With more than `most`, return each distributor as a whole, with an empty `stream`, and False.
    """
    tree = get_tree(connection)
    if tree is None:
        return [], True
    tasks = assignment.tasks(tree.targets, buckets)
    # The lag is known only while a task runs: yesterday's lag says nothing about today.
    running = {
        name
        for name, row in task_states_seen(connection).items()
        if row.lag_records is not None and not row.silent
    }
    asked = {
        "unit": [task.name for task in tasks],
        "cluster": [task.cluster for task in tasks],
        "level": [task.level for task in tasks],
        "running": [task.name in running for task in tasks],
    }
    # So many rows cannot be fewer streams; counting those would take as long as reading them.
    rows = sa.select(sa.literal(1)).select_from(stream_measures).limit(most * buckets + 1).subquery()
    few = (connection.scalar(sa.select(sa.func.count()).select_from(rows)) or 0) <= most * buckets
    if few:
        found = connection.execute(_BY_STREAM.limit(most + 1), asked).all()
        few = len(found) <= most
    if not few:
        found = connection.execute(_BY_DISTRIBUTOR, asked).all()
    return [_measured(tree.targets[row.cluster, row.level], row) for row in found], few


_ASKED: Mapping[str, sa.types.TypeEngine[Any]] = {
    "unit": sa.Text(),
    "cluster": sa.Text(),
    "level": sa.Integer(),
    "running": sa.Boolean(),
}


def _totals(by_stream: bool) -> sa.Select[Any]:
    """Build the totals of the given tasks, by distributor and stream, or by distributor alone."""
    arrays = [sa.bindparam(name, type_=ARRAY(kind)) for name, kind in _ASKED.items()]
    columns = (sa.column(name, kind) for name, kind in _ASKED.items())
    given = sa.func.unnest(*arrays).table_valued(*columns).render_derived()
    of = stream_measures.c
    now_ms = sa.cast(sa.func.extract("epoch", sa.func.statement_timestamp()) * 1000, sa.BigInteger)
    # On a whole distributor, one stream that is just being resumed does not hide all others.
    told = sa.func.bool_and(of.lag_records.is_not(None)) if by_stream else sa.func.count(of.lag_records) > 0
    known = sa.and_(sa.func.bool_and(given.c.running), told)
    stream = of.stream if by_stream else sa.literal("", sa.Text)
    by = [given.c.cluster, given.c.level, *([of.stream] if by_stream else [])]
    # Without a lag the copy is as new as it can be, however long ago the last record came.
    age = sa.func.max(now_ms - of.newest_ms).filter(of.lag_records > 0)
    return (
        sa.select(
            given.c.cluster,
            given.c.level,
            stream.label("stream"),
            sa.cast(sa.func.sum(of.records_before + of.records), sa.BigInteger).label("records"),
            sa.cast(sa.func.sum(of.bytes_before + of.bytes), sa.BigInteger).label("bytes"),
            sa.cast(sa.func.sum(of.passed_before + of.passed), sa.BigInteger).label("passed"),
            sa.case((known, sa.cast(sa.func.sum(of.lag_records), sa.BigInteger))).label("lag_records"),
            sa.case((sa.and_(known, sa.func.sum(of.lag_records) == 0), 0), (known, age)).label("age_ms"),
            sa.func.max(of.latency_ms).filter(now_ms - of.copied_ms <= _LATENCY_KEPT_MS).label("latency_ms"),
            sa.func.max(of.copied_ms - of.checkpoint_ms).label("checkpoint_age_ms"),
        )
        .select_from(stream_measures.join(given, given.c.unit == of.unit))
        .group_by(*by)
        .order_by(*by)
    )


_BY_STREAM, _BY_DISTRIBUTOR = _totals(True), _totals(False)


def _measured(target: str, row: Any) -> MeasuredStream:
    return MeasuredStream(
        source=row.cluster,
        target=target,
        level=row.level,
        stream=row.stream,
        records=row.records,
        bytes=row.bytes,
        passed=row.passed,
        lag_records=row.lag_records,
        record_age_seconds=_seconds(row.age_ms),
        latency_seconds=_seconds(row.latency_ms),
        checkpoint_age_seconds=_seconds(row.checkpoint_age_ms),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else max(0, milliseconds) / 1000
