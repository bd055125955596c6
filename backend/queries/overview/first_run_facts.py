"""Facts for the steps of a first run; each is found by an index, however large the estate is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import ARRAY

from backend.domain.distribution import assignment
from backend.domain.overview.first_run import Arrival, Places, Produced
from backend.projections.streams import STREAM, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import environments, instances, tenants
from backend.projections.trees import tree_targets
from backend.queries.base.events import newest_of, times_of
from backend.queries.distribution.distributors import DistributorRow
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.distribution.stream_measures import stream_measures
from backend.settings import settings

_MOST_STREAMS = 5
"""Streams of tenants that are looked up: there may be millions of measures."""
_IS_OF_TENANTS = sa.not_(stream_measures.c.stream.startswith("_treeline"))
_CHAIN = (
    (streams, STREAM),
    (environments, ("tenant", "instance", "name")),
    (instances, ("tenant", "name")),
    (tenants, ("name",)),
)


def first_places(connection: Connection, seen: Collection[str] | None = None) -> Places:
    """Return the first stream, or else what there is of the places that it needs; `seen`: of these tenants."""
    for table, parts in _CHAIN:
        # A change ends the row, and begins another: what was first has the first row ever.
        now = table.alias("now")
        is_there = sa.exists().where(now.c.valid_to.is_(None), *(now.c[part] == table.c[part] for part in parts))
        query = sa.select(*(table.c[part] for part in parts), table.c.valid_from).where(is_there)
        if seen is not None:
            query = query.where(table.c[parts[0]].in_(sorted(seen)))
        row = connection.execute(query.order_by(table.c.valid_from).limit(1)).one_or_none()
        if row is not None:
            found = dict(zip(("tenant", "instance", "environment", "stream"), row[: len(parts)], strict=False))
            return Places(**found, declared_at=_declared_at(connection, seen))
    return Places()


def _declared_at(connection: Connection, seen: Collection[str] | None) -> datetime | None:
    """Return when the first stream ever was declared; it may have been deleted since."""
    query = sa.select(streams.c.valid_from).order_by(streams.c.valid_from).limit(1)
    if seen is not None:
        query = query.where(streams.c.tenant.in_(sorted(seen)))
    position = connection.execute(query).scalar_one_or_none()
    return None if position is None else times_of(connection, [position]).get(position)


def first_arrival(connection: Connection, stream: str, seen: Collection[str] | None = None) -> Arrival | None:
    """Return a copy of a record of this stream that tasks have counted, or else of another declared stream.

    None: there is none yet. `seen`: else of the first streams of these tenants.
    """
    row = _counted(connection, _is_of(connection, [stream]))
    if row is None and seen is None:
        row = _counted(connection, _IS_OF_TENANTS)
    elif row is None and seen is not None:
        row = _counted(connection, _is_of(connection, _first_streams(connection, seen)))
    if row is None:
        return None
    _, source, level, _ = row.unit.split(":")
    target = _target(connection, source, int(level))
    if target is None:
        return None
    return Arrival(stream=row.stream, source=source, target=target, latency_ms=row.latency_ms)


def has_copied(connection: Connection, distributors: Iterable[DistributorRow]) -> bool:
    """Return whether distributors have copied records of tenants, even of streams and edges that are gone.

    Reports that the measures of internal streams explain do not count.
    """
    if _counted(connection, _IS_OF_TENANTS) is not None:
        return True
    seen = [row.observed for row in distributors if row.observed is not None]
    of, config = stream_measures.c, settings()
    its = _is_of(connection, [config.verify_stream, config.offsets_topic])
    query = sa.select(sa.func.coalesce(sa.func.sum(of.records_before + of.records), 0)).where(its)
    internal = int(connection.execute(query).scalar_one())
    if sum(each.copied_records for each in seen) > internal:
        return True
    return internal == 0 and any(each.records_per_second for each in seen)


def _counted(connection: Connection, is_its: ColumnElement[bool]) -> Any:
    of = stream_measures.c
    query = sa.select(of.unit, of.stream, of.latency_ms).where(is_its, of.records_before + of.records > 0)
    return connection.execute(query.limit(1)).one_or_none()


def _is_of(connection: Connection, names: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition for measures of these streams, which are looked up by the tasks' names."""
    of = stream_measures.c
    edges = sa.select(tree_targets.c.cluster, tree_targets.c.level).where(as_of(tree_targets, None))
    places = [(cluster, level) for cluster, level in connection.execute(edges)]
    tasks = [task.name for task in assignment.tasks(places, partition_buckets(connection, settings()))]
    return sa.and_(
        of.unit == sa.any_(sa.literal(tasks, ARRAY(sa.Text))),
        of.stream == sa.any_(sa.literal(names, ARRAY(sa.Text))),
    )


def _first_streams(connection: Connection, seen: Collection[str]) -> list[str]:
    query = sa.select(*(streams.c[part] for part in STREAM)).where(
        as_of(streams, None), streams.c.tenant.in_(sorted(seen))
    )
    rows = connection.execute(query.order_by(streams.c.valid_from).limit(_MOST_STREAMS))
    return ["/".join(row) for row in rows]


def _target(connection: Connection, source: str, level: int) -> str | None:
    of = tree_targets.c
    query = sa.select(of.target).where(of.cluster == source, of.level == level, as_of(tree_targets, None))
    found: str | None = connection.execute(query.limit(1)).scalar_one_or_none()
    return found


def last_produced(connection: Connection, stream: str) -> Produced | None:
    """Return the last message that a user produced to the stream, if its cluster confirmed it."""
    event = newest_of(connection, f"messages-{stream.partition('/')[0]}", "MessageProduced")
    data: Mapping[str, Any] = {} if event is None else event.data
    if data.get("stream") != stream or data.get("partition") is None or data.get("offset") is None:
        return None
    return Produced(cluster=data["cluster"], partition=data["partition"], offset=data["offset"])
