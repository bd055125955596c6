"""What a switch has to know of clusters, streams and distributors, read anew only if something has happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from backend.domain.distribution import assignment
from backend.domain.distribution.assignment import Unit
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
    """As of one moment."""

    known: Directory
    clusters: Mapping[str, ClusterRow]
    """All, also those that are away."""
    leaves: Mapping[str, LeafInbound]
    targets: Mapping[tuple[str, int], str]
    """(cluster, level) -> leaf that its distributor copies to."""
    routes: Mapping[str, tuple[Edge, ...]]
    """By origin."""
    buckets: int

    def place(self, cluster: str, partition: Partition) -> Place | None:
        """What a partition is called on a cluster; None while the cluster has no topic of the stream."""
        row = self.known.streams[partition[0]]
        return (row.technical_names[cluster], partition[1]) if cluster in row.incarnations else None

    def groups(self, cluster: str) -> GroupDirectory:
        """How a cluster names groups. Raises KafkaCallFailed while it is away."""
        if cluster not in self.known.groups:
            raise KafkaCallFailed(f"{cluster} is offline, or no leaf of the tree")
        return self.known.groups[cluster]

    def unit(self, cluster: str, level: int, partition: Partition) -> Unit:
        """Which unit of a distributor copies a partition."""
        return Unit(cluster, level, assignment.bucket(*partition, self.buckets))

    def outgoing(self, cluster: str, partition: Partition) -> Iterator[tuple[str, str]]:
        """(target, position group) of the units that read a partition of a cluster."""
        for (source, level), target in self.targets.items():
            if source == cluster:
                yield target, self.unit(source, level, partition).kafka_name

    def inbound(self, cluster: str, partition: Partition) -> tuple[str, ...]:
        """Position groups of all units that may ever have copied a partition to a leaf."""
        return self.leaves[cluster].groups(assignment.bucket(*partition, self.buckets), self.buckets)


class Topologies:
    """Reads the topology again only if something has happened since; used by one thread."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._last: Topology | None = None

    def read(self) -> Topology:
        """The present one."""
        with self._engine.connect() as connection:
            if self._last is None or directory.position_of(connection) != self._last.known.position:
                self._last = _read(connection, self._settings)
        return self._last


def _read(connection: Connection, settings: Settings) -> Topology:
    # The head comes with the directory, before the rest: what comes in between is read twice, never left out.
    known, tree = directory.read(connection), get_tree(connection)
    return Topology(
        known=known,
        clusters={row.name: row for row in list_clusters(connection)},
        leaves=list_inbound(connection),
        targets={} if tree is None else tree.targets,
        routes={} if tree is None else routes.routes(tree.shape, tree.targets),
        buckets=partition_buckets(connection, settings),
    )
