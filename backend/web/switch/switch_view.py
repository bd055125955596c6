"""View of a switch: phases, hold time, and the clients that it waits for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from backend.domain.switch.cluster_switch import ALL_LEAVES, BEFORE_MOVE, EMERGENCY, ENDED, HELD, Phase
from backend.domain.switch.switch_report import PhaseTimes, milliseconds
from backend.queries.base.names_of_events import SwitchNamed
from backend.queries.switch.discovery_clients import ClientRow
from backend.queries.switch.switches import SwitchRow
from backend.web.switch.switch_lacking_view import Lacking, lacking_of
from backend.web.switch.switch_words import (
    GLYPHS,
    LABELS,
    awaits_stranded,
    came_to,
    held_ms,
    moment,
    names,
    number,
    place_of,
    result,
    scope,
    troubles,
)
from backend.web.words.figures import clock, counted, span
from backend.web.words.names import switch_name, switch_number

_PURPOSE = {
    Phase.PLANNED: "The target catches up; clients continue as usual.",
    Phase.HOLDING: "Producers pause and confirm.",
    Phase.DRAINING: "Records of the source are copied to the target.",
    Phase.CLOSING: "Consumers close; their offsets are translated.",
    Phase.RETARGETING: "Distributors stop copying to the source.",
    Phase.MOVING: "Discovery switches to the target.",
    Phase.VERIFYING: "Clients are expected on the target.",
}
_TIGHT = 0.5
"""Share of the maximum hold time beyond which the clock is a warning."""
_SHOWN = 200
"""Limit of clients that are listed."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A phase as shown on the page. `state`: done, now, ahead, skipped or stopped (the switch ended in it)."""

    name: str
    label: str
    state: str
    purpose: str
    began: str | None
    took: str | None
    came_to: tuple[str, ...]

    @property
    def glyph(self) -> str:
        return {"done": "running", "now": "starting", "stopped": "blocked"}.get(self.state, "unobserved")


@dataclass(frozen=True, kw_only=True)
class HoldClock:
    """Time that producers have held. `limit_ms`: when the switch aborts itself."""

    held_ms: int
    limit_ms: int

    @property
    def share(self) -> float:
        """Return the share of the maximum hold time, 0 to 1."""
        return min(1.0, self.held_ms / self.limit_ms)

    @property
    def tone(self) -> str:
        return "good" if self.share < _TIGHT else "warn"

    @property
    def held(self) -> str:
        return span(self.held_ms)

    @property
    def is_expired(self) -> bool:
        """Return whether producers have held for the maximum hold time."""
        return self.held_ms >= self.limit_ms

    @property
    def left(self) -> str:
        return span(self.limit_ms - self.held_ms)

    @property
    def limit(self) -> str:
        return span(self.limit_ms)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A client that the switch waits for."""

    client_id: str
    environment: str
    role: str
    phase: str
    silent: str


@dataclass(frozen=True, kw_only=True)
class Live:
    """Present observations of a switch that has not ended."""

    now: datetime
    clients: Sequence[ClientRow] = ()
    """Clients that the switch moves; filled before the move."""
    missing: Collection[str] = ()
    progress: Mapping[str, Any] = field(default_factory=dict)
    """Progress as reported by the runner."""


@dataclass(frozen=True)
class SwitchView:
    """A switch for its page; `live` is None for a past position and after the end."""

    row: SwitchRow
    phases: Sequence[PhaseTimes]
    live: Live | None
    hold_limit_ms: int
    named: SwitchNamed | None
    may_be_reversed: bool = False
    """True if some of its clients are still where it moved them."""

    @property
    def label(self) -> str:
        return LABELS[self.row.state]

    @property
    def name(self) -> str:
        """Return the name, such as `Switch 12 · c1 → c2`."""
        return switch_name(self.named, self.row.id)

    @property
    def short_name(self) -> str:
        """Return the name without clusters, such as `Switch 12`."""
        return switch_number(self.named, self.row.id)

    @property
    def glyph(self) -> str:
        return GLYPHS.get(self.row.state, "starting")

    @property
    def tone(self) -> str:
        """Return how the present state is marked."""
        if self.clock is not None:
            return self.clock.tone
        match self.row.state:
            case Phase.COMPLETED:
                return "warn" if troubles(self.row) else "good"
            case Phase.FAILED:
                return "bad"
            case _:
                return "plain"

    @property
    def is_over(self) -> bool:
        return self.row.state in ENDED

    @property
    def is_emergency(self) -> bool:
        return self.row.mode == EMERGENCY

    @property
    def holds(self) -> bool:
        """Return whether producers are told to hold."""
        return self.row.state in HELD

    @property
    def poll_interval(self) -> str | None:
        """Return the polling interval of the page; None: there will be no news."""
        if self.live is not None:
            return "700ms"
        return "2s" if awaits_stranded(self.row) else None

    @property
    def may_be_aborted(self) -> bool:
        return self.row.state in BEFORE_MOVE

    @property
    def was_moved(self) -> bool:
        return self.row.state in (Phase.VERIFYING, Phase.COMPLETED)

    @property
    def scope(self) -> str:
        return scope(self.row.moves)

    @property
    def places(self) -> list[str]:
        return [place_of(moving) for moving in self.row.moves]

    @property
    def result(self) -> str:
        return result(self.row, self.phases)

    @property
    def began(self) -> datetime:
        return moment(self.phases[0].started_at)

    @property
    def hold_ms(self) -> int | None:
        """Return how long producers have held, in milliseconds; None if they were never told to."""
        return held_ms(self.row, self.phases, self.live.now if self.live else None)

    @property
    def held(self) -> str | None:
        """Return the same in words."""
        return None if self.hold_ms is None else span(self.hold_ms)

    @property
    def clock(self) -> HoldClock | None:
        """Return the hold time while producers hold; else None."""
        if self.live is None or not self.holds:
            return None
        ms = held_ms(self.row, self.phases, self.live.now)
        return None if ms is None else HoldClock(held_ms=ms, limit_ms=self.hold_limit_ms)

    @property
    def missing_records(self) -> int | None:
        """Return the number of records that the target lacks, as last reported."""
        return None if self.live is None else number(self.live.progress, "missing_records")

    @cached_property
    def lacking(self) -> Lacking:
        """Return the partitions whose records are still to arrive.

        There are none in phases that do not wait for records: the last report may be of an earlier phase.
        """
        if self.live is None or self.row.state not in (Phase.PLANNED, Phase.DRAINING):
            return Lacking()
        return lacking_of(self.live.progress)

    @property
    def waits_for_all(self) -> bool:
        """Return whether all leaves, and not only the target, must have the records."""
        return self.row.drain == ALL_LEAVES

    @property
    def failing(self) -> str | None:
        """Return why the switch cannot continue at the moment; None if it can."""
        found = None if self.live is None else self.live.progress.get("failing")
        return found if isinstance(found, str) else None

    @cached_property
    def waiting(self) -> list[Waiting]:
        """Return the clients that the switch waits for, the longest silent first."""
        if self.live is None:
            return []
        missing = set(self.live.missing)
        rows = [row for row in self.live.clients if row.client_id in missing]
        return [
            Waiting(
                client_id=row.client_id,
                environment="/".join(row.place),
                role=row.role or "not reported",
                phase=row.phase,
                silent=span(row.silent_ms),
            )
            for row in sorted(rows, key=lambda row: (-row.silent_ms, row.client_id))
        ]

    @property
    def waiting_shown(self) -> list[Waiting]:
        return self.waiting[:_SHOWN]

    @property
    def late(self) -> list[str]:
        """Return the moved clients that were not seen on the target yet."""
        return names(self.live.progress, "late") if self.live and self.row.state is Phase.VERIFYING else []

    @property
    def waits_for(self) -> str:
        """Return what the switch waits for now, as a sentence."""
        told = self.live.progress if self.live else {}
        match self.row.state:
            case Phase.PLANNED:
                if isinstance(told.get("waits_for"), str):
                    return f"Clients do not hold yet: waiting for {told['waits_for']}."
                lacking = number(told, "missing_records")
                near = f"{self.row.target} lacks {counted(lacking, 'record')}" if lacking else "preparing"
                return f"Clients do not hold yet: {near}."
            case Phase.DRAINING:
                lacking = self.missing_records
                if lacking is None:
                    return f"Checking which records {self.row.target} has."
                return f"{self.row.target} still lacks {counted(lacking, 'record')}."
            case Phase.HOLDING | Phase.CLOSING if self.waiting:
                does = "close" if self.row.state is Phase.CLOSING else "hold"
                return f"Waiting for {counted(len(self.waiting), 'client')} to {does}."
            case Phase.CLOSING:
                return "All consumers have closed; their offsets are being translated."
            case Phase.HOLDING:
                return "All expected clients hold."
            case Phase.RETARGETING:
                return "Distributors are getting new targets."
            case Phase.MOVING:
                return "Discovery is about to switch to the target."
            case Phase.VERIFYING:
                late = self.late
                return (
                    f"{counted(len(late), 'client')} not seen on {self.row.target} yet."
                    if late
                    else (f"Checking that clients arrive on {self.row.target}.")
                )
            case _:
                return ""

    @cached_property
    def track(self) -> list[Step]:
        """Return every phase of this kind of switch, in order."""
        if self.is_emergency:
            steps: tuple[Phase, ...] = (Phase.PLANNED, Phase.VERIFYING)
        else:
            steps = tuple(
                name
                for name in (*BEFORE_MOVE, Phase.VERIFYING)
                if name is not Phase.RETARGETING or self.row.retargets
            )
        return [self._step(name) for name in steps]

    def _step(self, name: Phase) -> Step:
        mine = [phase for phase in self.phases if phase.name == name]
        last = mine[-1] if mine else None
        is_last = last is not None and last is self.phases[-1]
        if last is None:
            state = "skipped" if self.is_over else "ahead"
        elif is_last and self.row.state in (Phase.ABORTED, Phase.FAILED):
            state = "stopped"
        elif last.ended_at is None:
            state = "now"
        else:
            # A phase before the last hold is repeated: the hold timed out, which led back from it.
            behind = any(phase.name == Phase.HOLDING for phase in self.phases[self.phases.index(last) + 1 :])
            again = behind and name not in (Phase.PLANNED, Phase.HOLDING) and not self.is_over
            state = "ahead" if again else "done"
        times = (f"started {len(mine)} times",) if len(mine) > 1 else ()
        return Step(
            name=name,
            label=LABELS[name],
            state=state,
            purpose=_PURPOSE[name],
            began=clock(moment(mine[0].started_at)) if mine else None,
            took=self._took(mine),
            came_to=(*times, *(came_to(name, last.measured) if last else ())),
        )

    def _took(self, phases: Sequence[PhaseTimes]) -> str | None:
        now = self.live.now.isoformat() if self.live else None
        total = 0
        for phase in phases:
            until = phase.ended_at or now
            if until is None:
                return None
            total += milliseconds(phase.started_at, until)
        return span(total) if phases else None
