"""The view of a placement's run: progress, obstacles, and the actions available."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backend.domain.placement.placement_runs import RUNNING, PlacementState, RunLimits
from backend.placement.errors import few
from backend.queries.placement.placements import PlacementRow
from backend.web.words.figures import counted, sized, span
from backend.web.words.units import size_shown

_ACTIONS = {
    PlacementState.APPLYING: ("pause", "cancel"),
    PlacementState.PAUSED: ("resume", "cancel", "rollback"),
    PlacementState.ROLLING_BACK: ("cancel",),
    PlacementState.APPLIED: ("rollback",),
    PlacementState.CANCELLED: ("rollback",),
}
_BUTTONS = {"pause": "Pause", "resume": "Resume", "cancel": "Cancel", "rollback": "Roll back"}
_MAY_BE_APPLIED = (PlacementState.PLANNED, PlacementState.CANCELLED, PlacementState.ROLLED_BACK)
_DEVIATIONS = {
    "gone": "were deleted",
    "changed_by_others": "were reassigned by others",
    "grown": "are new",
    "not_led": "are led by another broker",
}
NO_THROTTLE = "no throttle"
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class PlacementRunView:
    """The last run of a placement."""

    row: PlacementRow
    progress: dict[str, Any]

    @property
    def may_be_applied(self) -> bool:
        return self.row.state in _MAY_BE_APPLIED

    @property
    def buttons(self) -> list[tuple[str, str]]:
        """Return the actions available now, as (word, label)."""
        return [(word, _BUTTONS[word]) for word in _ACTIONS.get(self.row.state, ())]

    @property
    def limits(self) -> RunLimits:
        """Return the limits in force, which also hold if it is applied now."""
        return self.row.limits or RunLimits()

    @property
    def rate(self) -> str:
        """Return the throttle in bytes per second, as the form shows it; empty for no throttle."""
        rate = self.limits.bytes_per_second
        return "" if rate is None else size_shown(rate)

    @property
    def limits_text(self) -> str:
        """Describe the limits while they apply, without a full stop; else empty."""
        if self.row.state not in RUNNING:
            return ""
        rate = f"throttle {self.rate}/s per broker" if self.rate else NO_THROTTLE
        limits = self.limits
        return (
            f"limits: {rate}, {counted(limits.moves_per_broker, 'concurrent move')} per broker, "
            f"{counted(limits.partitions_at_once, 'concurrent partition')}"
        )

    @property
    def share(self) -> float | None:
        """Return the fraction of bytes copied, 0 to 1; None if no worker has reported it."""
        share = self.progress.get("fraction")
        return share if isinstance(share, float) else None

    @property
    def failing(self) -> str | None:
        """Return the reason why the run cannot continue at the moment."""
        why = self.progress.get("failing")
        return None if why is None else str(why)

    @property
    def result(self) -> str:
        """Describe the progress or the result, without a full stop."""
        if self.row.report is not None:
            return self._ended
        if self.share is None:
            return f"a worker is reading {self.row.cluster}"
        done, flying, left = (self.progress[f"moves_{which}"] for which in ("done", "in_flight", "left"))
        parts = [f"{done:,} of {counted(done + flying + left, 'move')} done, {flying:,} in flight"]
        parts.append(f"{sized(self.progress['bytes_left'])} to copy")
        seconds = self.progress.get("seconds_left")
        if seconds:
            parts.append(f"about {span(seconds * 1000)} left")
        return ", ".join(parts)

    @property
    def held_up(self) -> list[tuple[str, str]]:
        """Return partitions that are blocked, with the reasons."""
        held = self.progress.get("held_up") or {}
        return list(held.items())[:_NAMED]

    @property
    def _ended(self) -> str:
        report = self.row.report or {}
        target = "original brokers" if self.row.state is PlacementState.ROLLED_BACK else "planned brokers"
        count = counted(report.get("partitions", 0), "changed partition")
        text = f"{report.get('arrived', 0):,} of {count} on their {target}"
        for what, words in _DEVIATIONS.items():
            found = report.get(what) or {}
            if found.get("count"):
                names = few(found["examples"], found["count"])
                text += f"; {counted(found['count'], 'partition')} {words} ({names})"
        return text
