"""Whether leaders and in-sync replicas that a real cluster had, in their order, are ones that fixed mode permits.

The model is run beside what was observed: from every state that it may be in, all that can happen next is tried
until leader and ISR are those that were seen next. Faults are given, so that nobody stops being up by itself.

A cluster cannot tell a broker that is gone from one that is silent until its session ends, and its controller
may make such a one the leader; in the documents a broker writes the leader's node itself. So a crash or a pause
may show at once or later, at the latest when the broker is given up (`fenced`), goes on or starts again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from backend.replication_lab.actions import perform
from backend.replication_lab.beginnings import established
from backend.replication_lab.configuration import Configuration
from backend.replication_lab.messages import NOBODY
from backend.replication_lab.rules import FIXED
from backend.replication_lab.search import Bounds, possible
from backend.replication_lab.world import Action, World

_NO_FAULTS = Bounds(crashes=0)
_WRITTEN_TOGETHER = 4
"""Events that a cluster may write at once; the order among them is its own."""
_MOST_STATES = 20_000
"""Between two changes that were seen; some tens are usual."""


class Fault(NamedTuple):
    """Something that was done to a broker, or that the cluster did to it: crash, restart, pause, resume, fenced
    (it was given up), session_expiry (it was given up although nothing was done to it).

    A restart or an expiry may have shown already in the change before, which the cluster writes with it.
    """

    fault: str
    broker: int


class Change(NamedTuple):
    """Leader (0: none) and ISR, as the cluster wrote them."""

    leader: int
    isr: frozenset[int]


@dataclass(frozen=True)
class Verdict:
    """What came of it."""

    permitted: bool
    changes: int
    """That were explained, of those that were seen."""
    why: str = ""
    """What could not be explained."""


def permits(configuration: Configuration, events: Sequence[Fault | Change]) -> Verdict:
    """Judge a history that begins with the first broker as the leader and all replicas in sync.

    Args:
        configuration: Of the cluster; its producers are not looked at.
        events: Faults and changes in their order; a change that says the same as the one before is left out.
    """
    start = established(configuration, FIXED, direct=True, prompt=True)
    start.producers = []
    worlds = {hash(start.key()): start}
    seen, changes = Change(start.store.leader, start.store.isr), 0
    silent: dict[int, str] = {}
    for at, event in enumerate(events):
        if isinstance(event, Fault):
            worlds = _befell(worlds, event, silent)
        elif event != seen:
            late = tuple((kind, broker) for broker, kind in silent.items())
            worlds = _followed(worlds, event, (*late, *_written_with(events[at + 1 :])))
            if not worlds:
                return Verdict(False, changes, f"from {_told(seen)} no steps lead to {_told(event)}")
            seen, changes = event, changes + 1
        if not worlds:
            return Verdict(False, changes, f"{event} cannot have been")
    return Verdict(True, changes)


def _told(change: Change) -> str:
    leader = f"leader {change.leader}" if change.leader != NOBODY else "no leader"
    return f"{leader} with ISR {sorted(change.isr)}"


def _written_with(later: Iterable[Fault | Change]) -> tuple[Action, ...]:
    """Returns and expiries that stand shortly behind a change."""
    return tuple(
        (event.fault, event.broker)
        for event in islice(later, _WRITTEN_TOGETHER)
        if isinstance(event, Fault) and event.fault in ("restart", "session_expiry")
    )


def _befell(worlds: dict[int, World], fault: Fault, silent: dict[int, str]) -> dict[int, World]:
    """A crash or a pause is kept until it has to have shown; everything else comes to all states."""
    if fault.fault in ("crash", "pause"):
        silent[fault.broker] = fault.fault
        return worlds
    if fault.broker in silent:
        shown = Fault(silent[fault.broker], fault.broker)
        worlds = dict(_suffered(worlds.values(), shown))
        if fault.fault != "fenced":
            del silent[fault.broker]
    return worlds if fault.fault == "fenced" else dict(_suffered(worlds.values(), fault))


def _suffered(worlds: Iterable[World], fault: Fault) -> Iterator[tuple[int, World]]:
    """The fault comes to all; one that has had it already stays."""
    for world in worlds:
        twin = world.copy()
        perform(twin, (fault.fault, fault.broker))
        yield hash(twin.key()), twin


def _followed(worlds: dict[int, World], to: Change, extra: tuple[Action, ...]) -> dict[int, World]:
    """All states with that leader and ISR to which steps lead that show nothing else but that nobody leads.

    Each of `extra` may come once.
    """
    begun = {(world.store.leader, world.store.isr) for world in worlds.values()}
    waiting = deque((world, extra) for world in worlds.values())
    known = {(state, extra) for state in worlds}
    # A broker that starts may lead in that step, where the cluster first registers it.
    arrived = {state: each for state, each in worlds.items() if (each.store.leader, each.store.isr) == to}
    while waiting and len(known) < _MOST_STATES:
        world, left = waiting.popleft()
        for action in (*_next(world), *left):
            twin = world.copy()
            if not perform(twin, action):
                continue
            state = hash(twin.key())
            then = tuple(each for each in left if each != action)
            if (state, then) in known:
                continue
            known.add((state, then))
            shown = (twin.store.leader, twin.store.isr)
            if shown == to:
                arrived[state] = twin
            elif shown in begun or twin.store.leader == NOBODY:
                waiting.append((twin, then))
    return arrived


def _next(world: World) -> Iterator[Action]:
    """What may happen by itself: everything but that a broker comes back."""
    for action, _ in possible(world, _NO_FAULTS, (0, 0, 0)):
        if action[0] != "restart":
            yield action
