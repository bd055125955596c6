"""What units measure of their streams: rows that workers write, and what /metrics makes of them.

Counts go on when a unit gets another holder: what its predecessors counted is kept beside what it counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert

from backend.domain import assignment
from backend.eventlog.tables import METADATA
from backend.queries.distributors import units_seen
from backend.queries.trees import get_tree

_COUNTED = ("records", "bytes")
_GIVEN = ("epoch", *_COUNTED, "lag_records", "newest_ms", "latency_ms", "checkpoint_ms")

stream_measures = sa.Table(
    "stream_measures",
    METADATA,
    sa.Column("unit", sa.Text, primary_key=True),
    sa.Column("stream", sa.Text, primary_key=True),
    # The fencing epoch of who counted last.
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("records_before", sa.BigInteger, nullable=False),
    sa.Column("records", sa.BigInteger, nullable=False),
    sa.Column("bytes_before", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("lag_records", sa.BigInteger),
    # Of a record, since 1970.
    sa.Column("newest_ms", sa.BigInteger),
    sa.Column("latency_ms", sa.BigInteger),
    sa.Column("checkpoint_ms", sa.BigInteger),
)


@dataclass(frozen=True)
class MeasuredStream:
    """A stream on one distributor; ages are None where nothing is known."""

    source: str
    target: str
    level: int
    stream: str
    records: int
    bytes: int
    lag_records: int | None
    """None unless all its units run and know it."""
    record_age_seconds: float | None
    latency_seconds: float | None
    checkpoint_age_seconds: float | None


def _statement() -> Insert:
    """Rows come as one array for each column, so that the statement is the same for any number of them."""
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
    for seen in ("newest_ms", "latency_ms", "checkpoint_ms"):
        fresh[seen] = sa.func.coalesce(given[seen], old[seen])
    return new.on_conflict_do_update(index_elements=["unit", "stream"], set_=fresh, where=old.epoch <= given.epoch)


_WRITE = _statement()


def write(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Take over what units have measured: columns of the table but for those of predecessors, a unit's stream
    once."""
    if rows:
        connection.execute(_WRITE, {name: [row[name] for row in rows] for name in ("unit", "stream", *_GIVEN)})


def forget_others(connection: Connection, units: Collection[str], streams: Collection[str]) -> None:
    """Drop the rows of units and streams that are no more."""
    of = stream_measures.c
    gone = sa.or_(of.unit.not_in(list(units)), of.stream.not_in(list(streams)))
    connection.execute(sa.delete(stream_measures).where(gone))


def read(connection: Connection, buckets: int) -> list[MeasuredStream]:
    """Every stream on every distributor of the tree, of which something was measured; `buckets` is the setting."""
    tree = get_tree(connection)
    if tree is None:
        return []
    units = {unit.name: unit for unit in assignment.units(tree.targets, buckets)}
    # What waits is known while somebody looks: a lag of yesterday is none of today.
    running = {
        name for name, row in units_seen(connection).items() if row.lag_records is not None and not row.silent
    }
    found: dict[tuple[str, int, str], list[Any]] = {}
    now_ms = sa.cast(sa.func.extract("epoch", sa.func.clock_timestamp()) * 1000, sa.BigInteger).label("now_ms")
    for row in connection.execute(sa.select(stream_measures, now_ms)):
        unit = units.get(row.unit)
        if unit is not None:
            found.setdefault((unit.cluster, unit.level, row.stream), []).append(row)
    return [
        _measured(source, tree.targets[source, level], level, stream, rows, running)
        for (source, level, stream), rows in sorted(found.items())
    ]


def _measured(
    source: str, target: str, level: int, stream: str, rows: Sequence[Any], running: Collection[str]
) -> MeasuredStream:
    known = all(row.unit in running and row.lag_records is not None for row in rows)
    waiting = [row for row in rows if row.lag_records]
    # Where nothing waits the copy is as new as can be, however long ago the last record came.
    ages = [row.now_ms - row.newest_ms for row in waiting if row.newest_ms is not None] or [0]
    return MeasuredStream(
        source=source,
        target=target,
        level=level,
        stream=stream,
        records=sum(row.records_before + row.records for row in rows),
        bytes=sum(row.bytes_before + row.bytes for row in rows),
        lag_records=sum(row.lag_records for row in rows) if known else None,
        record_age_seconds=max(0, *ages) / 1000 if known else None,
        latency_seconds=_seconds([row.latency_ms for row in rows]),
        checkpoint_age_seconds=_seconds(
            [row.now_ms - row.checkpoint_ms for row in rows if row.checkpoint_ms is not None]
        ),
    )


def _seconds(milliseconds: Sequence[int | None]) -> float | None:
    known = [each for each in milliseconds if each is not None]
    return max(0, *known) / 1000 if known else None
