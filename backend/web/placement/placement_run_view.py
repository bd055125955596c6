"""What pages say of replicas that are moved for a placement: how far, what holds it up, what can be said to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backend.domain.placement.placement_runs import RUNNING, PlacementState, RunLimits
from backend.placement.errors import few
from backend.queries.placement.placements import PlacementRow
from backend.web.words.figures import counted, sized, span
from backend.web.words.measures import size_shown

_WORDS = {
    PlacementState.APPLYING: ("pause", "cancel"),
    PlacementState.PAUSED: ("resume", "cancel", "rollback"),
    PlacementState.ROLLING_BACK: ("cancel",),
    PlacementState.APPLIED: ("rollback",),
    PlacementState.CANCELLED: ("rollback",),
}
_BUTTONS = {"pause": "Pause", "resume": "Go on", "cancel": "Cancel", "rollback": "Roll back"}
_MAY_BE_APPLIED = (PlacementState.PLANNED, PlacementState.CANCELLED, PlacementState.ROLLED_BACK)
_LEFT = {
    "gone": "were deleted",
    "changed_by_others": "were moved by others",
    "grown": "are new",
    "not_led": "are led by another broker",
}
AS_FAST = "as fast as it can"
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class PlacementRunView:
    """The last run of a placement."""

    row: PlacementRow
    told: dict[str, Any]

    @property
    def may_be_applied(self) -> bool:
        return self.row.state in _MAY_BE_APPLIED

    @property
    def buttons(self) -> list[tuple[str, str]]:
        """What can be said to it now: word and label."""
        return [(word, _BUTTONS[word]) for word in _WORDS.get(self.row.state, ())]

    @property
    def limits(self) -> RunLimits:
        """Those that hold, and would hold if it is applied now."""
        return self.row.limits or RunLimits()

    @property
    def rate(self) -> str:
        """Bytes a second, as the form has it; empty: as fast as it can."""
        rate = self.limits.bytes_per_second
        return "" if rate is None else size_shown(rate)

    @property
    def limits_said(self) -> str:
        """A sentence without its full stop, while they hold; else nothing."""
        if self.row.state not in RUNNING:
            return ""
        rate = f"{self.rate} a second" if self.rate else AS_FAST
        limits = self.limits
        return (
            f"each broker copies {rate} and takes part in {counted(limits.moves_per_broker, 'move')} at once, "
            f"{counted(limits.partitions_at_once, 'partition')} move at once"
        )

    @property
    def share(self) -> float | None:
        """Of what is to be copied, 0 to 1, that has come; None: nobody has told."""
        share = self.told.get("fraction")
        return share if isinstance(share, float) else None

    @property
    def failing(self) -> str | None:
        """Why it cannot go on at the moment."""
        why = self.told.get("failing")
        return None if why is None else str(why)

    @property
    def result(self) -> str:
        """How far it is, or what came of it, in a sentence without its full stop."""
        if self.row.report is not None:
            return self._ended
        if self.share is None:
            return f"a worker looks at {self.row.cluster}"
        done, flying, left = (self.told[f"moves_{which}"] for which in ("done", "in_flight", "left"))
        said = [f"{done:,} of {counted(done + flying + left, 'move')} done, {flying:,} under way"]
        said.append(f"{sized(self.told['bytes_left'])} to copy")
        seconds = self.told.get("seconds_left")
        if seconds:
            said.append(f"about {span(seconds * 1000)} left")
        return ", ".join(said)

    @property
    def held_up(self) -> list[tuple[str, str]]:
        """Partitions that wait for something, and for what."""
        held = self.told.get("held_up") or {}
        return list(held.items())[:_NAMED]

    @property
    def _ended(self) -> str:
        report = self.row.report or {}
        said = f"{report.get('arrived', 0):,} of {counted(report.get('partitions', 0), 'partition')} that change"
        said += " are as they were" if self.row.state is PlacementState.ROLLED_BACK else " are as planned"
        for what, words in _LEFT.items():
            found = report.get(what) or {}
            if found.get("count"):
                names = few(found["examples"], found["count"])
                said += f"; {counted(found['count'], 'partition')} {words} ({names})"
        return said
