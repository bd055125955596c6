"""Taking up one partition: from what the target holds to where reading starts and what is known there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from backend.domain import origin, rescan
from backend.domain.edges import EdgePlan, StreamOnEdge
from backend.domain.marks import Mark, Position
from backend.domain.partition_edge import PartitionEdge
from backend.domain.rescan import Checkpoint


def take_up(
    plan: EdgePlan,
    stream: StreamOnEdge,
    partition: int,
    *,
    own: Position | None,
    inbound: Iterable[Mark],
    checkpoints: Iterable[Checkpoint],
    foreign: Callable[[int], bool],
) -> tuple[int | None, PartitionEdge]:
    """The offset to begin at, None for the log's beginning, and the state of the decisions there.

    `own` is the unit's position and `inbound` the marks of all positions on the target's partition, its own
    included; `checkpoints` are of the source's partition. Everything was read after the unit was fenced in.
    """
    covered = origin.merge(
        mark.covered for mark in inbound if mark.target_incarnation in (0, stream.target_incarnation)
    )
    routes = {**stream.rerooted.get(partition, {}), **plan.routes}
    candidates = list(checkpoints)
    if own is not None:
        candidates.append(Checkpoint(own.offset, own.mark.incarnation, own.mark.seen))
    begin = rescan.start(candidates, stream.births[partition], routes, covered)
    edge = PartitionEdge(
        plan.rule,
        stream=origin.stream_id(stream.stream),
        partition=partition,
        births=stream.births[partition],
        routes=routes,
        seen=begin.seen,
        covered=covered,
        target_incarnation=stream.target_incarnation,
        holes=stream.holes.get(partition, frozenset()),
        foreign=foreign,
    )
    return (None if begin is rescan.BEGINNING else begin.offset), edge
