"""Play a scenario: its cues on a seeded clock, to a violation or until the partition has recovered."""

from __future__ import annotations

from dataclasses import dataclass

from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.start_states import wake_all
from backend.replication_lab.model.world import Action, World
from backend.replication_lab.runs.recovery import settles, unsettled
from backend.replication_lab.runs.timed import Clock
from backend.replication_lab.scenarios.scenario import Cue, Scenario


@dataclass(frozen=True)
class Played:
    """A run of a scenario."""

    world: World
    """State at the end."""
    steps: tuple[Action, ...]
    """All actions that had an effect, from the scenario's beginning."""

    @property
    def violated(self) -> Invariant | None:
        """Return the violated invariant, if any."""
        return self.world.history.violated


def play(scenario: Scenario, mode: str, seed: int) -> Played:
    """Play a scenario; the same arguments give the same run."""
    clock = Clock(scenario.world(mode), seed)
    wake_all(clock.world)
    for cue in scenario.cues:
        _await(clock, cue)
    if clock.world.history.violated is None and not settles(clock):
        clock.world.history.violate(Invariant.NEVER_SETTLES, unsettled(clock.world))
    return Played(clock.world, tuple(clock.steps))


def _await(clock: Clock, cue: Cue) -> None:
    world = clock.world
    latest = world.now + cue.at_latest
    while world.history.violated is None and not cue.when(world):
        next_at = clock.next_at()
        if next_at is None or next_at > latest:
            world.now = latest
            break
        clock.step()
    for action in cue.steps:
        if world.history.violated is None:
            clock.take(action)
