"""Snapshot of the clusters, streams and environments that translator and committers need."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine

from backend.domain.names import formats
from backend.domain.names.names import StreamName
from backend.domain.names.readings import EnvironmentPlace
from backend.domain.offsets.group_directory import GroupDirectory
from backend.domain.offsets.offset_map import GroupPartition
from backend.domain.records.incarnations import Incarnations, incarnations_of
from backend.domain.records.log_prefix import Hole
from backend.domain.switch.cluster_switch import FIRST_GENERATION, PHASE_EVENTS
from backend.queries.base.events import newest_position
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.distribution.edge_losses import holes
from backend.queries.distribution.leaf_routes import known_origins, list_leaves
from backend.queries.switch.active_clusters import generations
from backend.queries.tenants.streams import StreamRow, list_streams
from backend.queries.tenants.tenants import OffsetRules, offset_rules
from backend.queries.tree.trees import MAIN


@dataclass(frozen=True, kw_only=True)
class Directory:
    """Configuration as of one position of the event log."""

    position: int
    """Position of the event log; everything here comes from events."""
    clusters: Mapping[str, ClusterRow]
    """Reachable leaves of the tree."""
    members: frozenset[str]
    """All leaves of the tree."""
    groups: Mapping[str, GroupDirectory]
    """Directory of each cluster's group names."""
    streams: Mapping[str, StreamRow]
    """Distributed streams, by full name."""
    rules: Mapping[EnvironmentPlace, OffsetRules]
    known_origins: frozenset[int]
    holes: Mapping[tuple[str, int], frozenset[Hole]]
    generations: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)
    """(tenant, instance, environment, cluster) -> generation in which the cluster was last the environment's
    active cluster; clusters that never were are left out."""

    def generation(self, cluster: str, group_partition: GroupPartition) -> int:
        """Return the generation that orders a group's commits on a cluster.

        Commits of a consumer that a switch left behind are older than all commits on the cluster that is active
        since.
        """
        place = (group_partition.tenant, group_partition.instance, group_partition.environment, cluster)
        return self.generations.get(place, FIRST_GENERATION)

    def is_exact(self, group_partition: GroupPartition) -> bool:
        """Tell whether the group continues at the first record that it has not read."""
        rules = self.rules.get((group_partition.tenant, group_partition.instance, group_partition.environment))
        return rules is not None and rules.exact

    def topic(self, cluster: str, group_partition: GroupPartition) -> str:
        """Return a stream's technical name on a cluster, even if the stream is deleted or not distributed."""
        stream = StreamName(
            group_partition.tenant, group_partition.instance, group_partition.environment, group_partition.stream
        )
        return formats.technical_name(self.clusters[cluster].topic_format, stream)

    def has_newer_topic(self, cluster: str, stream: str, incarnation: int | None) -> bool:
        """Tell whether the topic was re-created since that incarnation; None means an unknown incarnation."""
        row = self.streams.get(stream)
        return row is not None and incarnation is not None and row.incarnations.get(cluster, 0) > incarnation

    def incarnations(self, cluster: str, stream: str, partition: int) -> Incarnations | None:
        """Return the incarnations of a log's records; None if the cluster has no topic of the stream yet."""
        row = self.streams[stream]
        if cluster not in row.incarnations:
            return None
        return incarnations_of(row.tails[cluster], partition, row.incarnations[cluster])


def position_of(connection: Connection) -> int:
    """Return the position of the newest event that may change the directory; phases of a switch do not.

    Phases that move clients do: they change the generations.
    """
    return newest_position(connection, but=PHASE_EVENTS)


def read(connection: Connection) -> Directory:
    """Read the current directory."""
    position = position_of(connection)
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
        position=position,
        clusters=clusters,
        members=frozenset(leaves),
        groups=groups,
        streams=streams,
        rules=offset_rules(connection),
        known_origins=known_origins(connection),
        holes=holes(connection),
        generations=generations(connection),
    )


class Directories:
    """Cache of the directory for all threads of a process; it is read again only after new events."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reading = threading.Lock()
        self._last: Directory | None = None

    def read(self) -> Directory:
        """Return the current directory."""
        with self._reading, self._engine.connect() as connection:
            # The position is read first: events that arrive in between are read twice, never missed.
            if self._last is None or position_of(connection) != self._last.position:
                self._last = read(connection)
            return self._last
