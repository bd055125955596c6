"""A switch as its page shows it: its phases as a track, the clock of the hold, whom it waits for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from backend.domain.switch.cluster_switch import ALL_LEAVES, BEFORE_MOVE, EMERGENCY, ENDED, HELD, Phase
from backend.domain.switch.switch_report import PhaseTimes, milliseconds
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
from backend.web.words.figures import clock, counted, day, span

_PURPOSE = {
    Phase.PLANNED: "The target comes near while everybody goes on.",
    Phase.HOLDING: "Producers pause and say so.",
    Phase.DRAINING: "What the source holds comes to the target.",
    Phase.CLOSING: "Consumers close; their offsets are carried over.",
    Phase.RETARGETING: "Distributors leave the source.",
    Phase.MOVING: "Discovery names the target.",
    Phase.VERIFYING: "Clients are looked for on the target.",
}
_TIGHT = 0.5
"""Beyond this share of the longest hold its clock is a warning."""
_SHOWN = 200
"""Clients that are listed at most."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A phase on the track. `state`: done, now, ahead, skipped or stopped (the switch ended in it)."""

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
    """For how long producers hold. `limit_ms`: when the switch takes itself back."""

    held_ms: int
    limit_ms: int

    @property
    def share(self) -> float:
        """Of the longest hold, 0 to 1."""
        return min(1.0, self.held_ms / self.limit_ms)

    @property
    def tone(self) -> str:
        return "good" if self.share < _TIGHT else "warn"

    @property
    def held(self) -> str:
        return span(self.held_ms)

    @property
    def left(self) -> str:
        return span(max(0, self.limit_ms - self.held_ms))

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
    """What is so at this moment, for a switch that is not over."""

    now: datetime
    clients: Sequence[ClientRow] = ()
    """That it moves, while the move is still to come."""
    missing: Collection[str] = ()
    told: Mapping[str, Any] = field(default_factory=dict)
    """By whoever carries it out."""


@dataclass(frozen=True)
class SwitchView:
    """A switch, now or (`live` None) as it was, or once it is over."""

    row: SwitchRow
    phases: Sequence[PhaseTimes]
    live: Live | None
    hold_limit_ms: int
    may_be_reversed: bool = False
    """Whether some of whom it moved are still where it sent them."""

    @property
    def label(self) -> str:
        return LABELS[self.row.state]

    @property
    def glyph(self) -> str:
        return GLYPHS.get(self.row.state, "starting")

    @property
    def tone(self) -> str:
        """How its present state is marked."""
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
        """Whether producers are told to hold."""
        return self.row.state in HELD

    @property
    def asks_every(self) -> str | None:
        """How often the page asks for news of it; None: there will be none."""
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
    def began_text(self) -> str:
        return f"{day(self.began)}, {clock(self.began)} UTC"

    @property
    def held(self) -> str | None:
        """For how long producers held, or hold; None if they were never told to."""
        ms = held_ms(self.row, self.phases, self.live.now if self.live else None)
        return None if ms is None else span(ms)

    @property
    def clock(self) -> HoldClock | None:
        """While producers hold."""
        if self.live is None or not self.holds:
            return None
        ms = held_ms(self.row, self.phases, self.live.now)
        return None if ms is None else HoldClock(held_ms=ms, limit_ms=self.hold_limit_ms)

    @property
    def missing_records(self) -> int | None:
        """That the target still lacks, as far as was told."""
        return None if self.live is None else number(self.live.told, "missing_records")

    @cached_property
    def lacking(self) -> Lacking:
        """The partitions that are still to come; none in phases that do not wait for them, though what was told
        last may be of one that did."""
        if self.live is None or self.row.state not in (Phase.PLANNED, Phase.DRAINING):
            return Lacking()
        return lacking_of(self.live.told)

    @property
    def waits_for_all(self) -> bool:
        """Whether not only the target has to have what is still to come."""
        return self.row.drain == ALL_LEAVES

    @property
    def failing(self) -> str | None:
        """Why it cannot go on at the moment."""
        found = None if self.live is None else self.live.told.get("failing")
        return found if isinstance(found, str) else None

    @cached_property
    def waiting(self) -> list[Waiting]:
        """The clients that it waits for, the most silent first."""
        if self.live is None:
            return []
        missing = set(self.live.missing)
        rows = [row for row in self.live.clients if row.client_id in missing]
        return [
            Waiting(
                client_id=row.client_id,
                environment="/".join(row.place),
                role=row.role or "not told",
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
        """After the move: clients that were not seen on the target yet."""
        return names(self.live.told, "late") if self.live and self.row.state is Phase.VERIFYING else []

    @property
    def waits_for(self) -> str:
        """What the switch waits for now, in a sentence."""
        told = self.live.told if self.live else {}
        match self.row.state:
            case Phase.PLANNED:
                if isinstance(told.get("waits_for"), str):
                    return f"Nobody is held yet: {told['waits_for']} is waited for."
                lacking = number(told, "missing_records")
                near = (
                    f"{self.row.target} lacks {counted(lacking, 'record')}" if lacking else "it is being prepared"
                )
                return f"Nobody is held yet: {near}."
            case Phase.DRAINING:
                lacking = self.missing_records
                if lacking is None:
                    return f"{self.row.target} is asked what it has."
                return f"{self.row.target} still lacks {counted(lacking, 'record')}."
            case Phase.HOLDING | Phase.CLOSING if self.waiting:
                does = "close" if self.row.state is Phase.CLOSING else "hold"
                return f"{counted(len(self.waiting), 'client')} still to {does}."
            case Phase.CLOSING:
                return "All consumers have closed; offsets are carried over."
            case Phase.HOLDING:
                return "All clients that are expected hold."
            case Phase.RETARGETING:
                return "Distributors get their new targets."
            case Phase.MOVING:
                return "Discovery is about to name the target."
            case Phase.VERIFYING:
                late = self.late
                return (
                    f"{counted(len(late), 'client')} not seen on {self.row.target} yet."
                    if late
                    else (f"Clients are looked for on {self.row.target}.")
                )
            case _:
                return ""

    @cached_property
    def track(self) -> list[Step]:
        """Every phase of this kind of switch, in order."""
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
            # One that a hold which ran out has led back from is done again.
            behind = any(phase.name == Phase.HOLDING for phase in self.phases[self.phases.index(last) + 1 :])
            again = behind and name not in (Phase.PLANNED, Phase.HOLDING) and not self.is_over
            state = "ahead" if again else "done"
        times = (f"begun {len(mine)} times",) if len(mine) > 1 else ()
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
