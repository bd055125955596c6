"""Input of a switch plan: the request, and the facts at one moment.

Facts from the database are of one position of the event log; clusters are queried right after it. A cluster that
did not answer is in `ClusterAnswers.silent`, with the reason, and only observations are known of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from backend.domain.switch.cluster_switch import EMERGENCY, PLANNED, TO_TARGET, Moving, Retarget
from backend.domain.tree import routes, tree_shape
from backend.domain.tree.routes import Edge, Targets
from backend.domain.tree.tree_shape import Node

Place = tuple[str, str, str]
"""(tenant, instance, environment)."""
PartitionOf = tuple[str, int]
"""(STREAM, partition)."""
OFFLINE, APPLIED = "offline", "applied"


@dataclass(frozen=True, kw_only=True)
class Without:
    """A what-if: clusters assumed to be gone, by name or zone, and brokers of clusters that stay."""

    clusters: frozenset[str] = frozenset()
    zones: frozenset[str] = frozenset()
    brokers: tuple[tuple[str, int], ...] = ()
    """(cluster, broker), at most one per cluster: each is assumed to fail while all others live."""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is left out, so that the plan uses the facts as they are."""
        return not (self.clusters or self.zones or self.brokers)


@dataclass(frozen=True, kw_only=True)
class Reversed:
    """A switch to be reversed."""

    switch: str
    moves: frozenset[Moving]
    retargets: tuple[Retarget, ...]


@dataclass(frozen=True, kw_only=True)
class SwitchRequest:
    """The request: which clients leave which cluster, and where to. None for a part of the name: any."""

    source: str
    target: str
    mode: str = PLANNED
    tenant: str | None = None
    instance: str | None = None
    environment: str | None = None
    zone: str | None = None
    drain: str = TO_TARGET
    without: Without = Without()
    reverses: Reversed | None = None
    """The switch to be reversed: only clients that it moved are moved."""

    @property
    def is_emergency(self) -> bool:
        """Return whether the switch waits for nothing."""
        return self.mode == EMERGENCY

    @property
    def is_whole_cluster(self) -> bool:
        """Return whether all clients are to leave the source."""
        return self.tenant is None and self.zone is None

    def names(self, place: Place) -> bool:
        """Return whether the request includes an environment."""
        wanted = (self.tenant, self.instance, self.environment)
        return all(part in (None, its) for part, its in zip(wanted, place, strict=True))


# --- what the database says


@dataclass(frozen=True, kw_only=True)
class ClusterFact:
    """A cluster; `state` is offline if it is unreachable."""

    name: str
    zone: str | None
    state: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ActiveFact:
    """Where discovery sends clients of an environment: those of one zone, or (zone None) of all other zones."""

    tenant: str
    instance: str
    environment: str
    zone: str | None
    cluster: str | None
    """Name of the cluster; None until there is a tree."""
    generation: int

    @property
    def place(self) -> Place:
        """Return (tenant, instance, environment)."""
        return self.tenant, self.instance, self.environment


@dataclass(frozen=True, kw_only=True)
class EdgeFact:
    """State of a distributor, combined from its tasks."""

    paused: bool
    state: str
    reason: str | None
    records_per_second: float | None = None


@dataclass(frozen=True, kw_only=True)
class StreamFact:
    """A stream of a moved environment. `applied`: cluster -> pending, applied or failed; `failures`: reasons."""

    stream: str
    place: Place
    partitions: int
    distributed: bool
    applied: Mapping[str, str]
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the last part of the stream's name."""
        return self.stream.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class ApplicationFact:
    """An application of a moved environment; fields as in `StreamFact`."""

    application: str
    place: Place
    applied: Mapping[str, str]
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClientFact:
    """A client that reported to discovery within the last day."""

    client_id: str
    place: Place
    role: str
    zone: str | None
    generation: int
    phase: str
    silent_ms: int


@dataclass(frozen=True, kw_only=True)
class OffsetFact:
    """A commit of a group on the source, and what was done for it on the target.

    `re_read_bound` is None where no offset was set there yet, or where the bound is unknown.
    """

    stream: str
    partition: int
    group: str
    technical_group: str
    committed: int
    state: str | None
    """State of the offset on the target; None: none was set."""
    re_read_bound: int | None
    offset: int | None = None
    """Offset that is set on the target; None: none."""
    settled: bool | None = None
    """True if the target has all records that the group had read; None: no offset was set."""


@dataclass(frozen=True, kw_only=True)
class NotFollowedFact:
    """A group on the source whose offsets for a moved stream's topic are not translated."""

    technical_group: str
    topic: str
    reason: str


# --- what clusters say


@dataclass(frozen=True, kw_only=True)
class GroupFact:
    """A group with members on a cluster, of a moved environment or reading a moved stream.

    `group` is its logical name, None if its name follows no format.
    """

    technical_group: str
    group: str | None
    place: Place | None
    client_ids: tuple[str, ...]
    streams: frozenset[str]
    """Streams that its members read now; none during a rebalance."""


@dataclass(frozen=True, kw_only=True)
class OutcomeFact:
    """Outcome of a broker failure for some partitions: count, first examples by stream and number, and meaning."""

    what: str
    count: int
    examples: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, kw_only=True)
class BrokerLossFact:
    """Predicted outcome of a broker's failure for partitions of the moved streams, from the replication lab."""

    cluster: str
    broker: int
    replicas: int
    """Partitions of these streams that have a replica there."""
    sentence: str
    outcomes: tuple[OutcomeFact, ...]
    """Outcomes of all kinds, the most severe first."""
    longest_away_ms: int
    """Longest simulated time, in milliseconds, without a leader of partitions that the broker led."""
    session_ms: int
    """Milliseconds after which the cluster treats a silent broker as failed."""
    assumed: tuple[str, ...]
    """Facts that the cluster did not report, and the values assumed instead."""
    settings_unseen: int
    """Number of topics whose settings were not reported."""


@dataclass(frozen=True, kw_only=True)
class ClusterAnswers:
    """Answers of clusters."""

    silent: Mapping[str, str] = field(default_factory=dict)
    """Cluster -> why it could not be queried."""
    partitions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(cluster, STREAM) -> partitions of the topic, for topics that exist."""
    queried: frozenset[str] = frozenset()
    """Clusters whose topics were queried."""
    lacking: Mapping[PartitionOf, int] = field(default_factory=dict)
    """Upper bound of the records that the source holds and the target does not; see `switch_lag.py`."""
    in_transit: int | None = None
    """Upper bound, for an unreachable source, of the records that another leaf has and the target lacks; None:
    unknown."""
    ends: Mapping[PartitionOf, int] = field(default_factory=dict)
    """End offsets of the source's logs, for consumers that read committed records only."""
    target_ends: Mapping[PartitionOf, int] = field(default_factory=dict)
    """End offsets of the target's logs, likewise."""
    commits: Mapping[tuple[str, PartitionOf], int] = field(default_factory=dict)
    """(technical group, partition) -> offset that the group itself has committed on the source."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Technical group on the source -> logical name, for groups that follow the name format."""
    groups: Mapping[str, tuple[GroupFact, ...]] = field(default_factory=dict)
    """Cluster -> its groups with members."""
    brokers_gone: tuple[BrokerLossFact, ...] = ()
    """Predicted outcomes of the brokers assumed to be gone."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Time limits, in milliseconds: how long a client's report counts, and how often workers reconcile."""

    ttl_ms: int
    reconcile_ms: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All facts that a plan is made from."""

    position: int
    taken_at: str
    root: Node | None
    primary: str | None
    targets: Targets
    clusters: Mapping[str, ClusterFact]
    active: tuple[ActiveFact, ...]
    """Active clusters of all environments."""
    busy: Mapping[str, str]
    """Tenant -> the switch that moves it, by its number and clusters."""
    edges: Mapping[tuple[str, int], EdgeFact]
    streams: tuple[StreamFact, ...]
    """Streams of moved environments."""
    other_streams: tuple[StreamFact, ...]
    """Streams of environments that would have to move if the what-if clusters were gone."""
    applications: tuple[ApplicationFact, ...]
    clients: tuple[ClientFact, ...]
    offsets: tuple[OffsetFact, ...]
    not_followed: tuple[NotFollowedFact, ...]
    margin: frozenset[Place]
    """Environments whose offsets are translated by timestamp, with a margin."""
    at_risk: Mapping[str, int | None]
    """Cluster -> records that no other leaf has yet, as observed."""
    timing: Timing
    answers: ClusterAnswers = ClusterAnswers()

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Return the leaves of the tree, from left to right."""
        return () if self.root is None else tree_shape.leaves(self.root)

    @cached_property
    def routes(self) -> Mapping[str, tuple[Edge, ...]]:
        """Return the routes by origin; computed once, since a plan needs paths between many pairs of leaves."""
        return {} if self.root is None else routes.routes(self.root, self.targets)

    def way(self, origin: str, to: str) -> tuple[Edge, ...]:
        """Return the edges that an origin's records take to a cluster; none if there is no route."""
        return routes.way(self.routes.get(origin, ()), origin, to)

    def is_online(self, cluster: str) -> bool:
        """Return whether the cluster is known and not offline."""
        known = self.clusters.get(cluster)
        return known is not None and known.state != OFFLINE
