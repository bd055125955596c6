"""Queries that tell where discovery sends clients, now or as of a position."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.switch.switch_facts import ActiveFact, Place
from backend.projections.active_clusters import ALL_ZONES, active_clusters
from backend.projections.temporal import as_of


@dataclass(frozen=True, kw_only=True)
class ActiveRow(ActiveFact):
    """Active cluster of an environment or zone, with the switch that set it."""

    switch: str | None
    """Id of the switch that moved the clients there; None: no switch did."""
    mode: str | None
    """Mode of that switch."""
    left_generation: int | None
    """Generation that the switch moved clients out of."""
    marked_at: int | None
    """Position of the event that marked the drain; None: nothing was drained."""
    position: int


def list_active(
    connection: Connection,
    at: int | None = None,
    *,
    tenant: str | None = None,
    places: Collection[Place] | None = None,
) -> list[ActiveRow]:
    """Return the rows of all environments, a tenant's, or some; an environment's row for all zones is first."""
    table = active_clusters
    query = sa.select(table).where(as_of(table, at))
    if tenant is not None:
        query = query.where(table.c.tenant == tenant)
    if places is not None:
        place = sa.tuple_(table.c.tenant, table.c.instance, table.c.environment)
        query = query.where(place.in_(list(places)))
    return [
        ActiveRow(
            tenant=row.tenant,
            instance=row.instance,
            environment=row.environment,
            zone=None if row.zone == ALL_ZONES else row.zone,
            cluster=row.cluster,
            generation=row.generation,
            switch=row.switch,
            mode=row.mode,
            left_generation=row.left_generation,
            marked_at=row.marked_at,
            position=row.valid_from,
        )
        for row in connection.execute(query.order_by(*table.primary_key.columns))
    ]


def by_client(active: Iterable[ActiveRow]) -> Callable[[Place, str | None], ActiveRow | None]:
    """Return a function that finds the row of a client's environment and zone, else the row for all zones."""
    rows = {(row.place, row.zone): row for row in active}
    return lambda place, zone: rows.get((place, zone)) or rows.get((place, None))


def generations(connection: Connection) -> Mapping[tuple[str, str, str, str], int]:
    """Return (tenant, instance, environment, cluster) -> generation in which that cluster was active last."""
    t = active_clusters.c
    key = (t.tenant, t.instance, t.environment, t.cluster)
    query = sa.select(*key, sa.func.max(t.generation)).where(t.cluster.is_not(None)).group_by(*key)
    return {(row[0], row[1], row[2], row[3]): row[4] for row in connection.execute(query)}
