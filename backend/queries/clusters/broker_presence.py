"""Presence of clusters' brokers, as workers observed it: reading and storing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.placement.broker_changes import BrokerPresence, updated_presence
from backend.queries.base.observed import cluster_brokers, cluster_replication

_LATE = timedelta(minutes=3)
"""Time limit of a poll, which may take long where a cluster has a million partitions."""
_CLUSTER = cluster_brokers.c.kafka_cluster_id
_MOVING = cluster_replication.c.health[("conditions", "moving", "count")].as_integer()


@dataclass(frozen=True, kw_only=True)
class ObservedBrokers:
    """Observed brokers of one cluster."""

    brokers: Collection[BrokerPresence]
    now: datetime
    """Time of the database's clock, as all times of brokers."""
    is_fresh: bool
    """True if the last poll was recent and succeeded."""
    moving: int
    """Partitions with a running reassignment, whoever started it."""


def store_brokers(connection: Connection, kafka_cluster_id: str, seen: Mapping[int, tuple[bool, bool]]) -> None:
    """Store a successful poll before its health is stored; `seen`: see `updated_presence`."""
    is_mine = cluster_replication.c.kafka_cluster_id == kafka_cluster_id
    looked = connection.execute(sa.select(cluster_replication.c.seen_at).where(is_mine)).scalar_one_or_none()
    now = _now(connection)
    before = _known(connection, kafka_cluster_id)
    late = looked is not None and now - looked > _LATE
    found = updated_presence(before, seen, now, is_first=not before, is_late=late)
    # Most polls find no change.
    ended = [id_ for id_ in before if id_ not in found]
    begun = [each for id_, each in found.items() if before.get(id_) != each]
    if ended:
        connection.execute(
            sa.delete(cluster_brokers).where(_is_of(kafka_cluster_id), cluster_brokers.c.broker.in_(ended))
        )
    if begun:
        row = insert(cluster_brokers)
        fresh = {name: row.excluded[name] for name in _values(begun[0]) if name != "broker"}
        # Another process may poll at the same time, when a lease moves.
        statement = row.on_conflict_do_update(index_elements=["kafka_cluster_id", "broker"], set_=fresh)
        connection.execute(statement, [{"kafka_cluster_id": kafka_cluster_id, **_values(each)} for each in begun])


def clusters_with_broker_changes(connection: Connection) -> list[str]:
    """Return ids of Kafka clusters with a broker that has come without replicas, or is away with some."""
    came = sa.and_(cluster_brokers.c.is_here, cluster_brokers.c.came_empty)
    went = sa.and_(sa.not_(cluster_brokers.c.is_here), sa.not_(cluster_brokers.c.is_empty))
    return list(connection.execute(sa.select(_CLUSTER).where(sa.or_(came, went)).distinct()).scalars())


def read_brokers(connection: Connection, kafka_cluster_id: str | None) -> ObservedBrokers:
    """Return what is known of a cluster's brokers; nothing for a cluster that has never answered."""
    query = sa.select(cluster_replication.c.seen_at, cluster_replication.c.reason, _MOVING.label("moving"))
    row = connection.execute(query.where(cluster_replication.c.kafka_cluster_id == kafka_cluster_id)).one_or_none()
    now = _now(connection)
    seen_at = None if row is None else row.seen_at
    is_fresh = row is not None and row.reason is None and seen_at is not None and now - seen_at <= _LATE
    return ObservedBrokers(
        brokers=tuple(_known(connection, kafka_cluster_id).values()),
        now=now,
        is_fresh=is_fresh,
        moving=0 if row is None else row.moving or 0,
    )


def delete_except(connection: Connection, kafka_cluster_ids: Collection[str]) -> None:
    """Delete the rows of clusters that no longer exist."""
    connection.execute(sa.delete(cluster_brokers).where(_CLUSTER.not_in(kafka_cluster_ids)))


def _now(connection: Connection) -> datetime:
    time: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return time


def _is_of(kafka_cluster_id: str | None) -> ColumnElement[bool]:
    return cluster_brokers.c.kafka_cluster_id == kafka_cluster_id


def _known(connection: Connection, kafka_cluster_id: str | None) -> dict[int, BrokerPresence]:
    query = sa.select(cluster_brokers).where(_is_of(kafka_cluster_id)).order_by(cluster_brokers.c.broker)
    return {
        row.broker: BrokerPresence(
            id=row.broker,
            is_here=row.is_here,
            is_empty=row.is_empty,
            came_empty=row.came_empty,
            was_emptied=row.was_emptied,
            since=row.since,
        )
        for row in connection.execute(query)
    }


def _values(each: BrokerPresence) -> dict[str, Any]:
    return {"broker": each.id, **{name: value for name, value in vars(each).items() if name != "id"}}
