"""Plans of all tasks, derived from the desired state: endpoints, copy rule, streams and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backend.domain.distribution import assignment, leaf_routes
from backend.domain.distribution.assignment import Task
from backend.domain.records.incarnations import Incarnations, incarnations_of
from backend.domain.records.log_prefix import Hole
from backend.domain.records.partition_edge import EdgeRule
from backend.domain.tree import tree_shape
from backend.domain.tree.distributor_settings import DEFAULTS, DistributorSettings
from backend.domain.tree.tree_shape import Node


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A cluster as a distributor reaches it; `properties` holds references to secrets, never the secrets."""

    name: str
    number: int
    bootstrap_servers: str
    properties: Mapping[str, str] = field(hash=False)
    kafka_cluster_id: str | None = None
    """Id that the cluster must answer with; None if it has never answered."""


@dataclass(frozen=True, kw_only=True)
class StreamOnEdge:
    """One stream of one task: its source and target topics, and the partitions of the task's bucket."""

    stream: str
    source_topic: str
    target_topic: str
    partitions: tuple[int, ...]
    incarnations: Mapping[int, Incarnations]
    """Incarnations of the source topic's records, per partition."""
    target_incarnation: int
    source_topic_id: str | None
    target_topic_id: str | None
    """Topic ids that Kafka must report; None if an id is not known, which skips the check."""
    rerooted: Mapping[int, Mapping[int, int]]
    """Partition -> (origin that left the tree -> flags on its copies), for such origins that this edge carries."""
    holes: Mapping[int, frozenset[Hole]]
    """Partition -> records that were dead-lettered on some leaf."""


@dataclass(frozen=True, kw_only=True)
class EdgePlan:
    """Everything that one task needs to run."""

    task: Task
    source: Endpoint
    target: Endpoint
    rule: EdgeRule
    routes: Mapping[int, int]
    """Origin's cluster number -> flags on the copy, for the origins whose route has this edge."""
    routes_version: int
    """Version of the routes into the target. A session may open only after the target has entered this version."""
    buckets: int
    """Number of tasks of each distributor. A session may open only after the target has entered its routes with
    this number."""
    inbound_groups: tuple[str, ...]
    """Position groups of every task that may copy this bucket to the target, now or in the past."""
    streams: tuple[StreamOnEdge, ...]
    paused: bool = False
    bytes_per_second: float | None = None
    """Share of the task in the distributor's limit, in bytes a second; None means no limit."""
    compression: str = "none"

    def same_session(self, other: EdgePlan) -> bool:
        """Return whether a running session can continue under the other plan.

        It can if only the streams, the pause or the limit differ.
        """
        changeable: dict[str, Any] = {"streams": (), "paused": False, "bytes_per_second": None}
        return replace(self, **changeable) == replace(other, **changeable)


@dataclass(frozen=True, kw_only=True)
class TopicLife:
    """Incarnations of one stream's topic on one cluster."""

    incarnation: int
    topic_id: str | None = None
    tails: Mapping[int, Incarnations] = field(default_factory=dict)
    """Incarnations of the partitions whose log was truncated."""

    def incarnations(self, partition: int) -> Incarnations:
        """Return the incarnations of the records produced to a partition."""
        return incarnations_of(self.tails, partition, self.incarnation)


@dataclass(frozen=True, kw_only=True)
class DistributedStream:
    """A stream as far as distribution needs it; `topics` contains only clusters where the topic exists."""

    stream: str
    partitions: int
    technical_names: Mapping[str, str]
    topics: Mapping[str, TopicLife]
    roots: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """Partition -> (number of an origin that left the tree -> leaf from which its records continue)."""
    holes: Mapping[int, frozenset[Hole]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LeafInbound:
    """The distributors that may copy to a leaf."""

    version: int
    """Version of the routes into the leaf."""
    ever: frozenset[tuple[str, int]]
    """Every (cluster, level) that was ever allowed to copy to the leaf."""
    buckets_ever: frozenset[int] = frozenset()
    """Every number of buckets that distributors into the leaf ever had."""

    def groups(self, bucket: int, buckets: int) -> tuple[str, ...]:
        """Return the position groups of all tasks that may ever have copied a bucket's partitions to the leaf."""
        copied_by = (bucket,) if self.buckets_ever <= {buckets} else range(max(buckets, *self.buckets_ever))
        return tuple(
            Task(cluster, level, each).kafka_name for cluster, level in sorted(self.ever) for each in copied_by
        )


@dataclass(frozen=True, kw_only=True)
class HeaderNames:
    """Names of Treeline's headers, and whether origins are written."""

    flags: str
    origin: str
    write_origin: bool


@dataclass(frozen=True, kw_only=True)
class Desired:
    """The part of the event log's state that plans depend on."""

    root: Node
    targets: Mapping[tuple[str, int], str]
    endpoints: Mapping[str, Endpoint]
    leaves: Mapping[str, LeafInbound]
    known_origins: frozenset[int]
    """Numbers of all clusters that are, or ever were, leaves of the tree."""
    streams: Sequence[DistributedStream]
    buckets: int
    headers: HeaderNames
    settings: Mapping[tuple[str, int], DistributorSettings] = field(default_factory=dict)
    """Settings of the distributors whose settings were ever changed."""


def plans(desired: Desired) -> dict[Task, EdgePlan]:
    """Return the plan of every task of the tree."""
    entering = leaf_routes.inbound(desired.root, desired.targets)
    found: dict[Task, EdgePlan] = {}
    for task in assignment.tasks(desired.targets, desired.buckets):
        key = (task.cluster, task.level)
        source, target = desired.endpoints[task.cluster], desired.endpoints[desired.targets[key]]
        leaf = desired.leaves[target.name]
        chosen = desired.settings.get(key, DEFAULTS)
        carried = {desired.endpoints[name].number: flags for name, flags in entering[target.name][key].items()}
        found[task] = EdgePlan(
            task=task,
            source=source,
            target=target,
            rule=EdgeRule(
                source_number=source.number,
                level=task.level,
                known_origins=desired.known_origins,
                flags_header=desired.headers.flags,
                origin_header=desired.headers.origin,
                write_origin=desired.headers.write_origin,
            ),
            routes=carried,
            routes_version=leaf.version,
            buckets=desired.buckets,
            inbound_groups=leaf.groups(task.bucket, desired.buckets),
            streams=tuple(_on_edge(desired, task, target.name, carried)),
            paused=chosen.paused,
            bytes_per_second=chosen.bytes_per_second and chosen.bytes_per_second / desired.buckets,
            compression=chosen.compression,
        )
    return found


def _on_edge(desired: Desired, task: Task, target: str, carried: Mapping[int, int]) -> Iterable[StreamOnEdge]:
    source = task.cluster
    present = {desired.endpoints[name].number for name in tree_shape.leaves(desired.root)}
    for row in desired.streams:
        if source not in row.topics or target not in row.topics:
            continue
        partitions = tuple(
            p for p in range(row.partitions) if assignment.bucket(row.stream, p, desired.buckets) == task.bucket
        )
        if not partitions:
            continue
        rerooted: dict[int, dict[int, int]] = {}
        for partition, placed in row.roots.items():
            for number, leaf in placed.items():
                flags = carried.get(desired.endpoints[leaf].number)
                # A cluster that is a leaf again takes its own route.
                if flags is not None and number not in present:
                    rerooted.setdefault(partition, {})[number] = flags
        yield StreamOnEdge(
            stream=row.stream,
            source_topic=row.technical_names[source],
            target_topic=row.technical_names[target],
            partitions=partitions,
            incarnations={partition: row.topics[source].incarnations(partition) for partition in partitions},
            target_incarnation=row.topics[target].incarnation,
            source_topic_id=row.topics[source].topic_id,
            target_topic_id=row.topics[target].topic_id,
            rerooted={partition: rerooted[partition] for partition in partitions if partition in rerooted},
            holes={partition: row.holes[partition] for partition in partitions if partition in row.holes},
        )
