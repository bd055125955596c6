"""One partition of the source of a drain: where it ended at the mark, and what is known of what lies before."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from backend.domain.records.births import Births
from backend.domain.records.log_index import Prefix
from backend.domain.records.origin import Vector
from backend.domain.switch import draining
from backend.domain.switch.draining import Reached
from workers.switches.topology import Partition, Place

FAR_RECORDS = 20_000
"""Behind its end a log is not read while the units that read it are further behind than that, and moving."""
_PATIENCE_SECONDS = 2.0
"""So long what is uncovered may simply be on its way."""


@dataclass
class MarkedLog:
    """One partition of the source; offsets are None until they were asked for."""

    partition: Partition
    place: Place
    births: Births
    low: int = 0
    decided: int | None = None
    """Where it ended at the mark for readers of decided transactions."""
    end: int | None = None
    """Where it ended at the mark."""
    is_decided: bool = False
    furthest: Prefix | None = None
    """Of the units' positions in it."""
    moved_at: float = field(default_factory=time.monotonic)
    """When that was last another one."""
    wanted: Vector | None = None
    """The vector at the end."""
    covered: dict[str, Vector] = field(default_factory=dict)
    """By target."""
    lacks_since: dict[tuple[str, int, Reached], float] = field(default_factory=dict)
    """(target, origin, how far) -> since when a target lacks it."""
    is_warm: bool = False
    gone: dict[int, tuple[Reached, Vector]] = field(default_factory=dict)
    """Origin -> (how far it is wanted, how far the log itself has it), where that was looked through."""

    def still_there(self, wanted: Vector) -> Vector:
        """What is wanted, less what was looked for in the log and is not there."""
        for number, (looked_for, present) in self.gone.items():
            if wanted.get(number) == looked_for:
                wanted = draining.still_there(wanted, {number: looked_for}, present)
        return wanted

    def is_far(self) -> bool:
        """Whether reading up to the end would cost more than waiting for the units that read it anyway."""
        begins = self.furthest.offset if self.furthest is not None else self.low
        moving = time.monotonic() - self.moved_at < _PATIENCE_SECONDS
        return moving and (self.end or 0) - max(begins, self.low) > FAR_RECORDS

    def moved_to(self, base: Prefix) -> None:
        """The furthest of the units is there by now."""
        self.furthest, self.moved_at = base, time.monotonic()

    def long_lacked(self, target: str, lacks: Vector) -> Vector:
        """Of what a target lacks, what it has lacked for longer than records take on their way, and was not looked
        for in the log yet."""
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
