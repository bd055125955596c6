"""Taking up a partition: what a task's own position still says of a topic that may have been made anew."""

from __future__ import annotations

import pytest

from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import EdgePlan, Endpoint, StreamOnEdge
from backend.domain.distribution.resume_point import ResumePoint, find_resume_point
from backend.domain.records.marks import Mark, Position
from backend.domain.records.partition_edge import EdgeRule

SOURCE = 1
COPIED = {SOURCE: (1, 49)}


def endpoint(name: str, number: int) -> Endpoint:
    return Endpoint(name=name, number=number, bootstrap_servers=f"{name}:9092", properties={})


def resumed(own: Position | None, *, incarnation: int, target_incarnation: int = 1) -> ResumePoint:
    """Partition 0 of a topic of this incarnation, on an edge that carries what is born on its source."""
    stream = StreamOnEdge(
        stream="acme/retail/prod/orders",
        source_topic="orders",
        target_topic="orders",
        partitions=(0,),
        incarnations={0: ((0, incarnation),)},
        target_incarnation=target_incarnation,
        source_topic_id=None,
        target_topic_id=None,
        rerooted={},
        holes={},
    )
    plan = EdgePlan(
        task=Task("c1", 1, 0),
        source=endpoint("c1", SOURCE),
        target=endpoint("c2", 2),
        rule=EdgeRule(source_number=SOURCE, level=1, known_origins=frozenset({SOURCE, 2})),
        routes={SOURCE: 1},
        routes_version=1,
        buckets=1,
        inbound_groups=(),
        streams=(stream,),
    )
    inbound = [] if own is None else [own.mark]
    return find_resume_point(plan, stream, 0, own=own, inbound=inbound, checkpoints=(), foreign=lambda _: False)


def position(incarnation: int, target_incarnation: int = 1) -> Position:
    return Position(50, Mark(incarnation, target_incarnation, COPIED, COPIED), leader_epoch=7)


def test_reading_goes_on_at_the_tasks_position_in_the_topic_that_is_there() -> None:
    begin = resumed(position(1), incarnation=1)
    assert (begin.offset, begin.own, begin.owed, begin.unread) == (50, position(1), None, None)


@pytest.mark.parametrize("own", [position(1), None])
def test_without_a_position_in_the_topic_that_is_there_reading_begins_anew(own: Position | None) -> None:
    begin = resumed(own, incarnation=2)
    assert (begin.offset, begin.own) == (None, None)
    assert (begin.unread is not None) == (own is not None), "what the former topic held is told"


@pytest.mark.parametrize("written_for", [2, 0], ids=["this topic", "a topic without an incarnation"])
def test_a_target_has_what_the_marks_of_its_topic_say(written_for: int) -> None:
    begin = resumed(position(1, written_for), incarnation=1, target_incarnation=2)
    assert (begin.offset, begin.edge.covered) == (50, COPIED)


def test_a_targets_new_topic_has_nothing_yet() -> None:
    begin = resumed(position(1), incarnation=1, target_incarnation=2)
    assert (begin.offset, begin.edge.covered) == (None, {})
    assert begin.edge.copy(7, None) is not None
