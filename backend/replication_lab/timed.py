"""Runs by a clock: one seeded scheduler takes what is due next, in simulated milliseconds."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

from backend.replication_lab.actions import perform
from backend.replication_lab.configuration import LEAST_OF_A_WAIT
from backend.replication_lab.world import Action, World

_SHORT_MS = 50
"""Delays below it vary by half; longer ones, which are time-outs, by a twentieth (`LEAST_OF_A_WAIT`)."""


class Clock:
    """The scheduler of a world: what the world wakes comes after its delay, which varies by the seed.

    The same seed, world and schedule give the same run. `steps` are the actions that did something, in order.
    """

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.steps: list[Action] = []
        self._random = Random(seed).random
        self._due: list[tuple[float, int, Action]] = []
        self._drawn = 0
        world.timed = True
        world.wake = self.wake

    def wake(self, action: Action, delay: float) -> None:
        """Have something happen after so many milliseconds, more or less."""
        least, spread = (0.5, 1) if delay < _SHORT_MS else (LEAST_OF_A_WAIT, 0.1)
        varied = delay * (least + spread * self._random())
        self._drawn += 1
        heappush(self._due, (self.world.now + varied, self._drawn, action))

    def at(self, time: float, action: Action) -> None:
        """Have something happen at just this time."""
        self._drawn += 1
        heappush(self._due, (time, self._drawn, action))

    def next_at(self) -> float | None:
        """When something is due next."""
        return self._due[0][0] if self._due else None

    def take(self, action: Action) -> bool:
        """Take this step now."""
        if not perform(self.world, action):
            return False
        self.steps.append(action)
        return True

    def step(self) -> bool:
        """Take what is due next; False if nothing is, or if it came to nothing."""
        if not self._due:
            return False
        self.world.now, _, action = heappop(self._due)
        return self.take(action)

    def run(self, until: float) -> None:
        """Go on to this time, or to the first violation."""
        world, due, history = self.world, self._due, self.world.history
        while due and due[0][0] <= until and history.violated is None:
            self.step()
        if history.violated is None:
            world.now = max(world.now, until)
