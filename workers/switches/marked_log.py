"""One partition of a drain's source: its end at the mark, and the known vectors before it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from backend.domain.records.incarnations import Incarnations
from backend.domain.records.log_index import Prefix
from backend.domain.records.origin import Vector
from backend.domain.switch import draining
from backend.domain.switch.draining import Reached
from workers.switches.topology import Partition, Place

FAR_RECORDS = 20_000
"""Distance from the end beyond which a log is not read while its tasks still advance."""
_PATIENCE_SECONDS = 2.0
"""Seconds during which uncovered records may simply be on their way."""


@dataclass
class MarkedLog:
    """A log of the source; offsets are None until they are read."""

    partition: Partition
    place: Place
    incarnations: Incarnations
    low: int = 0
    decided: int | None = None
    """End at the mark for readers of decided transactions."""
    end: int | None = None
    """End at the mark."""
    is_decided: bool = False
    furthest: Prefix | None = None
    """Furthest position of the tasks that read the log."""
    moved_at: float = field(default_factory=time.monotonic)
    """When `furthest` last changed, by the monotonic clock."""
    wanted: Vector | None = None
    """Vector at the end."""
    covered: dict[str, Vector] = field(default_factory=dict)
    """Covered vector, by target."""
    lacks_since: dict[tuple[str, int, Reached], float] = field(default_factory=dict)
    """(target, origin, reached) -> since when the target lacks it, by the monotonic clock."""
    is_warm: bool = False
    gone: dict[int, tuple[Reached, Vector]] = field(default_factory=dict)
    """Origin -> (how far it was wanted, how far the log itself has it), for origins that were searched for."""

    def still_there(self, wanted: Vector) -> Vector:
        """Return the wanted vector without records that a search did not find in the log."""
        for number, (looked_for, present) in self.gone.items():
            if wanted.get(number) == looked_for:
                wanted = draining.still_there(wanted, {number: looked_for}, present)
        return wanted

    def is_far(self) -> bool:
        """Return whether reading up to the end would cost more than waiting for the tasks that read it anyway."""
        begins = self.furthest.offset if self.furthest is not None else self.low
        moving = time.monotonic() - self.moved_at < _PATIENCE_SECONDS
        return moving and (self.end or 0) - max(begins, self.low) > FAR_RECORDS

    def advance_to(self, base: Prefix) -> None:
        """Record a new furthest position of the tasks."""
        self.furthest, self.moved_at = base, time.monotonic()

    def long_lacked(self, target: str, lacks: Vector) -> Vector:
        """Return what a target has lacked for longer than copying takes and no search has covered yet."""
        now = time.monotonic()
        others = {key: since for key, since in self.lacks_since.items() if key[0] != target}
        mine = {
            (target, number, reached): self.lacks_since.get((target, number, reached), now)
            for number, reached in lacks.items()
        }
        self.lacks_since = others | mine
        return {
            number: reached
            for (_, number, reached), since in mine.items()
            if now - since > _PATIENCE_SECONDS and self.gone.get(number, (None, {}))[0] != reached
        }
