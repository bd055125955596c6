"""Resuming one partition: where reading starts and what is known there, from what the target holds."""

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
class ResumePoint:
    """The point at which the copying of one partition resumes."""

    offset: int | None
    """Offset of the first record to read; None means the log's beginning."""
    edge: PartitionEdge
    """State of the copy decisions at that offset."""
    own: Position | None
    """The task's position in the current topic; None if it has none, or one in a former topic."""
    owed: int | None
    """First offset of which the target may lack records, if it lies before the task's own position. If the log
    begins after it, records are lost that no reader would ever notice. None if there is no such offset."""
    unread: Unread | None
    """Possible loss with a former topic of the source, to be reported before reading begins."""


def find_resume_point(
    plan: EdgePlan,
    stream: StreamOnEdge,
    partition: int,
    *,
    own: Position | None,
    inbound: Iterable[Mark],
    checkpoints: Iterable[Checkpoint],
    foreign: Callable[[int], bool],
    seen_end: SeenEnd | None = None,
) -> ResumePoint:
    """Return the point from which the target misses nothing.

    `own` is the task's position and `inbound` the marks of all positions on the target's partition, `own`
    included; `checkpoints` are those of the source's partition. All must have been read after the task fenced its
    predecessors. `seen_end` is the furthest end of the source's partition that the task saw beyond its position.
    """
    covered = origin.merge(
        mark.covered for mark in inbound if mark.target_incarnation in (0, stream.target_incarnation)
    )
    routes = {**stream.rerooted.get(partition, {}), **plan.routes}
    # Without origins no vector is kept, and a place without a vector says nothing about what lies before it.
    candidates = [each for each in checkpoints if each.seen] if plan.rule.write_origin else []
    unread = former_topic.unread(
        plan.source.number,
        stream.incarnations[partition],
        routes,
        own=own,
        covered=covered,
        checkpoints=candidates,
        seen_end=seen_end,
    )
    own = former_topic.of_present_topic(own, stream.incarnations[partition])
    if own is not None:
        candidates.append(Checkpoint(own.offset, own.mark.incarnation, own.mark.seen))
    begin = rescan.start(candidates, stream.incarnations[partition], routes, covered)
    edge = PartitionEdge(
        plan.rule,
        stream=origin.stream_id(stream.stream),
        partition=partition,
        incarnations=stream.incarnations[partition],
        routes=routes,
        seen=begin.seen,
        covered=covered,
        target_incarnation=stream.target_incarnation,
        holes=stream.holes.get(partition, frozenset()),
        foreign=foreign,
    )
    as_before = own is not None and begin.offset == own.offset
    # A target that has nothing yet gets whatever is there; records removed earlier are no loss.
    owed = begin.offset if covered and not as_before else None
    return ResumePoint(None if begin is rescan.BEGINNING else begin.offset, edge, own, owed, unread)
