"""Facts for the steps of a first run; each is found by an index, however large the estate is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table
from sqlalchemy.dialects.postgresql import ARRAY

from backend.domain.overview.first_run import Arrival, Places, Produced
from backend.projections.streams import STREAM, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import environments, instances, tenants
from backend.projections.trees import tree_targets
from backend.queries.base.events import newest_of, times_of
from backend.queries.distribution.stream_measures import stream_measures

_CHAIN = (
    (streams, STREAM),
    (environments, ("tenant", "instance", "name")),
    (instances, ("tenant", "name")),
    (tenants, ("name",)),
)


def first_places(connection: Connection, seen: Collection[str] | None = None) -> Places:
    """Return the first stream, or else what there is of the places that it needs; `seen`: of these tenants."""
    for table, parts in _CHAIN:
        query = sa.select(*(table.c[part] for part in parts), table.c.valid_from).where(as_of(table, None))
        if seen is not None:
            query = query.where(table.c[parts[0]].in_(sorted(seen)))
        row = connection.execute(query.order_by(table.c.valid_from).limit(1)).one_or_none()
        if row is not None:
            found = dict(zip(("tenant", "instance", "environment", "stream"), row[: len(parts)], strict=False))
            is_stream = table is streams
            return Places(**found, declared_at=_declared_at(connection, row.valid_from) if is_stream else None)
    return Places()


def _declared_at(connection: Connection, position: int) -> datetime | None:
    return times_of(connection, [position]).get(position)


def first_arrival(connection: Connection, seen: Collection[str] | None = None) -> Arrival | None:
    """Return the copy of a record of a declared stream that tasks have counted last; None: there is none yet."""
    of = stream_measures.c
    is_its: ColumnElement[bool] = sa.not_(of.stream.startswith("_treeline"))
    if seen is not None:
        is_its = sa.func.split_part(of.stream, "/", 1) == sa.any_(sa.literal(sorted(seen), ARRAY(sa.Text)))
    query = sa.select(of.unit, of.stream, of.latency_ms).where(is_its, of.records_before + of.records > 0)
    row = connection.execute(query.limit(1)).one_or_none()
    if row is None:
        return None
    _, source, level, _ = row.unit.split(":")
    target = _target(connection, tree_targets, source, int(level))
    return (
        None
        if target is None
        else Arrival(stream=row.stream, source=source, target=target, latency_ms=row.latency_ms)
    )


def _target(connection: Connection, table: Table, source: str, level: int) -> str | None:
    query = sa.select(table.c.target).where(table.c.cluster == source, table.c.level == level, as_of(table, None))
    found: str | None = connection.execute(query.limit(1)).scalar_one_or_none()
    return found


def last_produced(connection: Connection, stream: str) -> Produced | None:
    """Return the last message that a user produced to the stream, if its cluster confirmed it."""
    event = newest_of(connection, f"messages-{stream.partition('/')[0]}", "MessageProduced")
    data: Mapping[str, Any] = {} if event is None else event.data
    if data.get("stream") != stream or data.get("partition") is None or data.get("offset") is None:
        return None
    return Produced(cluster=data["cluster"], partition=data["partition"], offset=data["offset"])
