"""Read clusters, now or as of a position."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from backend.domain.base.errors import NotFound
from backend.domain.distribution.edges import Endpoint
from backend.domain.topics.replica_defaults import ReplicaDefaults
from backend.projections.clusters import clusters
from backend.projections.temporal import as_of
from backend.projections.trees import tree_leaves


@dataclass(frozen=True)
class ClusterRow:
    """A cluster. `properties` have references to secrets, unmasked; `position` is that of its last event."""

    name: str
    number: int
    bootstrap_servers: str
    zone: str | None
    topic_format: str
    group_format: str
    subject_format: str
    properties: dict[str, str]
    state: str
    reason: str | None
    kafka_cluster_id: str | None
    brokers: int | None
    defaults: ReplicaDefaults
    defaults_before: ReplicaDefaults
    """Replica defaults before the last change; automatic if they were never set."""
    version: int
    position: int

    @property
    def endpoint(self) -> Endpoint:
        """Return the endpoint that clients connect to."""
        return Endpoint(
            name=self.name,
            number=self.number,
            bootstrap_servers=self.bootstrap_servers,
            properties=self.properties,
            kafka_cluster_id=self.kafka_cluster_id,
        )


def list_clusters(connection: Connection, at: int | None = None) -> list[ClusterRow]:
    """Return every cluster, by number."""
    query = sa.select(clusters).where(as_of(clusters, at)).order_by(clusters.c.number)
    return [_row(row) for row in connection.execute(query)]


def leaves_by_tree(connection: Connection, at: int | None = None) -> dict[str, list[ClusterRow]]:
    """Return the clusters of each tree, by number."""
    rows = connection.execute(sa.select(tree_leaves.c.tree, tree_leaves.c.cluster).where(as_of(tree_leaves, at)))
    trees_of: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        trees_of[row.cluster].append(row.tree)
    leaves: dict[str, list[ClusterRow]] = defaultdict(list)
    for cluster in list_clusters(connection, at):
        for tree in trees_of[cluster.name]:
            leaves[tree].append(cluster)
    return leaves


def leaves(connection: Connection, at: int | None = None) -> list[str]:
    """Return names of the clusters that are in a tree, by number."""
    in_trees = sa.select(tree_leaves.c.cluster).where(as_of(tree_leaves, at))
    query = sa.select(clusters.c.name).where(as_of(clusters, at), clusters.c.name.in_(in_trees))
    return list(connection.execute(query.order_by(clusters.c.number)).scalars())


def get_cluster(connection: Connection, name: str, at: int | None = None) -> ClusterRow | None:
    """Return one cluster, or None."""
    query = sa.select(clusters).where(clusters.c.name == name, as_of(clusters, at))
    row = connection.execute(query).one_or_none()
    return None if row is None else _row(row)


def find_cluster(connection: Connection, name: str, at: int | None = None) -> ClusterRow:
    """Return one cluster, or raise NotFound."""
    row = get_cluster(connection, name, at)
    if row is None:
        raise NotFound(f"there is no cluster {name!r}; GET /clusters lists them")
    return row


def next_number(connection: Connection) -> int:
    """Return the number of the next cluster: above all that ever were, including removed ones."""
    highest = connection.execute(sa.select(sa.func.max(clusters.c.number))).scalar_one()
    return (highest or 0) + 1


def names_ever(connection: Connection) -> dict[int, str]:
    """Return number -> name of every cluster that exists or existed; numbers are never used again."""
    rows = connection.execute(sa.select(clusters.c.number, clusters.c.name).distinct())
    return {row.number: row.name for row in rows}


def known_kafka_clusters(connection: Connection) -> dict[str, str]:
    """Return Kafka cluster id -> name of the cluster with this id."""
    return {row.kafka_cluster_id: row.name for row in list_clusters(connection) if row.kafka_cluster_id}


def trees_with(connection: Connection, cluster: str) -> tuple[str, ...]:
    """Return names of the trees that the cluster is a leaf of."""
    query = sa.select(tree_leaves.c.tree).where(tree_leaves.c.cluster == cluster, as_of(tree_leaves, None))
    return tuple(connection.execute(query.order_by(tree_leaves.c.tree)).scalars())


def _row(row: Row[Any]) -> ClusterRow:
    columns = dict(row._mapping)
    position = columns.pop("valid_from")
    del columns["valid_to"]
    defaults, before = (ReplicaDefaults(**columns.pop(name)) for name in ("defaults", "defaults_before"))
    return ClusterRow(**columns, defaults=defaults, defaults_before=before, position=position)
