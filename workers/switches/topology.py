"""Clusters, streams and distributors as a switch needs them, re-read only if an event has changed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from backend.domain.distribution import assignment
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import LeafInbound
from backend.domain.offsets.group_directory import GroupDirectory
from backend.domain.tree import routes
from backend.domain.tree.routes import Edge
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.distribution.leaf_routes import list_inbound
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.tree.trees import get_tree
from backend.settings import Settings
from workers.offsets import directory
from workers.offsets.directory import Directory

Partition = tuple[str, int]
"""(stream, partition)."""
Place = tuple[str, int]
"""(topic, partition)."""


@dataclass(frozen=True, kw_only=True)
class Topology:
    """State at one position of the event log."""

    known: Directory
    clusters: Mapping[str, ClusterRow]
    """All clusters, also those that are offline."""
    leaves: Mapping[str, LeafInbound]
    targets: Mapping[tuple[str, int], str]
    """(cluster, level) -> leaf that the distributor copies to."""
    routes: Mapping[str, tuple[Edge, ...]]
    """Routes by origin."""
    buckets: int

    def place(self, cluster: str, partition: Partition) -> Place | None:
        """Return a partition's topic on a cluster; None while the cluster has no topic of the stream."""
        row = self.known.streams[partition[0]]
        return (row.technical_names[cluster], partition[1]) if cluster in row.incarnations else None

    def groups(self, cluster: str) -> GroupDirectory:
        """Return the cluster's naming of groups. Raises KafkaCallFailed while it is offline."""
        if cluster not in self.known.groups:
            raise KafkaCallFailed(f"{cluster} is offline, or not a leaf of the tree")
        return self.known.groups[cluster]

    def task(self, cluster: str, level: int, partition: Partition) -> Task:
        """Return the task of a distributor that copies a partition."""
        return Task(cluster, level, assignment.bucket(*partition, self.buckets))

    def outgoing(self, cluster: str, partition: Partition) -> Iterator[tuple[str, str]]:
        """Yield (target, position group) of the tasks that read a partition of a cluster."""
        for (source, level), target in self.targets.items():
            if source == cluster:
                yield target, self.task(source, level, partition).kafka_name

    def inbound(self, cluster: str, partition: Partition) -> tuple[str, ...]:
        """Return the position groups of all tasks that may ever have copied a partition to a leaf."""
        return self.leaves[cluster].groups(assignment.bucket(*partition, self.buckets), self.buckets)


class Topologies:
    """Caches the topology until another event is appended; used by one thread."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._last: Topology | None = None

    def read(self) -> Topology:
        """Return the current topology."""
        with self._engine.connect() as connection:
            if self._last is None or directory.position_of(connection) != self._last.known.position:
                self._last = _read(connection, self._settings)
        return self._last


def _read(connection: Connection, settings: Settings) -> Topology:
    # Read the directory's position first: an event in between is then read twice, and never missed.
    known, tree = directory.read(connection), get_tree(connection)
    return Topology(
        known=known,
        clusters={row.name: row for row in list_clusters(connection)},
        leaves=list_inbound(connection),
        targets={} if tree is None else tree.targets,
        routes={} if tree is None else routes.routes(tree.shape, tree.targets),
        buckets=partition_buckets(connection, settings),
    )
