"""Placement policies for brokers that join or leave; and the worker's reasons for its proposals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.domain.base.errors import NotFound, ValueInvalid
from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placement_policy import (
    INITIAL,
    LONGEST_AWAY_MINUTES,
    PlacementPolicy,
    PlacementPolicySet,
    Policy,
    SetPolicy,
    decide,
)
from backend.domain.placement.placement_proposals import HoldBack, PlacementHeldBack, PlacementProposed, Proposal
from backend.domain.placement.placement_runs import RunLimits, StartApplying
from backend.domain.placement.placements import INITIAL as NO_PLACEMENT
from backend.domain.placement.placements import PlacementRequested, RecordPlan, RequestPlacement
from backend.domain.placement.placements import decide as decide_placement
from backend.domain.placement.placements import evolve as evolve_placement

SET = SetPolicy(
    cluster="c1",
    wanted=PlacementPolicy(policy=Policy.APPLY, away_minutes=45, limits=RunLimits(bytes_per_second=10**7)),
    present=PlacementPolicy(),
    known_clusters=["c1"],
)


def test_it_is_set_and_the_same_again_changes_nothing() -> None:
    assert decide(INITIAL, SET) == [
        PlacementPolicySet(cluster="c1", policy="apply", away_minutes=45, limits=RunLimits(bytes_per_second=10**7))
    ]
    assert decide(INITIAL, replace(SET, present=SET.wanted)) == []
    assert decide(INITIAL, replace(SET, wanted=PlacementPolicy())) == [], "as it is usual"


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"away_minutes": 0}, "/away_minutes"),
        ({"away_minutes": LONGEST_AWAY_MINUTES + 1}, "/away_minutes"),
        ({"limits": RunLimits(moves_per_broker=0)}, "/limits/moves_per_broker"),
        ({"limits": RunLimits(bytes_per_second=-1)}, "/limits/bytes_per_second"),
    ],
)
def test_what_cannot_be_meant_says_where(wrong: dict[str, object], where: str) -> None:
    with pytest.raises(ValueInvalid) as refused:
        decide(INITIAL, replace(SET, wanted=replace(SET.wanted, **wrong)))  # type: ignore[arg-type]
    assert [each.pointer for each in refused.value.errors] == [where]


def test_of_a_cluster_that_is_not_there_nothing_is_set() -> None:
    with pytest.raises(NotFound, match="'c2'"):
        decide(INITIAL, replace(SET, cluster="c2"))


def test_a_proposal_is_told_with_what_was_asked_for_and_held_back_once() -> None:
    proposal = Proposal(policy="apply", joined=(4,), left=(2, 3))
    wish = RequestPlacement(placement="p1", cluster="c1", aims=Aims(), known_clusters=["c1"], proposal=proposal)
    events = decide_placement(NO_PLACEMENT, wish)
    assert [type(each) for each in events] == [PlacementRequested, PlacementProposed]
    assert events[1] == PlacementProposed(placement="p1", cluster="c1", policy="apply", joined=(4,), left=(2, 3))
    state = NO_PLACEMENT
    for event in events:
        state = evolve_placement(state, event)
    hold = HoldBack(reason="look at it")
    assert decide_placement(state, hold) == [], "there is no plan yet"
    for command in (RecordPlan(digest="1f", summary={}), hold):
        (event,) = decide_placement(state, command)
        state = evolve_placement(state, event)
    assert event == PlacementHeldBack(placement="p1", cluster="c1", reason="look at it")
    assert decide_placement(state, hold) == []
    # An operator applies it all the same.
    assert decide_placement(state, StartApplying(digest="1f", limits={}, busy={}))
