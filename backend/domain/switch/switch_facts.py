"""What a switch is planned from: the wish, and the facts as they were at one moment.

What the database says is of one position of the event log; what clusters say was asked right after it. A cluster
that did not answer stands in `Asked.silent`, with the reason, and nothing is known of it but observations.
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
    """Clusters that are supposed to be gone, by name or by zone, and brokers of clusters that stay: a what-if."""

    clusters: frozenset[str] = frozenset()
    zones: frozenset[str] = frozenset()
    brokers: tuple[tuple[str, int], ...] = ()
    """(cluster, broker), one of a cluster at most: each is supposed to die while all others live."""

    @property
    def is_nothing(self) -> bool:
        """The plan is that of the facts as they are."""
        return not (self.clusters or self.zones or self.brokers)


@dataclass(frozen=True, kw_only=True)
class Reversed:
    """A switch that is to be taken back."""

    switch: str
    moves: frozenset[Moving]
    retargets: tuple[Retarget, ...]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Who is to leave which cluster, and where to. None for a part of the name: whatever it is."""

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
    """The switch that is taken back: only those are moved whom it moved."""

    @property
    def is_emergency(self) -> bool:
        """Whether nothing is waited for."""
        return self.mode == EMERGENCY

    @property
    def is_whole_cluster(self) -> bool:
        """Whether all clients are to leave the source."""
        return self.tenant is None and self.zone is None

    def names(self, place: Place) -> bool:
        """Whether an environment is one of those that are meant."""
        wanted = (self.tenant, self.instance, self.environment)
        return all(part in (None, its) for part, its in zip(wanted, place, strict=True))


# --- what the database says


@dataclass(frozen=True, kw_only=True)
class ClusterFact:
    """A cluster; `state` is offline if it does not answer."""

    name: str
    zone: str | None
    state: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ActiveFact:
    """Where clients of an environment are sent: of one zone, or (zone None) of all without one of their own."""

    tenant: str
    instance: str
    environment: str
    zone: str | None
    cluster: str | None
    """None until there is a tree."""
    generation: int

    @property
    def place(self) -> Place:
        """(tenant, instance, environment)."""
        return self.tenant, self.instance, self.environment


@dataclass(frozen=True, kw_only=True)
class EdgeFact:
    """A distributor, as its units are doing."""

    paused: bool
    state: str
    reason: str | None
    records_per_second: float | None = None


@dataclass(frozen=True, kw_only=True)
class StreamFact:
    """A stream of a moved environment. `applied`: cluster -> pending, applied or failed; `failures` say why."""

    stream: str
    place: Place
    partitions: int
    distributed: bool
    applied: Mapping[str, str]
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of its name."""
        return self.stream.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class ApplicationFact:
    """An application of a moved environment; as `StreamFact`."""

    application: str
    place: Place
    applied: Mapping[str, str]
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClientFact:
    """A client that discovery has heard of within the last day."""

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

    `re_read_bound` is None where nothing was set there yet, or nobody can tell.
    """

    stream: str
    partition: int
    group: str
    technical_group: str
    committed: int
    state: str | None
    """Of what was done on the target; None: nothing."""
    re_read_bound: int | None
    offset: int | None = None
    """That is set on the target; None: none is."""
    settled: bool | None = None
    """Whether the target has all that the group had read; None: nothing was set."""


@dataclass(frozen=True, kw_only=True)
class NotFollowedFact:
    """A group on the source whose offsets for a moved stream's topic are not distributed."""

    technical_group: str
    topic: str
    reason: str


# --- what clusters say


@dataclass(frozen=True, kw_only=True)
class GroupFact:
    """A group that has members on a cluster, of a moved environment or reading a moved stream.

    `group` is its logical name, None if its name follows no format.
    """

    technical_group: str
    group: str | None
    place: Place | None
    client_ids: tuple[str, ...]
    streams: frozenset[str]
    """That its members read now; none while it is rebalanced."""


@dataclass(frozen=True, kw_only=True)
class OutcomeFact:
    """What becomes of some partitions: how many, the first by stream and number, and what it means."""

    what: str
    count: int
    examples: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, kw_only=True)
class BrokerGone:
    """What the replication lab says of a broker that dies, of partitions of the streams that would move."""

    cluster: str
    broker: int
    replicas: int
    """Partitions of these streams that have a replica there."""
    sentence: str
    outcomes: tuple[OutcomeFact, ...]
    """All kinds, the gravest first."""
    longest_away_ms: int
    """Simulated: for so long partitions that it led have no leader."""
    session_ms: int
    """After so long the cluster takes a silent broker for dead."""
    assumed: tuple[str, ...]
    """What the cluster did not tell, and what was taken instead."""
    settings_unseen: int
    """Topics whose settings were not told."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What clusters answered."""

    silent: Mapping[str, str] = field(default_factory=dict)
    """Cluster -> why it could not be asked."""
    partitions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(cluster, STREAM) -> partitions of the topic, of those that were found."""
    looked_at: frozenset[str] = frozenset()
    """Clusters whose topics were asked for."""
    lacking: Mapping[PartitionOf, int] = field(default_factory=dict)
    """At most so many records that the source holds and the target does not; see `switch_lag.py`."""
    under_way: int | None = None
    """Of a silent source: at most so many records that another leaf has and the target does not; None: unknown."""
    ends: Mapping[PartitionOf, int] = field(default_factory=dict)
    """Of the source's logs, for readers of committed records."""
    target_ends: Mapping[PartitionOf, int] = field(default_factory=dict)
    """The same of the target's."""
    commits: Mapping[tuple[str, PartitionOf], int] = field(default_factory=dict)
    """(technical group, partition) -> what the group has committed on the source, by itself."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Technical group on the source -> logical name, of those that follow the format."""
    groups: Mapping[str, tuple[GroupFact, ...]] = field(default_factory=dict)
    """Cluster -> its groups with members."""
    brokers_gone: tuple[BrokerGone, ...] = ()
    """Of the brokers that are supposed to be gone."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long things take at most, in milliseconds, and how far back a client counts as there."""

    ttl_ms: int
    reconcile_ms: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that a plan is made of."""

    position: int
    taken_at: str
    root: Node | None
    primary: str | None
    targets: Targets
    clusters: Mapping[str, ClusterFact]
    active: tuple[ActiveFact, ...]
    """Of all environments."""
    busy: Mapping[str, str]
    """Tenant -> the switch that moves it."""
    edges: Mapping[tuple[str, int], EdgeFact]
    streams: tuple[StreamFact, ...]
    """Of moved environments."""
    other_streams: tuple[StreamFact, ...]
    """Of those that would have to move if clusters were gone."""
    applications: tuple[ApplicationFact, ...]
    clients: tuple[ClientFact, ...]
    offsets: tuple[OffsetFact, ...]
    not_followed: tuple[NotFollowedFact, ...]
    margin: frozenset[Place]
    """Environments whose offsets go by timestamps, with a margin."""
    at_risk: Mapping[str, int | None]
    """Cluster -> records that no other leaf has yet, as observed."""
    timing: Timing
    asked: Asked = Asked()

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Of the tree, from left to right."""
        return () if self.root is None else tree_shape.leaves(self.root)

    @cached_property
    def routes(self) -> Mapping[str, tuple[Edge, ...]]:
        """By origin; found once, since a plan asks for the ways between many pairs of leaves."""
        return {} if self.root is None else routes.routes(self.root, self.targets)

    def way(self, origin: str, to: str) -> tuple[Edge, ...]:
        """The edges by which an origin's records come to a cluster; none if they do not."""
        return routes.way(self.routes.get(origin, ()), origin, to)

    def is_online(self, cluster: str) -> bool:
        """Whether it is known and not offline."""
        known = self.clusters.get(cluster)
        return known is not None and known.state != OFFLINE
