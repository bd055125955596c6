"""What the translator has to know of clusters, streams and environments, read in one go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.domain.births import Births, births_of
from backend.domain.group_directory import GroupDirectory
from backend.domain.log_prefix import Hole
from backend.domain.names import StreamName
from backend.domain.readings import EnvironmentPlace
from backend.queries.clusters import ClusterRow, list_clusters
from backend.queries.edge_losses import holes
from backend.queries.leaf_routes import known_origins, list_leaves
from backend.queries.streams import StreamRow, list_streams
from backend.queries.tenants import margins_ms
from backend.queries.trees import MAIN


@dataclass(frozen=True, kw_only=True)
class Directory:
    """As of one moment."""

    clusters: Mapping[str, ClusterRow]
    """The tree's leaves that can be asked."""
    groups: Mapping[str, GroupDirectory]
    """By cluster."""
    streams: Mapping[str, StreamRow]
    """Distributed ones, by full name."""
    margins_ms: Mapping[EnvironmentPlace, int]
    known_origins: frozenset[int]
    holes: Mapping[tuple[str, int], frozenset[Hole]]

    def births(self, cluster: str, stream: str, partition: int) -> Births | None:
        """Incarnations of a log's records; None if the cluster has no topic of the stream yet."""
        row = self.streams[stream]
        if cluster not in row.incarnations:
            return None
        return births_of(row.tails[cluster], partition, row.incarnations[cluster])


def read(connection: Connection) -> Directory:
    """The present directory."""
    leaves = list_leaves(connection)
    every = list_clusters(connection)
    clusters = {row.name: row for row in every if row.name in leaves and row.state != "offline"}
    streams = {row.stream: row for row in list_streams(connection) if row.distributed and row.tree == MAIN}
    groups = {
        name: GroupDirectory(
            name,
            row.group_format,
            {
                stream.technical_names[name]: StreamName(
                    stream.tenant, stream.instance, stream.environment, stream.name
                )
                for stream in streams.values()
                if name in stream.incarnations
            },
        )
        for name, row in clusters.items()
    }
    return Directory(
        clusters=clusters,
        groups=groups,
        streams=streams,
        margins_ms=margins_ms(connection),
        known_origins=known_origins(connection),
        holes=holes(connection),
    )
