"""Rules of discovery: which phase a client is told, and whether its last report still counts.

Producers hold from the hold of a switch until the move. Consumers keep reading until the drain is complete and are
closed from then on. (Design, "Discovery"; docs/decisions/0034.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from backend.domain.switch.cluster_switch import CLOSED, HELD, Phase
from backend.domain.tree import routes
from backend.domain.tree.routes import Targets
from backend.domain.tree.tree_shape import Node

ACTIVE, HOLD = "active", "hold"
"""Phases that discovery answers."""
PRODUCER, CONSUMER, ANY = ROLES = ("producer", "consumer", "")
"""Roles of clients; one that reports no role is treated as a producer."""
IS_ACTIVE, IS_HELD, IS_CLOSED = PHASES = ("active", "held", "closed")
"""Phases that clients report of themselves."""
_ANSWERS = {ACTIVE: (IS_ACTIVE,), HOLD: (IS_HELD, IS_CLOSED)}


def instructed_phase(role: str, switch: Phase | None) -> str:
    """Return the phase that a client of this role is told during a switch's phase; None: no switch moves it."""
    holds = CLOSED if role == CONSUMER else HELD
    return HOLD if switch in holds else ACTIVE


def complies(role: str, phase: str) -> bool:
    """Return whether a client that reports this phase complies with the instruction to hold."""
    return phase == IS_CLOSED or (phase == IS_HELD and role != CONSUMER)


def has_news(generation: int, phase: str, *, known_generation: int | None, known_phase: str | None) -> bool:
    """Return whether an answer differs from what the client reports it knows."""
    return known_generation != generation or known_phase not in _ANSWERS[phase]


def distances(root: Node, targets: Targets) -> Mapping[str, int]:
    """Return, for each leaf, the most hops that a record produced there takes to any other leaf."""
    found: dict[str, int] = {}
    for origin, edges in routes.routes(root, targets).items():
        hops = {origin: 0}
        for edge in edges:  # in the order in which they are reached
            hops.setdefault(edge.target, hops[edge.source] + 1)
        found[origin] = max(hops.values())
    return found


@dataclass(frozen=True, kw_only=True)
class LatestReport:
    """The latest report of a client, and its age."""

    role: str
    phase: str
    silent_ms: int
    """Milliseconds since the client's last request."""
    given_at: int | None
    """Position of the newest event when the client began its present hold; None: it does not hold."""
    is_of_now: bool = True
    """True if the report is of the environment's current generation: holding in a generation that was left
    promises nothing for this one."""


def ends_hold(told: str, generation: int, known_generation: int, known_phase: str) -> bool:
    """Return whether a client that reports holding may continue after this answer, so that its hold ends.

    A client of an earlier generation may not: it waits until the records it has sent have arrived. Generation 0
    means that the client does not know its generation.
    """
    return told == ACTIVE and known_phase != IS_ACTIVE and known_generation in (0, generation)


def missing(
    expected: Mapping[str, LatestReport],
    *,
    hold_ms: int,
    closing: bool,
    forced: Collection[str] = (),
    marked_at: int | None = None,
) -> list[str]:
    """Return the clients to wait for: those that have not confirmed the hold, or whose confirmation expired.

    `closing`: whether consumers are told to close as well. `marked_at`: position of the event after which the log
    ends were read. Producers must have held since before that event: one that released the hold in between and
    holds again may have written.
    """
    return sorted(
        client
        for client, report in expected.items()
        if client not in forced
        and (report.role != CONSUMER or closing)
        and not (
            complies(report.role, report.phase)
            and report.is_of_now
            # A negative age: the clock was set back, so the true age is unknown.
            and 0 <= report.silent_ms <= hold_ms
            and held_before(None if report.role == CONSUMER else marked_at, report.given_at)
        )
    )


def held_before(position: int | None, given_at: int | None) -> bool:
    """Return whether a client confirmed the hold before the event at a position (None: at any time)."""
    return given_at is not None and (position is None or given_at < position)


def is_drained(
    *, phase: str, generation: int, given_at: int | None, left_generation: int | None, marked_at: int | None
) -> bool:
    """Return whether all records that this client has sent are on the cluster it is sent to now.

    They are if it has held, in the generation that was left, since before the drain was marked.
    """
    came_from_there = phase == IS_HELD and generation == left_generation
    return came_from_there and marked_at is not None and held_before(marked_at, given_at)
