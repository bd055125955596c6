"""Runs by a clock: a seeded scheduler takes the action that is due next, in simulated milliseconds."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.configuration import LEAST_OF_A_WAIT
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.world import Action, World

_SHORT_MS = 50
"""Delays below this vary by half; longer ones, which are timeouts, by a twentieth (`LEAST_OF_A_WAIT`)."""
_OF_A_BROKER = frozenset(
    ("fetch", "commit", "late", "shrink", "checkpoint", "notice", "request", "elect", "lead", "lead_anyway")
)


class Clock:
    """Scheduler of a world: an action that the world requests comes after its delay, which varies by the seed.

    The same seed, world and schedule give the same run. `steps` are the actions that had an effect, in order.
    """

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.steps: list[Action] = []
        self._random = Random(seed).random
        self._due: list[tuple[float, int, Action]] = []
        self._held: dict[Action, list[Action]] = {}
        """Actions that came due and could not be taken, by the action that they wait for."""
        self._drawn = 0
        world.timed = True
        world.wake = self.wake

    def wake(self, action: Action, delay: float) -> None:
        """Schedule an action after about `delay` milliseconds."""
        least, spread = (0.5, 1) if delay < _SHORT_MS else (LEAST_OF_A_WAIT, 0.1)
        varied = delay * (least + spread * self._random())
        self._drawn += 1
        heappush(self._due, (self.world.now + varied, self._drawn, action))

    def at(self, time: float, action: Action) -> None:
        """Schedule an action at exactly this time."""
        self._drawn += 1
        heappush(self._due, (time, self._drawn, action))

    def next_at(self) -> float | None:
        """Return the time of the next action; None if there is none."""
        return self._due[0][0] if self._due else None

    def take(self, action: Action) -> bool:
        """Take an action now."""
        if not perform(self.world, action):
            return False
        self.steps.append(action)
        if action[0] in ("resume", "heal"):
            for each in self._held.pop(_ends(action), ()):
                self.wake(each, self.world.configuration.times.network)
        elif action[0] in ("crash", "power_loss"):
            self._held.pop(("resume", action[1]), None)
        return True

    def _hold(self, action: Action) -> None:
        """Keep an action of a paused process until it resumes.

        It is neither lost nor taken any sooner. A new leader's opening, which has to be written to the store,
        waits likewise for a connection to the store.
        """
        name = action[0]
        whom = action[2] if name == "deliver" else action[1] if name in _OF_A_BROKER else NOBODY
        broker = self.world.brokers.get(whom) if isinstance(whom, int) else None
        if broker is None or not broker.alive:
            return
        if broker.paused:
            self._held.setdefault(("resume", broker.id), []).append(action)
        elif name == "lead_anyway" and not self.world.sees_store(broker):
            self._held.setdefault(("heal", NOBODY, broker.id), []).append(action)

    def step(self) -> bool:
        """Take the next due action; return False if there is none or it had no effect."""
        if not self._due:
            return False
        self.world.now, _, action = heappop(self._due)
        if self.take(action):
            return True
        self._hold(action)
        return False

    def run(self, until: float) -> None:
        """Run to this time, or to the first violation."""
        world, due, history = self.world, self._due, self.world.history
        while due and due[0][0] <= until and history.violated is None:
            self.step()
        if history.violated is None:
            world.now = max(world.now, until)


def _ends(action: Action) -> Action:
    """Return the healing action of a cut, whichever end is named first."""
    return action if action[0] == "resume" else ("heal", min(action[1:]), max(action[1:]))
