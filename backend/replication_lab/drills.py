"""A drill: a scenario played in a mode with a seed, and told in the fewest steps that show what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from backend.replication_lab.configuration import ImpossibleDrill
from backend.replication_lab.frames import frame
from backend.replication_lab.history import IN_WORDS, Invariant
from backend.replication_lab.messages import named
from backend.replication_lab.playing import play
from backend.replication_lab.rules import FAITHFUL, FIXED, MODES
from backend.replication_lab.scenarios import SCENARIOS, Scenario
from backend.replication_lab.schedules import read_schedule, run_schedule
from backend.replication_lab.settling import PATIENCE_MS
from backend.replication_lab.shrinking import after, shrink
from backend.replication_lab.story import Detail, Moment, moments
from backend.replication_lab.world import Action, World

LARGEST_SEED = 2**63 - 1
_ALL_CHANGES_UP_TO = 1_500
"""Steps of a run in which nothing is violated; of a longer one only the turns are told."""


@dataclass(frozen=True, kw_only=True)
class Drill:
    """What a run came to."""

    scenario: str
    mode: str
    seed: int
    violated: Invariant | None
    what: str
    """What was violated, in words; empty if nothing was."""
    steps_taken: int
    """By the whole run, before it was shrunk."""
    moments: tuple[Moment, ...]
    """The beginning and the steps that are told."""
    expected_losses: tuple[str, ...] = ()
    longest_gap_ms: int | None = None
    """Of a schedule: the longest time without an acknowledgement, simulated."""

    def told(self, *, with_frames: bool = False) -> dict[str, Any]:
        """As plain data; `step` is the last step of the story, at which the invariant is violated if one is."""
        found: dict[str, Any] = {
            "scenario": self.scenario,
            "mode": self.mode,
            "seed": self.seed,
            "violated": self.violated and self.violated.value,
            "invariant": self.violated and IN_WORDS[self.violated],
            "what": self.what or None,
            "step": self.moments[-1].step,
            "steps_taken": self.steps_taken,
            "expected_losses": list(self.expected_losses),
            "story": [each.text for each in self.moments[1:]],
            "beginning": self.moments[0].text,
        }
        if self.longest_gap_ms is not None:
            found["longest_gap_ms"] = self.longest_gap_ms
        if with_frames:
            found["frames"] = [{"step": each.step, "text": each.text, **each.frame} for each in self.moments]
        return found


def drill(name: str, mode: str, seed: int) -> Drill:
    """Play a scenario.

    Raises:
        ImpossibleDrill: there is no such scenario or mode, or the seed is none.
    """
    scenario = find_scenario(name)
    _check(mode, seed)
    played = play(scenario, mode, seed)
    return telling(name, mode, seed, scenario.world(mode), played.steps, played.world)


def telling(name: str, mode: str, seed: int, start: World, steps: tuple[Action, ...], end: World) -> Drill:
    """A run that was played, told: in the fewest steps if it violates an invariant, otherwise in those that
    matter.

    That nothing settles is seen by waiting, which no fewer steps would show.
    """
    history = end.history
    what = history.what
    if history.violated is not None and history.violated is not Invariant.NEVER_SETTLES:
        fewest = shrink(start, steps, history.violated)
        shown = tuple(moments(start, fewest))
        what = after(start, fewest).history.what
    else:
        detail = Detail.CHANGES if len(steps) <= _ALL_CHANGES_UP_TO else Detail.TURNS
        shown = tuple(moments(start, steps, detail))
        shown += (Moment(len(steps), _in_the_end(end), frame(end)),)
    return Drill(
        scenario=name,
        mode=mode,
        seed=seed,
        violated=history.violated,
        what=what,
        steps_taken=len(steps),
        moments=shown,
        expected_losses=tuple(named(record) for _, record in history.expected_losses),
    )


def _in_the_end(world: World) -> str:
    """How a run ended that no single step decides."""
    if world.history.violated is not None:
        return f"After {PATIENCE_MS / 1_000:.0f} s in which nothing failed, {world.history.what}"
    return "All replicas are in sync with the same log, and every request is answered"


def drill_schedule(document: object, mode: str, seed: int) -> Drill:
    """Run a schedule of faults from plain data (`schedules.read_schedule`).

    Raises:
        ImpossibleDrill: the schedule, the mode or the seed cannot be.
    """
    _check(mode, seed)
    configuration, faults = read_schedule(document)
    run = run_schedule(configuration, faults, mode, seed)
    told = telling("schedule", mode, seed, run.start, run.steps, run.world)
    return replace(told, longest_gap_ms=round(run.longest_gap_ms))


def _check(mode: str, seed: int) -> None:
    if mode not in MODES:
        raise ImpossibleDrill(f"there is no mode {mode!r}; take one of {', '.join(MODES)}.")
    if not 0 <= seed <= LARGEST_SEED:
        raise ImpossibleDrill(f"the seed is {seed}: it must be 0 to {LARGEST_SEED}.")


def find_scenario(name: str) -> Scenario:
    """By name.

    Raises:
        ImpossibleDrill: there is none.
    """
    if name not in SCENARIOS:
        raise ImpossibleDrill(f"there is no scenario {name!r}; take one of {', '.join(SCENARIOS)}.")
    return SCENARIOS[name]


def listed(scenario: Scenario) -> dict[str, Any]:
    """A scenario as a list names it, with what each mode is expected to give."""
    return {
        "name": scenario.name,
        "title": scenario.title,
        "document": scenario.document,
        "expected": {FAITHFUL.mode: scenario.violated.value, FIXED.mode: "holds"},
    }
