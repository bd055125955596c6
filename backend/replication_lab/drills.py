"""A drill: a scenario played in a mode with a seed, and told in the fewest steps that show what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from backend.replication_lab.checking import is_promised
from backend.replication_lab.configuration import ImpossibleDrill
from backend.replication_lab.frames import frame
from backend.replication_lab.history import IN_WORDS, Invariant
from backend.replication_lab.messages import named
from backend.replication_lab.playing import play
from backend.replication_lab.rules import FAITHFUL, FIXED, MODES
from backend.replication_lab.scenarios import SCENARIOS, Scenario
from backend.replication_lab.schedules import read_schedule, run_schedule
from backend.replication_lab.settling import PATIENCE_MS, acknowledged_and_gone
from backend.replication_lab.shrinking import after, shrink
from backend.replication_lab.story import Detail, Moment, moments
from backend.replication_lab.world import Action, World

LARGEST_SEED = 2**63 - 1
NOTHING_PROMISED = (
    "Records are not checked, only whether all settles: with asynchronous acknowledgement the documents promise "
    "nothing of them"
)
UNEXPLAINED_WAIT = "A wait ends in it although the story does not say what takes so long"
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
    begins_after: int = 0
    """Steps that the run took before the story begins."""
    is_fewest: bool = True
    """Of a violation: no step of the story can be left out. Very long ones are not shrunk to the end."""
    waits_have_reasons: bool = True
    """A wait ends in the story only where it says what takes so long."""
    is_checked: bool = True
    """Those of records were; where nothing is promised of them, only whether all settles is."""
    expected_losses: tuple[str, ...] = ()
    acknowledged_losses: tuple[str, ...] = ()
    """Records that producers were told of as written, and that the leader does not have in the end."""
    longest_gap_ms: int | None = None
    """Of a schedule that was run to its end: the longest time without an acknowledgement, simulated."""

    @property
    def verdict(self) -> str:
        """What it comes to, in a sentence without its full stop."""
        if self.violated is not None:
            return f"{IN_WORDS[self.violated]} ({self.violated})"
        return "Every invariant holds" if self.is_checked else NOTHING_PROMISED

    def told(self) -> dict[str, Any]:
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
            "begins_after": self.begins_after,
            "is_fewest": self.is_fewest,
            "waits_have_reasons": self.waits_have_reasons,
            "is_checked": self.is_checked,
            "expected_losses": list(self.expected_losses),
            "acknowledged_losses": list(self.acknowledged_losses),
            "story": [each.text for each in self.moments[1:]],
            "beginning": self.moments[0].text,
        }
        if self.longest_gap_ms is not None:
            found["longest_gap_ms"] = self.longest_gap_ms
        if self.moments[0].frame:
            found["frames"] = [{"step": each.step, "text": each.text, **each.frame} for each in self.moments]
        return found


def drill(name: str, mode: str, seed: int, *, with_frames: bool = False) -> Drill:
    """Play a scenario.

    Raises:
        ImpossibleDrill: there is no such scenario or mode, or the seed is none.
    """
    scenario = find_scenario(name)
    _check(mode, seed)
    played = play(scenario, mode, seed)
    return telling(Told(name, mode, seed, with_frames), scenario.world(mode), played.steps, played.world)


class Told(NamedTuple):
    """What is told of whom."""

    scenario: str
    mode: str
    seed: int
    with_frames: bool


def telling(of: Told, start: World, steps: tuple[Action, ...], end: World) -> Drill:
    """A run that was played, told: in the fewest steps if it violates an invariant, otherwise in those that
    matter.

    That nothing settles is seen by waiting, which no fewer steps would show.
    """
    history = end.history
    found = Drill(
        scenario=of.scenario,
        mode=of.mode,
        seed=of.seed,
        violated=history.violated,
        what=history.what,
        steps_taken=len(steps),
        moments=(),
        is_checked=is_promised(end),
        expected_losses=tuple(named(record) for _, record in history.expected_losses),
    )
    if history.violated is not None and history.violated is not Invariant.NEVER_SETTLES:
        story = shrink(start, steps, history.violated)
        detail = Detail.ALL if story.is_fewest else Detail.CHANGES
        return replace(
            found,
            what=after(story.start, story.steps).history.what,
            moments=tuple(moments(story.start, story.steps, detail, with_frames=of.with_frames)),
            begins_after=story.skipped,
            is_fewest=story.is_fewest,
            waits_have_reasons=story.start.patient,
        )
    detail = Detail.CHANGES if len(steps) <= _ALL_CHANGES_UP_TO else Detail.TURNS
    shown = tuple(moments(start, steps, detail, with_frames=of.with_frames))
    last = Moment(len(steps), _in_the_end(end), frame(end) if of.with_frames else {})
    return replace(found, moments=(*shown, last), acknowledged_losses=acknowledged_and_gone(end))


def _in_the_end(world: World) -> str:
    """How a run ended that no single step decides."""
    if world.history.violated is not None:
        return f"After {PATIENCE_MS / 1_000:.0f} s in which nothing failed, {world.history.what}"
    return "All replicas are in sync with the same log, and every request is answered"


def drill_schedule(document: object, mode: str, seed: int, *, with_frames: bool = False) -> Drill:
    """Run a schedule of faults from plain data (`schedules.read_schedule`).

    Raises:
        ImpossibleDrill: the schedule, the mode or the seed cannot be.
    """
    _check(mode, seed)
    configuration, faults = read_schedule(document)
    run = run_schedule(configuration, faults, mode, seed)
    told = telling(Told("schedule", mode, seed, with_frames), run.start, run.steps, run.world)
    return replace(told, longest_gap_ms=None if run.longest_gap_ms is None else round(run.longest_gap_ms))


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
