"""Plans of distributor tasks for tests: for a stable tree in which every leaf has entered its routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backend.domain.distribution import edges, leaf_routes
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import (
    Desired,
    DistributedStream,
    EdgePlan,
    Endpoint,
    HeaderNames,
    LeafInbound,
    TopicLife,
)
from backend.domain.tree import tree_shape
from backend.domain.tree.distributor_settings import DistributorSettings
from backend.domain.tree.tree_shape import Node


def plans_of(
    root: Node,
    targets: Mapping[tuple[str, int], str],
    endpoints: Mapping[str, Endpoint],
    streams: Sequence[DistributedStream],
    buckets: int,
    headers: HeaderNames,
    settings: Mapping[tuple[str, int], DistributorSettings] | None = None,
) -> dict[Task, EdgePlan]:
    """Return `edges.plans` at version 1 of all routes; `settings` are those that differ from the defaults."""
    entering = leaf_routes.inbound(root, targets)
    return edges.plans(
        Desired(
            root=root,
            targets=targets,
            endpoints=endpoints,
            leaves={leaf: LeafInbound(version=1, ever=frozenset(rows)) for leaf, rows in entering.items()},
            known_origins=frozenset(endpoints[name].number for name in tree_shape.leaves(root)),
            streams=streams,
            buckets=buckets,
            headers=headers,
            settings=settings or {},
        )
    )


def lives(incarnations: Mapping[str, int]) -> dict[str, TopicLife]:
    """Return the present topics by cluster, with their incarnations."""
    return {cluster: TopicLife(incarnation=incarnation) for cluster, incarnation in incarnations.items()}
