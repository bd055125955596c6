"""Drills: a scenario played in a mode with a seed, reported in the fewest steps that show the violation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from backend.replication_lab.model.checking import is_promised
from backend.replication_lab.model.configuration import InvalidDrill
from backend.replication_lab.model.history import IN_WORDS, Invariant
from backend.replication_lab.model.messages import named
from backend.replication_lab.model.rules import FAITHFUL, FIXED, MODES
from backend.replication_lab.model.world import Action, World
from backend.replication_lab.runs.play import play
from backend.replication_lab.runs.recovery import PATIENCE_MS, lost_acknowledged
from backend.replication_lab.runs.schedules import read_schedule, run_schedule
from backend.replication_lab.runs.shrinking import after, shrink
from backend.replication_lab.scenarios import SCENARIOS, Scenario
from backend.replication_lab.stories.frames import frame
from backend.replication_lab.stories.story import Detail, Moment, moments

LARGEST_SEED = 2**63 - 1
NOTHING_PROMISED = (
    "Records are not checked, only recovery is: with asynchronous acknowledgement the documents promise "
    "nothing about them"
)
UNEXPLAINED_WAIT = "The story contains a timeout whose cause it does not show"
_ALL_CHANGES_UP_TO = 1_500
"""Most steps of a run without a violation of which all changes are reported; of a longer run only turning
points."""


@dataclass(frozen=True, kw_only=True)
class Drill:
    """Result of a run."""

    scenario: str
    mode: str
    seed: int
    violated: Invariant | None
    what: str
    """Description of the violation; empty if there was none."""
    steps_taken: int
    """Number of steps of the whole run, before shrinking."""
    moments: tuple[Moment, ...]
    """The beginning and the reported steps."""
    begins_after: int = 0
    """Number of steps that the run took before the story begins."""
    is_fewest: bool = True
    """Tells whether no step of a violation's story can be left out. Very long stories are not shrunk fully."""
    waits_have_reasons: bool = True
    """Tells whether every timeout in the story has a cause that the story shows."""
    is_checked: bool = True
    """Tells whether records were checked; where nothing is promised about them, only recovery is."""
    expected_losses: tuple[str, ...] = ()
    acknowledged_losses: tuple[str, ...] = ()
    """Records that were acknowledged to producers and that the leader does not have at the end."""
    longest_gap_ms: int | None = None
    """Longest simulated time without an acknowledgement, of a schedule that ran to its end."""

    @property
    def verdict(self) -> str:
        """Return the verdict as a sentence without its full stop."""
        if self.violated is not None:
            return f"{IN_WORDS[self.violated]} ({self.violated})"
        return "Every invariant holds" if self.is_checked else NOTHING_PROMISED

    def document(self) -> dict[str, Any]:
        """Return plain data; `step` is the story's last step, at which an invariant is violated if one is."""
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
        InvalidDrill: there is no such scenario or mode, or the seed is invalid.
    """
    scenario = find_scenario(name)
    _check(mode, seed)
    played = play(scenario, mode, seed)
    return report_run(RunLabel(name, mode, seed, with_frames), scenario.world(mode), played.steps, played.world)


class RunLabel(NamedTuple):
    """Labels of a run's report, and whether frames belong to it."""

    scenario: str
    mode: str
    seed: int
    with_frames: bool


def report_run(of: RunLabel, start: World, steps: tuple[Action, ...], end: World) -> Drill:
    """Report a run: in the fewest steps if it violates an invariant, otherwise in the steps that matter.

    A violation of NEVER_SETTLES is found by waiting, which fewer steps would not show.
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
    last = Moment(len(steps), _describe_end(end), frame(end) if of.with_frames else {})
    return replace(found, moments=(*shown, last), acknowledged_losses=lost_acknowledged(end))


def _describe_end(world: World) -> str:
    """Describe the end of a run that no single step decides."""
    if world.history.violated is not None:
        return f"After {PATIENCE_MS / 1_000:.0f} s without a fault, {world.history.what}"
    return "All replicas are in sync with the same log, and every request is answered"


def drill_schedule(document: object, mode: str, seed: int, *, with_frames: bool = False) -> Drill:
    """Run a schedule of faults from plain data (`schedules.read_schedule`).

    Raises:
        InvalidDrill: the schedule, the mode or the seed is invalid.
    """
    _check(mode, seed)
    configuration, faults = read_schedule(document)
    run = run_schedule(configuration, faults, mode, seed)
    result = report_run(RunLabel("schedule", mode, seed, with_frames), run.start, run.steps, run.world)
    return replace(result, longest_gap_ms=None if run.longest_gap_ms is None else round(run.longest_gap_ms))


def _check(mode: str, seed: int) -> None:
    if mode not in MODES:
        raise InvalidDrill(f"there is no mode {mode!r}; use one of {', '.join(MODES)}.")
    if not 0 <= seed <= LARGEST_SEED:
        raise InvalidDrill(f"the seed is {seed}: it must be 0 to {LARGEST_SEED}.")


def find_scenario(name: str) -> Scenario:
    """Return a scenario by name.

    Raises:
        InvalidDrill: there is no such scenario.
    """
    if name not in SCENARIOS:
        raise InvalidDrill(f"there is no scenario {name!r}; use one of {', '.join(SCENARIOS)}.")
    return SCENARIOS[name]


def summary(scenario: Scenario) -> dict[str, Any]:
    """Return the list entry of a scenario, with the expected result in each mode."""
    return {
        "name": scenario.name,
        "title": scenario.title,
        "document": scenario.document,
        "expected": {FAITHFUL.mode: scenario.violated.value, FIXED.mode: "holds"},
    }
