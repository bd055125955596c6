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
class Standing:
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


def begin(role: str, answer: Answer, fresh: bool, now: float) -> Standing:
    """Return a client's first state; one that starts during a hold has nothing in flight, so it is held.

    A cached answer (not fresh) is no hold: even if it says so, this client was not told to hold.
    """
    phase = Phase.HELD if fresh and answer.hold else Phase.ACTIVE
    return Standing(role=role, answer=answer, phase=phase, heard_at=now, still_until=now + answer.hold_ms / 1000)


def heard(standing: Standing, answer: Answer, now: float) -> tuple[Standing, Order | None]:
    """Apply an answer; one with a lower generation comes from a cache or an old database and changes nothing."""
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
    # This includes a producer that holds, but only since after the drain was marked.
    waiting = replace(standing, phase=Phase.WAITING, target=answer, heard_at=now)
    return (settled(waiting, now) if standing.phase is Phase.HELD else waiting), Leave()


def _stays(standing: Standing, answer: Answer) -> bool:
    """Return whether the client continues as if nothing had happened.

    A consumer that missed a generation does not, since its group may have been on another cluster.
    """
    if answer.destination != standing.answer.destination:
        return False
    if standing.role == PRODUCER:
        return True
    return standing.phase is not Phase.HELD and answer.generation == standing.answer.generation + 1


def _heard_waiting(standing: Standing, answer: Answer, now: float) -> tuple[Standing, Order | None]:
    standing = replace(standing, target=answer, heard_at=now)
    if answer.emergency:
        return _moved(standing, answer, Way.EMERGENCY, now)
    is_back = answer.destination == standing.answer.destination  # the cluster that has its records
    if (answer.arrived or is_back) and standing.wait_until is not None:
        return _moved(standing, answer, Way.LATE, now)
    return standing, None


def _moved(standing: Standing, answer: Answer, way: Way, now: float) -> tuple[Standing, Move]:
    phase = Phase.SETTLING if answer.hold else Phase.ACTIVE
    until = now + answer.hold_ms / 1000
    after = Standing(role=standing.role, answer=answer, phase=phase, heard_at=now, still_until=until)
    return after, Move(answer, way, answer.hold)


def missed(standing: Standing, may_have_arrived: bool, now: float) -> Standing:
    """Apply a missing answer; if the control plane may have read the report, the hold counts from now."""
    if standing.phase is Phase.HELD and may_have_arrived:
        return replace(standing, still_until=max(standing.still_until, now + standing.answer.hold_ms / 1000))
    return standing


def settled(standing: Standing, now: float) -> Standing:
    """Apply that nothing is in flight any more."""
    if standing.phase is Phase.SETTLING:
        return replace(standing, phase=Phase.HELD)
    if standing.phase is Phase.WAITING and standing.wait_until is None and standing.target is not None:
        longest = max(standing.answer.longest_way_s, standing.target.longest_way_s)
        if standing.target.destination == standing.answer.destination:
            longest = 0.0  # its records are there already
        return replace(standing, wait_until=now + longest)
    return standing


def elapsed(standing: Standing, now: float) -> tuple[Standing, Order | None]:
    """Apply the passing of time: a hold expires, or a wait ends."""
    if standing.phase in (Phase.SETTLING, Phase.HELD) and now >= standing.still_until:
        return replace(standing, phase=Phase.ACTIVE), Resume(ran_out=True)
    if standing.target is not None and standing.wait_until is not None and now >= standing.wait_until:
        return _moved(standing, standing.target, Way.LATE, now)
    return standing, None


def may_promise(standing: Standing, now: float) -> bool:
    """Return whether the client may send another report.

    A control plane that receives reports but never answers would be promised a hold without end. So after
    `hold_ms` without an answer, a held client stays silent until its hold has expired.
    """
    return standing.phase is not Phase.HELD or now < standing.heard_at + standing.answer.hold_ms / 1000


def next_change(standing: Standing) -> float | None:
    """Return when `elapsed` will change something, if nothing else happens."""
    if standing.phase in (Phase.SETTLING, Phase.HELD):
        return standing.still_until
    return standing.wait_until if standing.phase is Phase.WAITING else None
