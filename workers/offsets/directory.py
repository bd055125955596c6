"""What translator and committers have to know of clusters, streams and environments, read in one go."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine

from backend.domain.names import formats
from backend.domain.names.names import StreamName
from backend.domain.names.readings import EnvironmentPlace
from backend.domain.offsets.group_directory import GroupDirectory
from backend.domain.offsets.offset_map import Follower
from backend.domain.records.births import Births, births_of
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
    """As of one moment."""

    position: int
    """Of the event log: all of it comes from events."""
    clusters: Mapping[str, ClusterRow]
    """The tree's leaves that can be asked."""
    members: frozenset[str]
    """All leaves of the tree."""
    groups: Mapping[str, GroupDirectory]
    """By cluster."""
    streams: Mapping[str, StreamRow]
    """Distributed ones, by full name."""
    rules: Mapping[EnvironmentPlace, OffsetRules]
    known_origins: frozenset[int]
    holes: Mapping[tuple[str, int], frozenset[Hole]]
    generations: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)
    """(tenant, instance, environment, cluster) -> generation of the environment in which the cluster was active
    last; those that never were are left out."""

    def generation(self, cluster: str, follower: Follower) -> int:
        """In which what a group commits on a cluster is ordered: what a consumer that was left behind by a switch
        commits there is older than all that was committed on the cluster that is active since."""
        place = (follower.tenant, follower.instance, follower.environment, cluster)
        return self.generations.get(place, FIRST_GENERATION)

    def is_exact(self, follower: Follower) -> bool:
        """Whether the group goes on at the first record that it has not read."""
        rules = self.rules.get((follower.tenant, follower.instance, follower.environment))
        return rules is not None and rules.exact

    def topic(self, cluster: str, follower: Follower) -> str:
        """What a stream's topic is called on a cluster, also of one that is no more, or not distributed."""
        stream = StreamName(follower.tenant, follower.instance, follower.environment, follower.stream)
        return formats.technical_name(self.clusters[cluster].topic_format, stream)

    def has_newer_topic(self, cluster: str, stream: str, incarnation: int | None) -> bool:
        """Whether a cluster's topic of a stream was made anew since that incarnation; None: it is not known."""
        row = self.streams.get(stream)
        return row is not None and incarnation is not None and row.incarnations.get(cluster, 0) > incarnation

    def births(self, cluster: str, stream: str, partition: int) -> Births | None:
        """Incarnations of a log's records; None if the cluster has no topic of the stream yet."""
        row = self.streams[stream]
        if cluster not in row.incarnations:
            return None
        return births_of(row.tails[cluster], partition, row.incarnations[cluster])


def position_of(connection: Connection) -> int:
    """Of the newest event that may change the directory; clients that are moved change the generations."""
    return newest_position(connection, but=PHASE_EVENTS)


def read(connection: Connection) -> Directory:
    """The present directory."""
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
    """Reads the directory again only if something has happened since; one for all threads of a process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reading = threading.Lock()
        self._last: Directory | None = None

    def read(self) -> Directory:
        """The present directory."""
        with self._reading, self._engine.connect() as connection:
            # The head before the rest: what comes in between is read twice, never left out.
            if self._last is None or position_of(connection) != self._last.position:
                self._last = read(connection)
            return self._last
