"""Records that a distributor could not copy: recorded once, replayed by name, acknowledged by an operator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.domain.base.errors import NotFound
from backend.domain.distribution import edge_losses
from backend.domain.distribution.edge_losses import (
    Acknowledge,
    LossesAcknowledged,
    RecordDeadLetter,
    RecordLoss,
    RecordReplacement,
    RecordReplay,
    RecordSetAside,
    RecordsLost,
    SetAsideReplayed,
    SourceReplaced,
)

PLACE = {"cluster": "c1", "level": 3, "target": "c4", "stream": "a/r/p/orders", "partition": 0}
REFUSED = RecordDeadLetter(**PLACE, offset=10, origin=(1, 1, 7), reason="too large")
GONE = RecordLoss(**PLACE, first_offset=5, last_offset=8, reason="retention", incarnation=1)
REPLACED = RecordReplacement(
    cluster="c1",
    level=3,
    target="c4",
    stream="a/r/p/orders",
    incarnation=2,
    partitions=((0, 50, 0), (1, 50, 7)),
)


def after(*commands):
    state = edge_losses.INITIAL
    for command in commands:
        for event in edge_losses.decide(state, command):
            state = edge_losses.evolve(state, event)
    return state


def kinds(state, command):
    return [type(event) for event in edge_losses.decide(state, command)]


@pytest.mark.parametrize(
    ("before", "command", "events"),
    [
        ((), REFUSED, [RecordSetAside]),
        ((REFUSED,), REFUSED, []),
        ((REFUSED,), replace(REFUSED, offset=11), []),
        ((REFUSED,), replace(REFUSED, origin=(1, 1, 8)), [RecordSetAside]),
        ((REFUSED,), replace(REFUSED, target="c5"), [RecordSetAside]),
        ((REFUSED,), RecordReplay(id=REFUSED.id, clusters=("c4",)), [SetAsideReplayed]),
        ((REFUSED, RecordReplay(id=REFUSED.id, clusters=())), RecordReplay(id=REFUSED.id, clusters=()), []),
        ((REFUSED, RecordReplay(id=REFUSED.id, clusters=("c4",))), REFUSED, [RecordSetAside]),
        ((), GONE, [RecordsLost]),
        ((GONE,), replace(GONE, incarnation=2), [RecordsLost]),
        ((GONE,), GONE, []),
        ((GONE,), replace(GONE, last_offset=9), [RecordsLost]),
        ((), REPLACED, [SourceReplaced]),
        ((REPLACED,), REPLACED, []),
        ((REPLACED,), replace(REPLACED, target="c5"), [SourceReplaced]),
        ((REPLACED,), replace(REPLACED, incarnation=3), [SourceReplaced]),
        ((REPLACED,), Acknowledge(cluster="c1", level=3), [LossesAcknowledged]),
        ((GONE,), Acknowledge(cluster="c1", level=3), [LossesAcknowledged]),
        ((), Acknowledge(cluster="c1", level=3), []),
        ((GONE, Acknowledge(cluster="c1", level=3)), Acknowledge(cluster="c1", level=3), []),
    ],
)
def test_each_is_said_once(before, command, events):
    assert kinds(after(*before), command) == events


def test_one_event_tells_of_all_partitions_of_a_topic_made_anew_and_of_each_once():
    # The position of partition 1 was committed in the new topic meanwhile; partition 2 is another bucket's.
    later = replace(REPLACED, partitions=((0, 50, 0), (2, 9, 1)))
    (event,) = edge_losses.decide(after(REPLACED), later)
    assert event.partitions == ((2, 9, 1),)


def test_only_what_was_dead_lettered_can_be_replayed():
    with pytest.raises(NotFound, match="no dead-lettered record"):
        edge_losses.decide(edge_losses.INITIAL, RecordReplay(id=REFUSED.id, clusters=()))


def test_a_record_without_an_origin_is_named_by_where_it_was_read():
    assert replace(REFUSED, origin=None).id == "a/r/p/orders/0/c1-3.10@c4"
