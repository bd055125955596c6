"""State of a client during a switch, as a pure state machine: answers and their times decide what it does.

    ACTIVE --hold--> SETTLING --nothing in flight--> HELD --higher generation, arrived--> ACTIVE on the new cluster
       ^                |                              |
       +----------------+--- active again, or the hold expired ---

    ACTIVE or SETTLING --higher generation--> ACTIVE, at once: consumers, and producers after an emergency
    any of them --higher generation--> WAITING --arrived, or the longest way is over--> ACTIVE: producers
    ACTIVE or SETTLING --higher generation of the same cluster--> ACTIVE: the switch was aborted

Times are seconds of the client's own monotonic clock, which is never compared with a clock of the control plane.
Source: decision 34 of Treeline ("How a cluster switch is made").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from treeline_client.answers import Answer, Destination

PRODUCER, CONSUMER = "producer", "consumer"


class Phase(Enum):
    """Phase of the client in a switch."""

    ACTIVE = "active"
    SETTLING = "settling"
    """Told to hold, with records or commits still in flight."""
    HELD = "held"
    """Nothing is in flight, and the client has reported that it holds."""
    WAITING = "waiting"
    """Learned of the move too late; waits until its records have arrived on the new cluster."""


class Way(Enum):
    """Circumstances of a move to a new cluster."""

    HELD = "held"
    EMERGENCY = "emergency"
    LATE = "late"


@dataclass(frozen=True)
class Settle:
    """Order to hold: producers queue and flush, consumers close."""

    next: Destination | None


@dataclass(frozen=True)
class Resume:
    """Order to continue on the same cluster: the switch was aborted, or the hold expired."""

    ran_out: bool


@dataclass(frozen=True)
class Leave:
    """Order to a late producer: flush what was sent and send nothing more."""


@dataclass(frozen=True)
class Move:
    """Order to continue on this cluster."""

    answer: Answer
    way: Way
    hold: bool
    """True if the next switch is under way: hold there."""


@dataclass(frozen=True)
class Stay:
    """Order to continue on the same cluster in this generation: a switch was aborted after it had set offsets."""

    answer: Answer


Order = Settle | Resume | Leave | Move | Stay


@dataclass(frozen=True, kw_only=True)
class ClientState:
    """State of one client."""

    role: str
    answer: Answer
    """Answer of the client's present generation."""
    phase: Phase
    heard_at: float
    """Time of the last answer."""
    still_until: float = 0.0
    """End of the hold while settling or held; every answer extends it."""
    target: Answer | None = None
    """Answer of the generation that the client waits to enter."""
    wait_until: float | None = None
    """End of the wait while waiting: all its records must have arrived then; None until all are sent."""

    @property
    def reported(self) -> str:
        """Return the phase to report; a late producer is held once all its records are settled."""
        flushing = self.phase is Phase.WAITING and self.wait_until is None
        if flushing or self.phase in (Phase.ACTIVE, Phase.SETTLING):
            return "active"
        return "held" if self.role == PRODUCER else "closed"


def begin(role: str, answer: Answer, fresh: bool, now: float) -> ClientState:
    """Return a client's first state; one that starts during a hold has nothing in flight, so it is held.

    A cached answer (not fresh) is no hold: even if it says so, this client was not told to hold.
    """
    phase = Phase.HELD if fresh and answer.hold else Phase.ACTIVE
    return ClientState(
        role=role, answer=answer, phase=phase, heard_at=now, still_until=now + answer.hold_ms / 1000
    )


def heard(state: ClientState, answer: Answer, now: float) -> tuple[ClientState, Order | None]:
    """Apply an answer; one with a lower generation comes from a cache or an old database and changes nothing."""
    known = (state.target or state.answer).generation
    if answer.generation < known:
        return missed(state, True, now), None
    if state.phase is Phase.WAITING:
        return _heard_waiting(state, answer, now)
    if answer.generation > known:
        return _heard_move(state, answer, now)
    state = replace(
        state, answer=answer, heard_at=now, still_until=max(state.still_until, now + answer.hold_ms / 1000)
    )
    if answer.hold and state.phase is Phase.ACTIVE:
        return replace(state, phase=Phase.SETTLING), Settle(answer.next)
    if not answer.hold and state.phase in (Phase.SETTLING, Phase.HELD):
        return replace(state, phase=Phase.ACTIVE), Resume(ran_out=False)
    return state, None


def _heard_move(state: ClientState, answer: Answer, now: float) -> tuple[ClientState, Order]:
    if _stays(state, answer):
        return _moved(state, answer, Way.HELD, now)[0], Stay(answer)
    if state.phase is Phase.HELD and (answer.arrived or answer.emergency or state.role == CONSUMER):
        return _moved(state, answer, Way.HELD, now)
    if answer.emergency:
        return _moved(state, answer, Way.EMERGENCY, now)
    if state.role == CONSUMER:
        return _moved(state, answer, Way.LATE, now)
    # This includes a producer that holds, but only since after the drain was marked.
    waiting = replace(state, phase=Phase.WAITING, target=answer, heard_at=now)
    return (settled(waiting, now) if state.phase is Phase.HELD else waiting), Leave()


def _stays(state: ClientState, answer: Answer) -> bool:
    """Return whether the client continues as if nothing had happened.

    A consumer that missed a generation does not, since its group may have been on another cluster.
    """
    if answer.destination != state.answer.destination:
        return False
    if state.role == PRODUCER:
        return True
    return state.phase is not Phase.HELD and answer.generation == state.answer.generation + 1


def _heard_waiting(state: ClientState, answer: Answer, now: float) -> tuple[ClientState, Order | None]:
    state = replace(state, target=answer, heard_at=now)
    if answer.emergency:
        return _moved(state, answer, Way.EMERGENCY, now)
    is_back = answer.destination == state.answer.destination  # the cluster that has its records
    if (answer.arrived or is_back) and state.wait_until is not None:
        return _moved(state, answer, Way.LATE, now)
    return state, None


def _moved(state: ClientState, answer: Answer, way: Way, now: float) -> tuple[ClientState, Move]:
    phase = Phase.SETTLING if answer.hold else Phase.ACTIVE
    until = now + answer.hold_ms / 1000
    after = ClientState(role=state.role, answer=answer, phase=phase, heard_at=now, still_until=until)
    return after, Move(answer, way, answer.hold)


def missed(state: ClientState, may_have_arrived: bool, now: float) -> ClientState:
    """Apply a missing answer; if the control plane may have read the report, the hold counts from now."""
    if state.phase is Phase.HELD and may_have_arrived:
        return replace(state, still_until=max(state.still_until, now + state.answer.hold_ms / 1000))
    return state


def settled(state: ClientState, now: float) -> ClientState:
    """Apply that nothing is in flight any more."""
    if state.phase is Phase.SETTLING:
        return replace(state, phase=Phase.HELD)
    if state.phase is Phase.WAITING and state.wait_until is None and state.target is not None:
        longest = max(state.answer.longest_way_s, state.target.longest_way_s)
        if state.target.destination == state.answer.destination:
            longest = 0.0  # its records are there already
        return replace(state, wait_until=now + longest)
    return state


def elapsed(state: ClientState, now: float) -> tuple[ClientState, Order | None]:
    """Apply the passing of time: a hold expires, or a wait ends."""
    if state.phase in (Phase.SETTLING, Phase.HELD) and now >= state.still_until:
        return replace(state, phase=Phase.ACTIVE), Resume(ran_out=True)
    if state.target is not None and state.wait_until is not None and now >= state.wait_until:
        return _moved(state, state.target, Way.LATE, now)
    return state, None


def may_promise(state: ClientState, now: float) -> bool:
    """Return whether the client may send another report.

    A control plane that receives reports but never answers would be promised a hold without end. So after
    `hold_ms` without an answer, a held client stays silent until its hold has expired.
    """
    return state.phase is not Phase.HELD or now < state.heard_at + state.answer.hold_ms / 1000


def next_change(state: ClientState) -> float | None:
    """Return when `elapsed` will change something, if nothing else happens."""
    if state.phase in (Phase.SETTLING, Phase.HELD):
        return state.still_until
    return state.wait_until if state.phase is Phase.WAITING else None
