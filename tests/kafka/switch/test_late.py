"""Clients that learned of a move too late: whether their records have arrived, and which records they re-read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from backend.domain.switch.cluster_switch import Phase
from backend.domain.switch.switch_report import STOOD, PhaseTimes
from backend.queries.switch.discovery_clients import ClientRow
from backend.queries.switch.switches import SwitchRow
from tests.eventually import eventually
from tests.kafka.switch.by_hand import ByHand
from workers.switches.residual_writes import Residuals
from workers.switches.scope import Scope

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
HELD = ClientRow(
    tenant="acme",
    instance="retail",
    environment="prod",
    client_id="p",
    role="producer",
    zone=None,
    generation=1,
    phase="held",
    silent_ms=0,
    still_ms=0,
    still_since=SINCE,
    awaited_by=None,
    arrived_in=None,
    given_at=1,
)


def left(hand: ByHand) -> Residuals:
    """Return the remainder of a switch from `a` to `c` that has moved its clients."""
    row = SwitchRow(
        id="s1",
        source=hand.name("a"),
        target=hand.name("c"),
        mode="planned",
        state=Phase.VERIFYING,
        generation=2,
        moves=(),
        drain="target",
        retargets=(),
        plan_digest=None,
        reverses=None,
        forced=(),
        reason=None,
        report=None,
        arrived=None,
        started=1,
        version=1,
        position=1,
    )
    scope = Scope(
        environments=(("acme", "retail", "prod"),),
        streams=(hand.stream,),
        online_leaves=(hand.name("b"), hand.name("c")),
        source_is_online=True,
        flags=0,
    )
    return Residuals(hand.view(), row, scope)


@pytest.mark.nightly  # test_discovery, with a mutant of words given after the mark
def test_a_word_that_was_taken_back_and_given_anew_is_of_what_was_written_between(hand: ByHand):
    """The hold expired while discovery was unreachable: it is the same client, but it has sent more."""
    there = left(hand)
    hand.produce("a", 5)
    assert not there.has_arrived([HELD])
    hand.copy(("a", 2), ("b", 1))
    eventually(lambda: there.has_arrived([HELD]), "all of it is there")
    hand.produce("a", 3)
    assert there.has_arrived([HELD]), "it keeps still: that is somebody else's"
    again = replace(HELD, still_since=SINCE + timedelta(seconds=20))
    assert not there.has_arrived([again])
    hand.copy(("a", 2))
    assert not there.has_arrived([again]), "one hop is still to go"
    hand.copy(("b", 1))
    eventually(lambda: there.has_arrived([again]), "the rest is there, too")


def test_a_group_has_read_up_to_where_the_log_ended_when_it_had_left(hand: ByHand):
    """The group may have left just after the last observation, and need not have committed."""
    hand.produce("a", 5)
    there = left(hand)
    there.note_at_work()
    assert not there.had_members
    consumer = hand.consumer("a", "reads", **{"auto.offset.reset": "earliest"})
    consumer.subscribe([hand.topic("a")])
    eventually(lambda: consumer.poll(0.2) or consumer.assignment(), "it has joined")
    there.note_at_work()
    assert there.had_members
    hand.produce("a", 3)
    consumer.close()
    there.note_at_work()
    assert not there.had_members
    hand.produce("a", 20)
    group = "acme/retail/prod/" + hand.group("reads").rpartition("-")[2]
    closed = {STOOD: {group: {hand.stream: {"0": 5, "1": 0}}}}
    phases = [PhaseTimes(name="closing", started_at="", ended_at="", measured=closed)]
    assert there.read_on(phases) == [{"group": group, "stream": hand.stream, "partition": 0, "records": 3}]
