"""The rules of a switch's event stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backend.domain.base.errors import AlreadyExists, DomainError, NotFound, StateConflict, ValueInvalid
from backend.domain.switch import cluster_switch as switches
from backend.domain.switch import switch_commands
from backend.domain.switch.cluster_switch import (
    CLOSED,
    EMERGENCY,
    ClientsMoved,
    Moving,
    Phase,
    Switch,
    SwitchAborted,
    SwitchEvent,
    SwitchFailed,
)
from backend.domain.switch.switch_commands import (
    OPERATOR,
    WORKER,
    Abort,
    Advance,
    Complete,
    Force,
    Move,
    StartSwitch,
    SwitchCommand,
)

MOVES = (Moving(tenant="acme", instance="retail", environment="prod"),)
START = StartSwitch(
    switch="s1", source="c1", target="c2", mode="planned", moves=MOVES, generation=2, busy={}, plan_digest="d"
)
FORWARD = (Phase.HOLDING, Phase.DRAINING, Phase.CLOSING, Phase.RETARGETING, Phase.MOVING)


def after(*commands: SwitchCommand) -> tuple[Switch | None, list[SwitchEvent]]:
    """The state after these commands, and what the last one gave."""
    state: Switch | None = None
    events: list[SwitchEvent] = []
    for command in commands:
        events = switch_commands.decide(state, command)
        for event in events:
            state = switches.evolve(state, event)
    return state, events


def until(phase: Phase) -> list[SwitchCommand]:
    """The commands that lead to a phase before the move."""
    steps = FORWARD[: FORWARD.index(phase) + 1] if phase in FORWARD else ()
    return [START, *(Advance(phase=step, measured={}) for step in steps)]


def test_a_planned_switch_goes_through_its_phases_and_moves_once() -> None:
    state, events = after(*until(Phase.MOVING), Move(measured={"groups": 3}, missing=()))
    assert [type(event) for event in events] == [ClientsMoved]
    moved = events[0]
    assert isinstance(moved, ClientsMoved)
    assert (moved.target, moved.generation, moved.moves, moved.measured) == ("c2", 2, MOVES, {"groups": 3})
    assert state is not None and state.phase is Phase.VERIFYING
    with pytest.raises(StateConflict):
        switch_commands.decide(state, Move(measured={}, missing=()))
    (completed,) = switch_commands.decide(state, Complete(measured={}, report={"re_read_bound": 0}))
    ended = switches.evolve(state, completed)
    assert ended is not None and ended.phase is Phase.COMPLETED


def test_an_emergency_moves_in_the_command_that_starts_it() -> None:
    state, events = after(replace(START, mode=EMERGENCY, plan_digest=None))
    assert [event.stored_name for event in events] == ["SwitchStarted", "ClientsMoved"]
    assert state is not None and state.phase is Phase.VERIFYING


@pytest.mark.parametrize("known", [17, None])
def test_an_emergency_keeps_what_was_known_to_be_at_risk(known: int | None) -> None:
    _, (_, moved) = after(replace(START, mode=EMERGENCY, records_at_risk=known))
    assert isinstance(moved, ClientsMoved) and moved.measured == {"records_at_risk": known}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"mode": "quick"}, ValueInvalid),
        ({"drain": "most"}, ValueInvalid),
        ({"target": "c1"}, ValueInvalid),
        ({"moves": ()}, StateConflict),
        ({"busy": {"acme": "s0"}}, StateConflict),
    ],
)
def test_what_cannot_be_started_is_refused(changes: dict[str, Any], error: type[DomainError]) -> None:
    with pytest.raises(error):
        switch_commands.decide(None, replace(START, **changes))


def test_a_switch_of_another_tenant_stops_nobody() -> None:
    assert switch_commands.decide(None, replace(START, busy={"globex": "s0"}))


def test_an_id_is_taken_once() -> None:
    state, _ = after(START)
    with pytest.raises(AlreadyExists):
        switch_commands.decide(state, START)


@pytest.mark.parametrize("command", [Advance(phase=Phase.HOLDING, measured={}), Abort(by=OPERATOR)])
def test_a_switch_that_there_is_not_does_nothing(command: SwitchCommand) -> None:
    with pytest.raises(NotFound):
        switch_commands.decide(None, command)


@pytest.mark.parametrize("phase", [Phase.PLANNED, *FORWARD])
def test_before_the_move_an_operator_aborts_and_a_worker_fails_it(phase: Phase) -> None:
    state, _ = after(*until(phase))
    assert state is not None and state.phase is phase
    (aborted,) = switch_commands.decide(state, Abort(by=OPERATOR, reason=None))
    # Once offsets may have been set on the target, what is committed on the source must be later than they are.
    ended = {"source": "c1", "moves": MOVES, "generation": 2 if phase in CLOSED else None}
    assert aborted == SwitchAborted(switch="s1", phase=phase, reason=None, **ended)
    (failed,) = switch_commands.decide(state, Abort(by=WORKER, reason="no answer"))
    assert failed == SwitchFailed(switch="s1", phase=phase, reason="no answer", **ended)
    over = switches.evolve(state, aborted)
    assert switch_commands.decide(over, Abort(by=OPERATOR)) == []
    with pytest.raises(StateConflict):
        switch_commands.decide(over, Advance(phase=Phase.DRAINING, measured={}))


def test_after_the_move_nothing_is_aborted() -> None:
    state, _ = after(*until(Phase.MOVING), Move(measured={}, missing=()))
    with pytest.raises(StateConflict, match="reverse"):
        switch_commands.decide(state, Abort(by=OPERATOR))


@pytest.mark.parametrize("phase", FORWARD[1:])
def test_a_hold_that_ran_out_begins_again(phase: Phase) -> None:
    state, events = after(*until(phase), Advance(phase=Phase.HOLDING, measured={"ran_out": 1}))
    assert state is not None and state.phase is Phase.HOLDING
    assert len(events) == 1


def test_a_phase_is_not_skipped_and_not_entered_twice() -> None:
    state, _ = after(*until(Phase.HOLDING))
    assert switch_commands.decide(state, Advance(phase=Phase.HOLDING, measured={})) == []
    for phase in (Phase.CLOSING, Phase.MOVING, Phase.VERIFYING, Phase.COMPLETED):
        with pytest.raises(StateConflict):
            switch_commands.decide(state, Advance(phase=phase, measured={}))


def test_what_has_no_targets_to_change_moves_after_closing() -> None:
    state, _ = after(*until(Phase.CLOSING), Advance(phase=Phase.MOVING, measured={}))
    assert state is not None and state.phase is Phase.MOVING


def test_nobody_is_moved_while_a_word_is_missing_unless_the_operator_takes_the_risk() -> None:
    state, _ = after(*until(Phase.MOVING))
    with pytest.raises(StateConflict, match="orders-1"):
        switch_commands.decide(state, Move(measured={}, missing=("orders-1",)))
    state, _ = after(*until(Phase.MOVING), Force(clients=("orders-1",)))
    assert switch_commands.decide(state, Force(clients=("orders-1",))) == []
    (moved,) = switch_commands.decide(state, Move(measured={}, missing=("orders-1",)))
    assert isinstance(moved, ClientsMoved)
