"""Commands on the event stream `switch-<id>`, and their decisions (`cluster_switch.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backend.domain.base.errors import AlreadyExists, FieldError, NotFound, StateConflict, ValueInvalid
from backend.domain.switch.cluster_switch import (
    BEFORE_MOVE,
    DRAINS,
    EMERGENCY,
    MODES,
    TO_TARGET,
    ClientsMoved,
    Moving,
    Phase,
    Retarget,
    StrandedRecordsArrived,
    Switch,
    SwitchAborted,
    SwitchAdvanced,
    SwitchCompleted,
    SwitchEvent,
    SwitchFailed,
    SwitchForced,
    SwitchStarted,
)

OPERATOR, WORKER = "operator", "worker"
AT_RISK = "records_at_risk"
"""Key among an emergency switch's measurements: records that no other leaf had."""

# --- commands


@dataclass(frozen=True, kw_only=True)
class StartSwitch:
    """Start a switch. `moves` and `generation` come from discovery.

    `busy`: tenant -> switch that moves it, by its number and clusters.
    """

    switch: str
    source: str
    target: str
    mode: str
    moves: tuple[Moving, ...]
    generation: int
    busy: Mapping[str, str]
    drain: str = TO_TARGET
    retargets: tuple[Retarget, ...] = ()
    plan_digest: str | None = None
    reverses: str | None = None
    records_at_risk: int | None = None
    """Records that only the source has, as distributors last observed it; for an emergency switch."""


@dataclass(frozen=True, kw_only=True)
class Advance:
    """Go to the next phase, or back to the hold if it timed out."""

    phase: Phase
    measured: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Force:
    """Stop waiting for these clients."""

    clients: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Move:
    """Send the clients to the target. `missing`: clients whose confirmation of the hold has expired."""

    measured: Mapping[str, Any]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Complete:
    """Complete the switch with its report."""

    measured: Mapping[str, Any]
    report: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Abort:
    """Abort the switch; `by` is the operator, or the worker, which gives a reason."""

    by: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class RecordArrived:
    """Record that the records only the old cluster held have arrived on all other leaves."""

    records: int
    partitions: tuple[tuple[str, int, int, int], ...]
    lost: tuple[tuple[str, int, int], ...] = ()


SwitchCommand = StartSwitch | Advance | Force | Move | Complete | Abort | RecordArrived

# --- decide


def decide(state: Switch | None, command: SwitchCommand) -> list[SwitchEvent]:
    """Return the events that carry the command out; none if it changes nothing.

    Raises ValueInvalid, AlreadyExists, NotFound, StateConflict.
    """
    if isinstance(command, StartSwitch):
        return _start(state, command)
    if state is None:
        raise NotFound("there is no such switch")
    match command:
        case Advance():
            return _advance(state, command)
        case Force():
            return _force(state, command)
        case Move():
            return _move(state, command)
        case Complete():
            if state.phase is not Phase.VERIFYING:
                raise _not_now(state, "be completed")
            return [
                SwitchCompleted(
                    switch=state.started.switch, measured=dict(command.measured), report=dict(command.report)
                )
            ]
        case Abort():
            return _abort(state, command)
        case RecordArrived():
            return _arrived(state, command)


def _start(state: Switch | None, command: StartSwitch) -> list[SwitchEvent]:
    if state is not None:
        raise AlreadyExists(f"switch {command.switch} exists already")
    for value, allowed, name in ((command.mode, MODES, "mode"), (command.drain, DRAINS, "drain")):
        if value not in allowed:
            raise ValueInvalid(
                f"{name} must be {' or '.join(allowed)}, not {value[:60]!r}",
                (FieldError(f"/{name}", f"must be {' or '.join(allowed)}"),),
            )
    if command.source == command.target:
        raise ValueInvalid(
            f"source and target are both {command.source}; choose another target",
            (FieldError("/to", "must be another cluster"),),
        )
    if not command.moves:
        raise StateConflict(
            f"no selected environment is active on {command.source}, so there are no clients to move"
        )
    for moving in command.moves:
        if moving.tenant in command.busy:
            raise StateConflict(
                f"switch {command.busy[moving.tenant]} is moving {moving.tenant}; wait until it ends, or abort it"
            )
    started = SwitchStarted(
        switch=command.switch,
        source=command.source,
        target=command.target,
        mode=command.mode,
        moves=command.moves,
        generation=command.generation,
        drain=command.drain,
        retargets=command.retargets,
        plan_digest=command.plan_digest,
        reverses=command.reverses,
    )
    if command.mode != EMERGENCY:
        return [started]
    # Record it now: it cannot be determined later.
    return [started, _moved(started, {AT_RISK: command.records_at_risk})]


def _moved(started: SwitchStarted, measured: Mapping[str, Any]) -> ClientsMoved:
    return ClientsMoved(
        switch=started.switch,
        source=started.source,
        target=started.target,
        mode=started.mode,
        moves=started.moves,
        generation=started.generation,
        measured=dict(measured),
    )


_NEXT = {
    Phase.HOLDING: (Phase.PLANNED, Phase.DRAINING, Phase.CLOSING, Phase.RETARGETING, Phase.MOVING),
    Phase.DRAINING: (Phase.HOLDING,),
    Phase.CLOSING: (Phase.DRAINING,),
    Phase.RETARGETING: (Phase.CLOSING,),
    Phase.MOVING: (Phase.CLOSING, Phase.RETARGETING),
}
"""Phase -> phases from which it is reached."""


def _advance(state: Switch, command: Advance) -> list[SwitchEvent]:
    if command.phase is state.phase:
        return []
    if state.phase not in _NEXT.get(command.phase, ()):
        raise _not_now(state, f"go on to {command.phase}")
    return [
        SwitchAdvanced(
            switch=state.started.switch,
            phase=command.phase,
            previous=state.phase,
            measured=dict(command.measured),
        )
    ]


def _force(state: Switch, command: Force) -> list[SwitchEvent]:
    if state.phase not in BEFORE_MOVE:
        raise _not_now(state, "be forced")
    new = tuple(sorted(set(command.clients) - state.forced))
    return [SwitchForced(switch=state.started.switch, clients=new)] if new else []


def _move(state: Switch, command: Move) -> list[SwitchEvent]:
    if state.phase is not Phase.MOVING:
        raise _not_now(state, "move clients")
    missing = sorted(set(command.missing) - state.forced)
    if missing:
        raise StateConflict(f"the hold of {', '.join(missing[:5])} has expired")
    return [_moved(state.started, command.measured)]


def _abort(state: Switch, command: Abort) -> list[SwitchEvent]:
    if state.phase in (Phase.ABORTED, Phase.FAILED):
        return []
    if state.phase not in BEFORE_MOVE:
        raise StateConflict(
            f"the clients were moved already (generation {state.started.generation}); "
            f"move them back with POST /switches/{state.started.switch}/reverse"
        )
    started, phase = state.started, str(state.phase)
    generation = started.generation if state.carried else None
    if command.by == WORKER:
        return [
            SwitchFailed(
                switch=started.switch,
                phase=phase,
                source=started.source,
                moves=started.moves,
                generation=generation,
                reason=command.reason or "no reason given",
            )
        ]
    return [
        SwitchAborted(
            switch=started.switch,
            phase=phase,
            source=started.source,
            moves=started.moves,
            generation=generation,
            reason=command.reason,
        )
    ]


def _arrived(state: Switch, command: RecordArrived) -> list[SwitchEvent]:
    if state.started.mode != EMERGENCY or state.phase is not Phase.COMPLETED:
        raise _not_now(state, "have unreplicated records")
    if state.stranded_arrived:
        return []
    return [
        StrandedRecordsArrived(
            switch=state.started.switch,
            records=command.records,
            partitions=command.partitions,
            lost=command.lost,
        )
    ]


def _not_now(state: Switch, what: str) -> StateConflict:
    return StateConflict(f"switch {state.started.switch} is {state.phase} and cannot {what}")
