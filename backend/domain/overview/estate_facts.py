"""Facts about an estate at one moment, from which `estate_health` and `tenant_health` judge it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class ClusterFact:
    """A cluster, and since when it is offline."""

    name: str
    is_offline: bool = False
    reason: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class DistributorFact:
    """A distributor, as its tasks report it."""

    cluster: str
    level: int
    target: str
    state: str
    reason: str | None = None
    in_time: bool | None = None
    """None: not known."""
    is_explained_elsewhere: bool = False
    """True if losses, dead letters or streams that are not applied explain its state."""
    waiting_since: datetime | None = None
    """Time since when no worker has had one of its tasks; None: each is some worker's."""


@dataclass(frozen=True, kw_only=True)
class OpenFact:
    """Items of a distributor that wait for an operator: lost ranges, possible losses, or dead letters."""

    cluster: str
    level: int
    count: int
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ApplyFact:
    """Streams that are not as declared on one cluster."""

    cluster: str
    count: int
    stream: str
    """One of them."""
    reason: str | None
    """None: the reasons differ, or none is known."""
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ReplicationFact:
    """An alert on a cluster's replication, of `domain.replication.replication_alerts`."""

    cluster: str
    alert: str
    count: int
    examples: Sequence[str]
    what_to_do: str


@dataclass(frozen=True, kw_only=True)
class GroupFact:
    """A consumer group on a cluster."""

    cluster: str
    technical_group: str
    name: str
    text: str
    """Sentence of its diagnosis."""
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class GroupsFact:
    """All groups with one diagnosis, and the ones with the largest lag."""

    code: str
    count: int
    worst: Sequence[GroupFact]


@dataclass(frozen=True, kw_only=True)
class SwitchFact:
    """A switch that has not ended, or one that has failed lately."""

    id: str
    source: str
    target: str
    phase: str
    has_failed: bool = False
    is_holding: bool = False
    """True if clients wait for it."""
    reason: str | None = None
    since: datetime | None = None
    """Begin of the phase."""
    places: Sequence[str] = ()
    """Environments that it moves: of those that the reader may see."""
    number: int | None = None
    """Number in the order of starts; None for readers who see some switches only."""


@dataclass(frozen=True, kw_only=True)
class NodeFact:
    """An unreachable node of the zone router."""

    node: str
    since: datetime | None = None
    """Time of its last report."""


@dataclass(frozen=True, kw_only=True)
class WebhookFact:
    """A webhook whose newest deliveries failed."""

    name: str
    failed: int
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class WorkersFact:
    """The last report of a worker of either kind; None: none has ever reported."""

    copied_at: datetime | None = None
    """Last report of one with the queue `treeline.shifts`, which carries out the distributors' tasks."""
    controlled_at: datetime | None = None
    """Last report of one with the queue `treeline.control`, which observes clusters and applies changes."""


@dataclass(frozen=True, kw_only=True)
class EstateFacts:
    """Everything that the verdict on an estate depends on."""

    now: datetime
    clusters: Sequence[ClusterFact] = ()
    has_tree: bool = False
    distributors: Sequence[DistributorFact] = ()
    workers: WorkersFact = WorkersFact()
    lost: Sequence[OpenFact] = ()
    possibly_lost: Sequence[OpenFact] = ()
    dead_letters: Sequence[OpenFact] = ()
    not_applied: Sequence[ApplyFact] = ()
    drifted: Sequence[ApplyFact] = ()
    replication: Sequence[ReplicationFact] = ()
    groups: Sequence[GroupsFact] = ()
    switches: Sequence[SwitchFact] = ()
    nodes: Sequence[NodeFact] = ()
    webhooks: Sequence[WebhookFact] = ()
    projections: Mapping[str, int] = field(default_factory=dict)
    """Projection -> events that it lacks, for those that are behind."""


@dataclass(frozen=True, kw_only=True)
class StreamFact:
    """A stream that is not applied on all its clusters."""

    stream: str
    applied: int
    clusters: int
    has_failed: bool = False
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class TenantFacts:
    """Everything that the verdict on one or more tenants depends on, and nothing of others."""

    now: datetime
    streams: int = 0
    groups_observed: int = 0
    pending: Sequence[StreamFact] = ()
    more_pending: int = 0
    """Further streams that are not applied on all their clusters, of which nothing else was read."""
    groups: Sequence[GroupsFact] = ()
    switches: Sequence[SwitchFact] = ()
