"""What discovery says to one client, and whether what it said last is still so.

Producers hold from the hold of a switch to its move; consumers go on reading until the drain is done and are
closed from then on. (Design, "Discovery"; docs/decisions/0034.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from backend.domain import routes
from backend.domain.cluster_switch import CLOSED, HELD, Phase
from backend.domain.routes import Targets
from backend.domain.tree_shape import Node

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
    still_since: datetime | None
    """Since when it has held without a break; None: it does not."""


def missing(
    expected: Mapping[str, Word],
    *,
    hold_ms: int,
    closing: bool,
    forced: Collection[str] = (),
    measured_at: datetime | None = None,
) -> list[str]:
    """Clients that are waited for: their word that they hold is not given, or does not count any more.

    `closing`: whether consumers are told to close as well; `measured_at`: of the drain, by the clock of words:
    producers must have held since before. One that let go meanwhile, and holds again, may have written.
    """
    return sorted(
        client
        for client, word in expected.items()
        if client not in forced
        and (word.role != CONSUMER or closing)
        and not (does(word.role, word.phase) and word.silent_ms <= hold_ms and _kept(word, measured_at))
    )


def _kept(word: Word, measured_at: datetime | None) -> bool:
    if word.role == CONSUMER:
        return True
    return word.still_since is not None and (measured_at is None or word.still_since <= measured_at)
