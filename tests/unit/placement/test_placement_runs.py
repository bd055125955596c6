"""A placement after its plan: applied, paused, cancelled, rolled back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.base.errors import PlanStale, StateConflict, ValueInvalid
from backend.domain.placement.placement_runs import (
    COMES_TO,
    RUNNING,
    Cancel,
    EndRun,
    Pause,
    PlacementLimitsChanged,
    PlacementRunEnded,
    PlacementRunRefused,
    PlacementRunStarted,
    PlacementState,
    RefuseRun,
    Resume,
    RunLimits,
    StartApplying,
    StartRollback,
)
from backend.domain.placement.placements import Placement, decide, evolve

PLANNED = Placement(id="p1", cluster="c1", state=PlacementState.PLANNED, digest="1f")
LIMITS = RunLimits(bytes_per_second=1000)
APPLY = StartApplying(digest="1f", limits={"bytes_per_second": 1000}, busy={})
BACK = StartRollback(limits={}, busy={})


def after(state: Placement, *commands: Any) -> Placement:
    for command in commands:
        for event in decide(state, command):
            found = evolve(state, event)
            assert found is not None
            state = found
    return state


def end(state: Placement) -> EndRun:
    return EndRun(run=state.run, after=state.state, report={})


def test_it_is_applied_and_taken_back() -> None:
    (began,) = decide(PLANNED, APPLY)
    assert began == PlacementRunStarted(placement="p1", cluster="c1", run=1, back=False, limits=LIMITS)
    state = after(PLANNED, APPLY)
    assert state.state is PlacementState.APPLYING
    (ended,) = decide(state, end(state))
    assert isinstance(ended, PlacementRunEnded) and ended.state == "applied"
    state = after(state, end(state))
    with pytest.raises(StateConflict, match="already been applied"):
        decide(state, APPLY)
    state = after(state, BACK)
    assert (state.state, state.run, state.limits) == (PlacementState.ROLLING_BACK, 2, LIMITS)
    assert after(state, end(state)).state is PlacementState.ROLLED_BACK


def test_what_a_worker_finds_of_something_else_is_nothing() -> None:
    state = after(PLANNED, APPLY)
    found = end(state)
    cancelled = after(state, Cancel())
    assert decide(cancelled, found) == [], "it was cancelled meanwhile"
    assert decide(after(cancelled, end(cancelled), APPLY), found) == [], "it is another run"
    assert decide(after(state, found), found) == []
    assert decide(after(state, Pause()), end(after(state, Pause()))) == [], "a pause has no end"


def test_a_refused_run_leaves_it_as_it_was() -> None:
    state = after(PLANNED, APPLY, Pause())
    (refused,) = decide(state, RefuseRun(run=1, reason="topics were deleted"))
    assert isinstance(refused, PlacementRunRefused) and refused.state == "planned"
    assert after(state, RefuseRun(run=1, reason="")).state is PlacementState.PLANNED
    assert decide(PLANNED, RefuseRun(run=0, reason="")) == []


def test_limits_change_while_it_goes_on() -> None:
    state = after(PLANNED, APPLY)
    assert decide(state, APPLY) == []
    faster = replace(APPLY, limits=RunLimits().named())
    (changed,) = decide(state, faster)
    assert isinstance(changed, PlacementLimitsChanged)
    assert after(state, Pause(), faster).state is PlacementState.PAUSED
    assert after(state, faster).limits == RunLimits()


def test_what_is_not_named_of_limits_stays_and_a_throttle_is_taken_away_on_purpose() -> None:
    state = after(PLANNED, APPLY, Pause())
    (changed,) = decide(state, replace(APPLY, limits={"moves_per_broker": 2}))
    assert isinstance(changed, PlacementLimitsChanged)
    assert changed.limits == RunLimits(bytes_per_second=1000, moves_per_broker=2)
    state = after(state, replace(APPLY, limits={"moves_per_broker": 2}), replace(BACK, limits={}))
    assert state.limits == changed.limits
    state = after(state, end(state), replace(APPLY, limits={"partitions_at_once": 7}))
    assert state.limits == replace(changed.limits, partitions_at_once=7), "those of the run before"
    assert after(state, replace(APPLY, limits={"bytes_per_second": None})).limits.bytes_per_second is None
    (began,) = decide(PLANNED, replace(APPLY, limits={}))
    assert isinstance(began, PlacementRunStarted) and began.limits == RunLimits()


@pytest.mark.parametrize("limits", [{"bytes_per_second": 0}, {"moves_per_broker": 0}, {"partitions_at_once": -1}])
@pytest.mark.parametrize("back", [False, True])
def test_a_limit_that_lets_nothing_move_is_refused(limits: Any, back: bool) -> None:
    with pytest.raises(ValueInvalid) as told:
        if back:
            decide(after(PLANNED, APPLY), replace(BACK, limits=limits))
        else:
            decide(PLANNED, replace(APPLY, limits=limits))
    assert told.value.errors[0].pointer == f"/{next(iter(limits))}"


def test_only_the_plan_that_was_looked_at_is_applied_and_one_at_a_time() -> None:
    with pytest.raises(PlanStale):
        decide(PLANNED, replace(APPLY, digest="2e"))
    with pytest.raises(StateConflict, match="has no plan"):
        decide(replace(PLANNED, state=PlacementState.FAILED, digest=None), APPLY)
    with pytest.raises(StateConflict, match="placement p2 is moving replicas of c1"):
        decide(PLANNED, replace(APPLY, busy={"c1": "p2"}))
    assert decide(PLANNED, replace(APPLY, busy={"c2": "p2"}))
    with pytest.raises(StateConflict, match="moved nothing"):
        decide(PLANNED, BACK)
    with pytest.raises(StateConflict, match="being cancelled"):
        decide(after(PLANNED, APPLY, Cancel()), APPLY)


@given(st.lists(st.sampled_from([APPLY, BACK, Pause(), Resume(), Cancel(), "end", "refuse"]), max_size=12))
def test_whatever_is_said_it_is_where_one_can_go_on_from(words: list[Any]) -> None:
    """No command leads to a state from which neither a worker nor an operator can continue."""
    state = PLANNED
    for word in words:
        command = (
            end(state) if word == "end" else RefuseRun(run=state.run, reason="") if word == "refuse" else word
        )
        before = state
        try:
            state = after(state, command)
        except StateConflict:
            assert state == before
        assert state.run >= before.run
    if state.state in RUNNING:
        state = after(state, Cancel())
        assert state.state in COMES_TO
        state = after(state, end(state))
    assert state.state not in RUNNING
