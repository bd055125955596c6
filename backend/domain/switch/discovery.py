"""What discovery says to one client, and whether what it said last is still so.

Producers hold from the hold of a switch to its move; consumers go on reading until the drain is done and are
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
"""What clients are told."""
PRODUCER, CONSUMER, ANY = ROLES = ("producer", "consumer", "")
"""A client that tells no role is taken for one that holds with the producers."""
IS_ACTIVE, IS_HELD, IS_CLOSED = PHASES = ("active", "held", "closed")
"""What clients tell of themselves."""
_ANSWERS = {ACTIVE: (IS_ACTIVE,), HOLD: (IS_HELD, IS_CLOSED)}


def told(role: str, switch: Phase | None) -> str:
    """What a client of this role is told while a switch that moves it is in this phase; None: there is none."""
    holds = CLOSED if role == CONSUMER else HELD
    return HOLD if switch in holds else ACTIVE


def does(role: str, phase: str) -> bool:
    """Whether a client that is told to hold, and says that it is in this phase, does what it was told."""
    return phase == IS_CLOSED or (phase == IS_HELD and role != CONSUMER)


def is_news(generation: int, phase: str, *, known_generation: int | None, known_phase: str | None) -> bool:
    """Whether an answer is another one than what the client says of itself."""
    return known_generation != generation or known_phase not in _ANSWERS[phase]


def distances(root: Node, targets: Targets) -> Mapping[str, int]:
    """For each leaf, the most hops that a record born there takes to any other."""
    found: dict[str, int] = {}
    for origin, edges in routes.routes(root, targets).items():
        hops = {origin: 0}
        for edge in edges:  # in the order in which they are reached
            hops.setdefault(edge.target, hops[edge.source] + 1)
        found[origin] = max(hops.values())
    return found


@dataclass(frozen=True, kw_only=True)
class Word:
    """What a client says of itself, and for how long."""

    role: str
    phase: str
    silent_ms: int
    """Since it said so last."""
    given_at: int | None
    """The newest event when it began to hold, which it has done since without a break; None: it does not."""
    is_of_now: bool = True
    """Whether it is of the generation that its environment is in: to hold there is another promise than to have
    held in one that was left."""


def ends_hold(told: str, generation: int, known_generation: int, known_phase: str) -> bool:
    """Whether a client that says that it holds may go on once it is answered this: its word counts no more then.
    One of an earlier generation may not: it waits until what it has sent has arrived. 0: it does not know its
    generation."""
    return told == ACTIVE and known_phase != IS_ACTIVE and known_generation in (0, generation)


def missing(
    expected: Mapping[str, Word],
    *,
    hold_ms: int,
    closing: bool,
    forced: Collection[str] = (),
    marked_at: int | None = None,
) -> list[str]:
    """Clients that are waited for: their word that they hold is not given, or does not count any more.

    `closing`: whether consumers are told to close as well. `marked_at`: position of the event after which it was
    looked where the logs end; producers must have held since before, for one that let go meanwhile, and holds
    again, may have written.
    """
    return sorted(
        client
        for client, word in expected.items()
        if client not in forced
        and (word.role != CONSUMER or closing)
        and not (
            does(word.role, word.phase)
            and word.is_of_now
            # Less than 0: the clock was set back, and nobody knows since when.
            and 0 <= word.silent_ms <= hold_ms
            and was_given_before(None if word.role == CONSUMER else marked_at, word.given_at)
        )
    )


def was_given_before(position: int | None, given_at: int | None) -> bool:
    """Whether a word to hold was given before the event at a position, or at all if that is None."""
    return given_at is not None and (position is None or given_at < position)


def is_drained(
    *, phase: str, generation: int, given_at: int | None, left_generation: int | None, marked_at: int | None
) -> bool:
    """Whether a client that tells this of itself finds all that it has sent where it is sent now: it has held, in
    the generation that was left, since before the drain was marked."""
    came_from_there = phase == IS_HELD and generation == left_generation
    return came_from_there and marked_at is not None and was_given_before(marked_at, given_at)
