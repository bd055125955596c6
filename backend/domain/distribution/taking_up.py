"""Taking up one partition: from what the target holds to where reading starts and what is known there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from backend.domain.distribution import former_topic, rescan
from backend.domain.distribution.edges import EdgePlan, StreamOnEdge
from backend.domain.distribution.former_topic import SeenEnd, Unread
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records import origin
from backend.domain.records.marks import Mark, Position
from backend.domain.records.partition_edge import PartitionEdge


@dataclass(frozen=True)
class Beginning:
    """Where one partition is taken up."""

    offset: int | None
    """None is the log's beginning."""
    edge: PartitionEdge
    """The state of the decisions there."""
    own: Position | None
    """The unit's position in the topic that is there now; None if it has none, or one in a former topic."""
    owed: int | None
    """The first offset of which the target may lack records, if that lies before what the unit has read itself: a
    log that begins behind it has lost some, and no reader will ever notice. None: nothing of that kind."""
    unread: Unread | None
    """What may be lost with a former topic of the source, and is to be told before reading begins."""


def take_up(
    plan: EdgePlan,
    stream: StreamOnEdge,
    partition: int,
    *,
    own: Position | None,
    inbound: Iterable[Mark],
    checkpoints: Iterable[Checkpoint],
    foreign: Callable[[int], bool],
    seen_end: SeenEnd | None = None,
) -> Beginning:
    """Where to begin so that the target misses nothing.

    `own` is the unit's position and `inbound` the marks of all positions on the target's partition, its own
    included; `checkpoints` are of the source's partition. Everything was read after the unit was fenced in.
    `seen_end` is the furthest end of the source's partition that the unit has seen beyond its position.
    """
    covered = origin.merge(
        mark.covered for mark in inbound if mark.target_incarnation in (0, stream.target_incarnation)
    )
    routes = {**stream.rerooted.get(partition, {}), **plan.routes}
    # Without origins no vector is kept, and a place without one says nothing of what lies before it.
    candidates = [each for each in checkpoints if each.seen] if plan.rule.write_origin else []
    unread = former_topic.unread(
        plan.source.number,
        stream.births[partition],
        routes,
        own=own,
        covered=covered,
        checkpoints=candidates,
        seen_end=seen_end,
    )
    own = former_topic.of_present_topic(own, stream.births[partition])
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
    as_before = own is not None and begin.offset == own.offset
    # To a target that has nothing yet is copied what there is; what was gone before is nobody's loss.
    owed = begin.offset if covered and not as_before else None
    return Beginning(None if begin is rescan.BEGINNING else begin.offset, edge, own, owed, unread)
