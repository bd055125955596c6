"""Where a client stands in a move, as a pure state machine: what it heard and when decides what it does.

    ACTIVE --hold--> SETTLING --nothing in flight--> HELD --higher generation, arrived--> ACTIVE on the new cluster
       ^                |                              |
       +----------------+--- active again, or the promise ran out ---

    ACTIVE or SETTLING --higher generation--> ACTIVE, at once: consumers, and producers after an emergency
    any of them --higher generation--> WAITING --arrived, or the longest way is over--> ACTIVE: producers
    ACTIVE or SETTLING --higher generation of the same cluster--> ACTIVE: the switch was taken back

Times are seconds of the client's own monotonic clock; no clock of the control plane is ever compared with it.
Source: decision 34 of Treeline ("How a cluster switch is made").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from treeline_client.answers import Answer, Destination

PRODUCER, CONSUMER = "producer", "consumer"


class Phase(Enum):
    """Where the client stands."""

    ACTIVE = "active"
    SETTLING = "settling"
    """Told to hold, and not yet still."""
    HELD = "held"
    """Still, and has promised to stay so."""
    WAITING = "waiting"
    """Heard of the move too late: waits for what it sent to the old cluster to arrive at the new one."""


class Way(Enum):
    """How a client comes to a new cluster."""

    HELD = "held"
    EMERGENCY = "emergency"
    LATE = "late"


@dataclass(frozen=True)
class Settle:
    """Keep still: producers queue and flush, consumers close."""

    next: Destination | None


@dataclass(frozen=True)
class Resume:
    """Go on where you were: the switch was aborted, or the promise ran out."""

    ran_out: bool


@dataclass(frozen=True)
class Leave:
    """Flush what you sent and send nothing more: you are late (producers)."""


@dataclass(frozen=True)
class Move:
    """Go on, on this cluster."""

    answer: Answer
    way: Way
    hold: bool
    """It is already moving on: stay still there."""


@dataclass(frozen=True)
class Stay:
    """Go on where you are, in this generation: a switch was taken back after it had set offsets."""

    answer: Answer


Order = Settle | Resume | Leave | Move | Stay


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One client's state."""

    role: str
    answer: Answer
    """Of the generation that the client is in."""
    phase: Phase
    heard_at: float
    """When the control plane was last heard."""
    still_until: float = 0.0
    """While settling or held: when the promise ends, unless the control plane is heard again."""
    target: Answer | None = None
    """Where it waits to go."""
    wait_until: float | None = None
    """While waiting: when all that it sent must have arrived; None until it has sent everything."""

    @property
    def reported(self) -> str:
        """The phase as the control plane is told it. A late producer is held once all that it sent is settled."""
        flushing = self.phase is Phase.WAITING and self.wait_until is None
        if flushing or self.phase in (Phase.ACTIVE, Phase.SETTLING):
            return "active"
        return "held" if self.role == PRODUCER else "closed"


def begin(role: str, answer: Answer, fresh: bool, now: float) -> Standing:
    """A client's first standing. One that starts during a hold has nothing in flight: it is held.

    A cached answer (not fresh) promises nothing: its hold, if it was one, is not this client's.
    """
    phase = Phase.HELD if fresh and answer.hold else Phase.ACTIVE
    return Standing(role=role, answer=answer, phase=phase, heard_at=now, still_until=now + answer.hold_ms / 1000)


def heard(standing: Standing, answer: Answer, now: float) -> tuple[Standing, Order | None]:
    """What an answer changes. One of a lower generation than known is of a cache or an old store: nothing."""
    known = (standing.target or standing.answer).generation
    if answer.generation < known:
        return missed(standing, True, now), None
    if standing.phase is Phase.WAITING:
        return _heard_waiting(standing, answer, now)
    if answer.generation > known:
        return _heard_move(standing, answer, now)
    standing = replace(
        standing, answer=answer, heard_at=now, still_until=max(standing.still_until, now + answer.hold_ms / 1000)
    )
    if answer.hold and standing.phase is Phase.ACTIVE:
        return replace(standing, phase=Phase.SETTLING), Settle(answer.next)
    if not answer.hold and standing.phase in (Phase.SETTLING, Phase.HELD):
        return replace(standing, phase=Phase.ACTIVE), Resume(ran_out=False)
    return standing, None


def _heard_move(standing: Standing, answer: Answer, now: float) -> tuple[Standing, Order]:
    if _stays(standing, answer):
        return _moved(standing, answer, Way.HELD, now)[0], Stay(answer)
    if standing.phase is Phase.HELD and (answer.arrived or answer.emergency or standing.role == CONSUMER):
        return _moved(standing, answer, Way.HELD, now)
    if answer.emergency:
        return _moved(standing, answer, Way.EMERGENCY, now)
    if standing.role == CONSUMER:
        return _moved(standing, answer, Way.LATE, now)
    # Also one that holds, but began to after the switch had looked where the logs end.
    waiting = replace(standing, phase=Phase.WAITING, target=answer, heard_at=now)
    return (settled(waiting, now) if standing.phase is Phase.HELD else waiting), Leave()


def _stays(standing: Standing, answer: Answer) -> bool:
    """Whether the client goes on as if nothing had happened. A consumer that missed a generation does not: its
    group may have been elsewhere."""
    if answer.destination != standing.answer.destination:
        return False
    if standing.role == PRODUCER:
        return True
    return standing.phase is not Phase.HELD and answer.generation == standing.answer.generation + 1


def _heard_waiting(standing: Standing, answer: Answer, now: float) -> tuple[Standing, Order | None]:
    standing = replace(standing, target=answer, heard_at=now)
    if answer.emergency:
        return _moved(standing, answer, Way.EMERGENCY, now)
    is_back = answer.destination == standing.answer.destination  # where what it sent is
    if (answer.arrived or is_back) and standing.wait_until is not None:
        return _moved(standing, answer, Way.LATE, now)
    return standing, None


def _moved(standing: Standing, answer: Answer, way: Way, now: float) -> tuple[Standing, Move]:
    phase = Phase.SETTLING if answer.hold else Phase.ACTIVE
    until = now + answer.hold_ms / 1000
    after = Standing(role=standing.role, answer=answer, phase=phase, heard_at=now, still_until=until)
    return after, Move(answer, way, answer.hold)


def missed(standing: Standing, may_have_arrived: bool, now: float) -> Standing:
    """No answer came. If the control plane may have read the report, the promise counts from now."""
    if standing.phase is Phase.HELD and may_have_arrived:
        return replace(standing, still_until=max(standing.still_until, now + standing.answer.hold_ms / 1000))
    return standing


def settled(standing: Standing, now: float) -> Standing:
    """Nothing is in flight any more."""
    if standing.phase is Phase.SETTLING:
        return replace(standing, phase=Phase.HELD)
    if standing.phase is Phase.WAITING and standing.wait_until is None and standing.target is not None:
        longest = max(standing.answer.longest_way_s, standing.target.longest_way_s)
        if standing.target.destination == standing.answer.destination:
            longest = 0.0  # what it sent is there already
        return replace(standing, wait_until=now + longest)
    return standing


def elapsed(standing: Standing, now: float) -> tuple[Standing, Order | None]:
    """What the passing of time changes: a promise ends, a wait is over."""
    if standing.phase in (Phase.SETTLING, Phase.HELD) and now >= standing.still_until:
        return replace(standing, phase=Phase.ACTIVE), Resume(ran_out=True)
    if standing.target is not None and standing.wait_until is not None and now >= standing.wait_until:
        return _moved(standing, standing.target, Way.LATE, now)
    return standing, None


def may_promise(standing: Standing, now: float) -> bool:
    """Whether it may still ask. A control plane that takes reports and answers none would be promised stillness
    without an end: so after `hold_ms` without an answer a held client is silent until its promise has run out.
    """
    return standing.phase is not Phase.HELD or now < standing.heard_at + standing.answer.hold_ms / 1000


def next_change(standing: Standing) -> float | None:
    """When `elapsed` has something to say, if nothing else happens."""
    if standing.phase in (Phase.SETTLING, Phase.HELD):
        return standing.still_until
    return standing.wait_until if standing.phase is Phase.WAITING else None
