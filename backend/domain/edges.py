"""From the desired state to the plan of each unit: which endpoints, which rule, which streams and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from backend.domain import assignment, routes, tree_shape
from backend.domain.assignment import Unit
from backend.domain.origin import EdgeRule
from backend.domain.tree_shape import Node


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A cluster as a distributor reaches it; properties hold references, never secrets."""

    name: str
    number: int
    bootstrap_servers: str
    properties: Mapping[str, str] = field(hash=False)
    kafka_cluster_id: str | None = None
    """Id that the cluster must answer with; None while it has never answered."""


@dataclass(frozen=True, kw_only=True)
class StreamOnEdge:
    """One stream on one unit: where it is read and written, and the partitions of the unit's bucket."""

    stream: str
    source_topic: str
    target_topic: str
    partitions: tuple[int, ...]
    incarnation: int
    """Of the source's topic."""


@dataclass(frozen=True, kw_only=True)
class EdgePlan:
    """All that one unit needs to run."""

    unit: Unit
    source: Endpoint
    target: Endpoint
    rule: EdgeRule
    inbound_groups: tuple[str, ...]
    """Position groups of every unit that may copy this bucket to the target, now or before."""
    streams: tuple[StreamOnEdge, ...]

    def same_session(self, other: EdgePlan) -> bool:
        """Whether a running session can go on under the other plan, at most with other streams."""
        return (self.unit, self.source, self.target, self.rule, self.inbound_groups) == (
            other.unit,
            other.source,
            other.target,
            other.rule,
            other.inbound_groups,
        )


@dataclass(frozen=True, kw_only=True)
class DistributedStream:
    """A stream as far as distribution needs it; `incarnations` only has clusters where the topic exists."""

    stream: str
    partitions: int
    technical_names: Mapping[str, str]
    incarnations: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class HeaderNames:
    """Names of our headers, and whether origins are written."""

    flags: str
    origin: str
    write_origin: bool


def plans(
    root: Node,
    targets: Mapping[tuple[str, int], str],
    endpoints: Mapping[str, Endpoint],
    streams: Sequence[DistributedStream],
    buckets: int,
    headers: HeaderNames,
) -> dict[Unit, EdgePlan]:
    """The plan of every unit of the tree."""
    by_edge: dict[tuple[str, int], dict[int, int]] = {}
    for origin, edges in routes.routes(root, targets).items():
        for edge in edges:
            by_edge.setdefault((edge.source, edge.level), {})[endpoints[origin].number] = edge.flags
    known = frozenset(endpoints[name].number for name in tree_shape.leaves(root))
    reachable: dict[str, list[tuple[str, int]]] = {}
    for cluster, level, allowed in tree_shape.siblings(root):
        for leaf in allowed:
            reachable.setdefault(leaf, []).append((cluster, level))
    found: dict[Unit, EdgePlan] = {}
    for unit in assignment.units(targets, buckets):
        key = (unit.cluster, unit.level)
        source, target = endpoints[unit.cluster], endpoints[targets[key]]
        found[unit] = EdgePlan(
            unit=unit,
            source=source,
            target=target,
            rule=EdgeRule(
                source_number=source.number,
                level=unit.level,
                route_flags=by_edge.get(key, {}),
                known_origins=known,
                flags_header=headers.flags,
                origin_header=headers.origin,
                write_origin=headers.write_origin,
            ),
            inbound_groups=tuple(
                Unit(cluster, level, unit.bucket).kafka_name for cluster, level in reachable[target.name]
            ),
            streams=tuple(_on_edge(streams, source.name, target.name, unit.bucket, buckets)),
        )
    return found


def _on_edge(
    streams: Iterable[DistributedStream], source: str, target: str, bucket: int, buckets: int
) -> Iterable[StreamOnEdge]:
    for row in streams:
        if source not in row.incarnations or target not in row.incarnations:
            continue
        partitions = tuple(p for p in range(row.partitions) if assignment.bucket(row.stream, p, buckets) == bucket)
        if partitions:
            yield StreamOnEdge(
                stream=row.stream,
                source_topic=row.technical_names[source],
                target_topic=row.technical_names[target],
                partitions=partitions,
                incarnation=row.incarnations[source],
            )
