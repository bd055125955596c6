"""From a run that violates an invariant to the fewest of its steps that still do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from backend.replication_lab.actions import perform
from backend.replication_lab.history import Invariant
from backend.replication_lab.world import Action, World

_PAIRS_UP_TO = 40
"""Steps in a story of which any two are tried to be left out together."""


def shrink(start: World, steps: Sequence[Action], invariant: Invariant) -> tuple[Action, ...]:
    """Leave out what is not needed: half of the steps, a quarter, ... one, and then any two.

    Args:
        start: Where the run began; it stays as it is.
        steps: Actions that lead to a violation of the invariant when they are taken one after another.

    Returns:
        Actions of which none, and no two, can be left out; the last one violates the invariant.

    Raises:
        ValueError: the steps do not violate it.
    """
    fewest = violating(start, steps, invariant)
    if fewest is None:
        raise ValueError(f"these {len(steps)} steps do not violate {invariant}")
    size = max(1, len(fewest) // 2)
    while size:
        at, shrunk = 0, False
        while at < len(fewest):
            fewer = violating(start, fewest[:at] + fewest[at + size :], invariant)
            if fewer is None:
                at += size
            else:
                fewest, shrunk = fewer, True
        size = size if size == 1 and shrunk else size // 2
    while len(fewest) <= _PAIRS_UP_TO and (fewer := _without_two(start, fewest, invariant)) is not None:
        fewest = fewer
    return fewest


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


def after(start: World, steps: Sequence[Action]) -> World:
    """The world after these steps."""
    world = start.copy()
    for action in steps:
        perform(world, action)
    return world


def _without_two(start: World, steps: tuple[Action, ...], invariant: Invariant) -> tuple[Action, ...] | None:
    for one, other in combinations(range(len(steps)), 2):
        fewer = steps[:one] + steps[one + 1 : other] + steps[other + 1 :]
        if (found := violating(start, fewer, invariant)) is not None:
            return found
    return None
