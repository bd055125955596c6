"""From a run that violates an invariant to the fewest of its steps that still do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from backend.replication_lab.actions import perform
from backend.replication_lab.history import Invariant
from backend.replication_lab.patience import follower_is_held_up
from backend.replication_lab.world import Action, World

_PAIRS_UP_TO = 40
"""Steps in a story of which any two are tried to be left out together."""
_MOST_TRIED = 300_000
"""Steps taken to shrink one story: some seconds. After that it is told as far as it is shrunk."""


@dataclass(frozen=True)
class Story:
    """The end of a run, from a moment at which nothing was wrong, in the fewest steps."""

    start: World
    skipped: int
    """Steps that the run took before that moment."""
    steps: tuple[Action, ...]
    """None, and no two of which can be left out, if `is_fewest`; the last one violates the invariant."""
    is_fewest: bool


class _Budget:
    """Steps that may still be tried."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> bool:
        """False if there are none left."""
        self.left -= steps
        return self.left >= 0


def shrink(start: World, steps: Sequence[Action], invariant: Invariant, most_tried: int = _MOST_TRIED) -> Story:
    """The last part of a run, with all left out that is not needed: half of it, a quarter, ... one step, any two.

    A wait ends in the story only where it says what takes so long (`patience`), if the run can be told so.

    Args:
        start: Where the run began; it stays as it is.
        steps: Actions that lead to a violation of the invariant when they are taken one after another.
        most_tried: Steps that may be taken to find out.

    Raises:
        ValueError: the steps do not violate it.
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
    """Those of the steps that do something, up to the one that violates the invariant; None if none does.

    Reordered steps may have nothing to do; they are left out. Whether time-outs have passed is not asked for.
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
    """The world at the last moment at which nothing was wrong, and how many steps had been taken by then.

    Best a moment at which all logs were the same; the beginning if nothing ever was right.
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
    """Somebody leads, all replicas are in sync and follow, and none of them is held up."""
    leader, store = world.leader(), world.store
    if leader is None or world.cuts or store.reassigned or store.deleted or len(store.isr) < len(store.replicas):
        return False
    followers = (each for each in store.replicas if each != leader.id)
    return leader.partition.isr == store.isr and not any(
        follower_is_held_up(world, leader, each) for each in followers
    )


def _is_same(world: World) -> bool:
    """All replicas have the same log and know it to be committed, and no record is under way."""
    first, *others = [world.brokers[each] for each in world.store.replicas]
    return (
        all(each.hw == len(each.log) == len(first.log) for each in (first, *others))
        and all(each.log[-1:] == first.log[-1:] for each in others)
        and not any(each.waits for each in world.producers)
    )


def after(start: World, steps: Sequence[Action]) -> World:
    """The world after these steps."""
    world = start.copy()
    for action in steps:
        perform(world, action)
    return world
