"""Shrink a run that violates an invariant to the fewest of its steps that still do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.timeouts import follower_is_delayed
from backend.replication_lab.model.world import Action, World

_PAIRS_UP_TO = 40
"""Longest story of which every pair of steps is tried for removal."""
_MOST_TRIED = 300_000
"""Most steps taken to shrink one story: some seconds. After that the story is reported as far as it is shrunk."""


@dataclass(frozen=True)
class Story:
    """End of a run in the fewest steps, from a moment at which nothing was wrong."""

    start: World
    skipped: int
    """Steps that the run took before that moment."""
    steps: tuple[Action, ...]
    """Steps, of which no single one and no two can be left out if `is_fewest`; the last one violates the
    invariant."""
    is_fewest: bool


class _Budget:
    """Budget of steps that may still be tried."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> bool:
        """Spend steps; return False if the budget is exhausted."""
        self.left -= steps
        return self.left >= 0


def shrink(start: World, steps: Sequence[Action], invariant: Invariant, most_tried: int = _MOST_TRIED) -> Story:
    """Shrink the last part of a run by leaving out half of it, a quarter, ..., single steps, and pairs.

    A timeout remains only where the story shows its cause (`timeouts`), if such a story exists.

    Args:
        start: state at the beginning of the run; it is not changed.
        steps: actions that violate the invariant when taken in order.
        most_tried: budget of steps.

    Raises:
        ValueError: the steps do not violate the invariant.
    """
    begun, skipped = _last_calm(start, steps)
    for patient in (True, False):
        begun.patient = patient
        fewest = violating(begun, steps[skipped:], invariant)
        if fewest is not None:
            budget = _Budget(most_tried)
            fewest = _without_pairs(begun, _without_parts(begun, fewest, invariant, budget), invariant, budget)
            return Story(begun, skipped, fewest, budget.left >= 0)
    raise ValueError(f"these {len(steps)} steps do not violate {invariant}")


def _without_parts(
    start: World, fewest: tuple[Action, ...], invariant: Invariant, budget: _Budget
) -> tuple[Action, ...]:
    size = max(1, len(fewest) // 2)
    while size:
        at, shrunk = 0, False
        while at < len(fewest):
            if not budget.spend(len(fewest)):
                return fewest
            fewer = violating(start, fewest[:at] + fewest[at + size :], invariant)
            if fewer is None:
                at += size
            else:
                fewest, shrunk = fewer, True
        size = size if size == 1 and shrunk else size // 2
    return fewest


def _without_pairs(
    start: World, fewest: tuple[Action, ...], invariant: Invariant, budget: _Budget
) -> tuple[Action, ...]:
    while len(fewest) <= _PAIRS_UP_TO and budget.spend(len(fewest) ** 3 // 2):
        fewer = _without_two(start, fewest, invariant)
        if fewer is None:
            break
        fewest = fewer
    return fewest


def _without_two(start: World, steps: tuple[Action, ...], invariant: Invariant) -> tuple[Action, ...] | None:
    for one, other in combinations(range(len(steps)), 2):
        fewer = steps[:one] + steps[one + 1 : other] + steps[other + 1 :]
        if (found := violating(start, fewer, invariant)) is not None:
            return found
    return None


def violating(start: World, steps: Sequence[Action], invariant: Invariant) -> tuple[Action, ...] | None:
    """Return the steps that have an effect, up to the violation of the invariant; None if it is not violated.

    Reordered steps may have no effect and are left out. Timeouts are not checked.
    """
    world = start.copy()
    taken = []
    for action in steps:
        if perform(world, action):
            taken.append(action)
        if world.history.violated is not None:
            return tuple(taken) if world.history.violated is invariant else None
    return None


def _last_calm(start: World, steps: Sequence[Action]) -> tuple[World, int]:
    """Return the world at the last moment at which nothing was wrong, and the number of steps before it.

    A moment at which all logs were equal is preferred; it is the beginning if nothing ever was right.
    """
    world = start.copy()
    calm, same = 0, -1
    for number, action in enumerate((None, *steps)):
        if action is not None:
            perform(world, action)
        if world.history.violated is not None:
            break
        if _is_calm(world):
            calm = number
            if _is_same(world):
                same = number
    best = same if same >= 0 else calm
    return after(start, steps[:best]), best


def _is_calm(world: World) -> bool:
    """Tell whether there is a leader, and all replicas are in sync, follow it, and are not delayed."""
    leader, store = world.leader(), world.store
    if leader is None or world.cuts or store.reassigned or store.deleted or len(store.isr) < len(store.replicas):
        return False
    followers = (each for each in store.replicas if each != leader.id)
    return leader.partition.isr == store.isr and not any(
        follower_is_delayed(world, leader, each) for each in followers
    )


def _is_same(world: World) -> bool:
    """Tell whether all replicas have the same committed log, and no record is under way."""
    first, *others = [world.brokers[each] for each in world.store.replicas]
    return (
        all(each.hw == len(each.log) == len(first.log) for each in (first, *others))
        and all(each.log[-1:] == first.log[-1:] for each in others)
        and not any(each.waits for each in world.producers)
    )


def after(start: World, steps: Sequence[Action]) -> World:
    """Return the world after these steps."""
    world = start.copy()
    for action in steps:
        perform(world, action)
    return world
