"""Adoptions: open ones with their topics, their progress, and the facts for a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.clusters.adoption import AdoptedTopic, AdoptionBegun
from backend.domain.names.names import StreamName
from backend.domain.names.readings import EnvironmentPlace
from backend.eventlog.tables import events
from backend.eventlog.upcasters import UPCASTERS
from backend.projections.adoptions import adoptions
from backend.projections.streams import STREAM, stream_topics, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import environments
from backend.projections.trees import tree_leaves

_BEGUN = AdoptionBegun.stored_name


@dataclass(frozen=True)
class OpenAdoption:
    """An adoption that workers have yet to carry out; `position` is that of the event that began it."""

    cluster: str
    position: int


def list_open(connection: Connection) -> list[OpenAdoption]:
    """Return every running adoption, the oldest first."""
    query = sa.select(adoptions).where(as_of(adoptions, None), adoptions.c.refused.is_(None))
    return [OpenAdoption(row.cluster, row.begun) for row in connection.execute(query.order_by(adoptions.c.begun))]


def topics_of(connection: Connection, position: int) -> list[AdoptedTopic]:
    """Return the topics of the adoption that began at a position; none if there is no such adoption."""
    query = sa.select(events.c.data, events.c.schema_version)
    row = connection.execute(query.where(events.c.position == position, events.c.name == _BEGUN)).one_or_none()
    if row is None:
        return []
    # The adoption may have begun under a version whose event had another shape.
    data = UPCASTERS.raise_to(AdoptionBegun.schema_version, _BEGUN, row.schema_version, row.data)
    return [AdoptedTopic(**topic) for topic in data["topics"]]


def list_environments(connection: Connection) -> list[EnvironmentPlace]:
    """Return every environment."""
    of = (environments.c.tenant, environments.c.instance, environments.c.name)
    query = sa.select(*of).where(as_of(environments, None)).order_by(*of)
    return [(tenant, instance, name) for tenant, instance, name in connection.execute(query)]


def partitions_of_streams(connection: Connection, at: int | None = None) -> dict[StreamName, tuple[int, int]]:
    """Return every stream's partitions and max_message_bytes."""
    columns = (*(streams.c[part] for part in STREAM), streams.c.partitions, streams.c.max_message_bytes)
    rows = connection.execute(sa.select(*columns).where(as_of(streams, at)))
    return {StreamName(*row[:4]): (row[4], row[5]) for row in rows}


def operation(connection: Connection, position: int, at: int | None = None) -> dict[str, Any] | None:
    """Return state, progress and result of the adoption that began at a position, as of `at`; None if none did.

    It has succeeded when every stream is declared or was refused and, where the cluster is a leaf, its topics are
    recorded as the streams' or refused by the reconcile loop.
    """
    topics = topics_of(connection, position)
    if not topics:
        return None
    columns = (adoptions.c.cluster, adoptions.c.refused)
    mine_by_then = adoptions.c.begun == position
    if at is not None:
        mine_by_then = sa.and_(mine_by_then, adoptions.c.valid_from <= at)
    rows = connection.execute(sa.select(*columns).where(mine_by_then)).all()
    cluster = rows[0].cluster
    refused = next((row.refused for row in rows if row.refused is not None), None)
    declared = partitions_of_streams(connection, at)
    mine = {_name(topic): topic.topic for topic in topics if topic.topic not in (refused or {})}
    done = sum(name in declared for name in mine) + len(refused or {})
    on_cluster = _on_cluster(connection, cluster, at)
    in_tree = connection.execute(
        sa.select(sa.exists().where(tree_leaves.c.cluster == cluster, as_of(tree_leaves, at)))
    ).scalar_one()
    failed = {mine[name]: reason for name, (state, reason) in on_cluster.items() if name in mine and reason}
    settled = sum(on_cluster.get(name, ("", None))[0] in ("applied", "failed") for name in mine)
    left = len(mine) - settled if in_tree else 0
    ended = refused is not None and left == 0
    shape = {"id": f"adoption-{position}", "state": "running", "result": None, "problem": None}
    if not ended:
        steps = 2 * len(topics) if in_tree else len(topics)
        reached = done + (settled + len(refused or {}) if in_tree else 0)
        return {**shape, "progress": round(min(0.99, reached / steps), 2)}
    result = {"cluster": cluster, "adopted": len(mine) - len(failed), "refused": {**(refused or {}), **failed}}
    return {**shape, "state": "succeeded", "progress": 1.0, "result": result}


def _on_cluster(connection: Connection, cluster: str, at: int | None) -> dict[StreamName, tuple[str, str | None]]:
    query = sa.select(stream_topics).where(as_of(stream_topics, at), stream_topics.c.cluster == cluster)
    rows = connection.execute(query)
    return {StreamName(*(row._mapping[part] for part in STREAM)): (row.state, row.failure) for row in rows}


def _name(topic: AdoptedTopic) -> StreamName:
    return StreamName(topic.tenant, topic.instance, topic.environment, topic.stream)
