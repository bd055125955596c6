"""Check that the leaders and in-sync replicas of a real cluster, in order, are ones that fixed mode permits.

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
from itertools import takewhile
from typing import NamedTuple

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import FIXED
from backend.replication_lab.model.start_states import established
from backend.replication_lab.model.world import Action, World
from backend.replication_lab.runs.search import Bounds, possible

_NO_FAULTS = Bounds(crashes=0)
_WRITTEN_TOGETHER_MS = 2
"""A cluster writes a change and what it is due to at one time; the order among them is its own."""
_MOST_STATES = 20_000
"""The most states between two observed changes; some tens are usual."""


class Fault(NamedTuple):
    """A fault of a broker, or the cluster's reaction to one.

    Kinds: crash, restart, pause, resume, fenced (the broker was given up), session_expiry (the broker was
    given up although nothing was done to it).

    A restart or an expiry may have shown already in the change before, which the cluster writes with it.
    """

    fault: str
    broker: int
    time_ms: float


class Change(NamedTuple):
    """Leader (0: none) and ISR, as the cluster wrote them."""

    leader: int
    isr: frozenset[int]
    time_ms: float


@dataclass(frozen=True)
class Verdict:
    """Result of the comparison."""

    permitted: bool
    changes: int
    """Number of observed changes that the model explains."""
    why: str = ""
    """The change that the model does not explain."""


def permits(configuration: Configuration, events: Sequence[Fault | Change]) -> Verdict:
    """Judge a history that begins with the first broker as the leader and all replicas in sync.

    Args:
        configuration: Of the cluster; its producers are not looked at.
        events: Faults and changes in their order; a change that says the same as the one before is left out.
    """
    start = established(configuration, FIXED, direct=True, prompt=True)
    start.producers = []
    worlds = {hash(start.key()): start}
    seen, changes = (start.store.leader, start.store.isr), 0
    silent: dict[int, str] = {}
    for at, event in enumerate(events):
        if isinstance(event, Fault):
            worlds = _befell(worlds, event, silent)
        elif event[:2] != seen:
            late = tuple((kind, broker) for broker, kind in silent.items())
            worlds = _followed(worlds, event[:2], (*late, *_written_with(event, events[at + 1 :])))
            if not worlds:
                return Verdict(False, changes, f"from {_told(*seen)} no steps lead to {_told(*event[:2])}")
            seen, changes = event[:2], changes + 1
        if not worlds:
            return Verdict(False, changes, f"{event} cannot have been")
    return Verdict(True, changes)


def _told(leader: int, isr: frozenset[int]) -> str:
    return f"{f'leader {leader}' if leader != NOBODY else 'no leader'} with ISR {sorted(isr)}"


def _written_with(change: Change, later: Iterable[Fault | Change]) -> tuple[Action, ...]:
    """Returns and expiries that stand behind a change and were written at the same time."""
    together = takewhile(lambda event: event.time_ms <= change.time_ms + _WRITTEN_TOGETHER_MS, later)
    return tuple(
        (event.fault, event.broker)
        for event in together
        if isinstance(event, Fault) and event.fault in ("restart", "session_expiry")
    )


def _befell(worlds: dict[int, World], fault: Fault, silent: dict[int, str]) -> dict[int, World]:
    """A crash or a pause is kept until it has to have shown; everything else comes to all states.

    Of one that was given up the session is over, so that it leaves the ISR with the next leader at the latest.
    """
    if fault.fault in ("crash", "pause"):
        silent[fault.broker] = fault.fault
        return worlds
    if fault.broker in silent:
        worlds = _suffered(worlds, (silent[fault.broker], fault.broker))
        if fault.fault != "fenced":
            del silent[fault.broker]
    return _suffered(worlds, ("expire" if fault.fault == "fenced" else fault.fault, fault.broker))


def _suffered(worlds: dict[int, World], action: Action) -> dict[int, World]:
    """Apply a fault to all states; a state that has had it already stays."""
    twins = [world.copy() for world in worlds.values()]
    for twin in twins:
        perform(twin, action)
    return {hash(twin.key()): twin for twin in twins}


def _followed(
    worlds: dict[int, World], to: tuple[int, frozenset[int]], extra: tuple[Action, ...]
) -> dict[int, World]:
    """Return all reachable states with that leader and ISR.

    The steps in between may show no leader, or some of the replicas that the leader drops, and nothing else.

    Each of `extra` may come once.
    """
    begun = {(world.store.leader, world.store.isr) for world in worlds.values()}
    leaders = {leader for leader, _ in begun}
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
            elif shown in begun or twin.store.leader == NOBODY or (to[0] in leaders and _is_between(shown, to)):
                waiting.append((twin, then))
    return arrived


def _is_between(shown: tuple[int, frozenset[int]], to: tuple[int, frozenset[int]]) -> bool:
    """A leader drops all that are late in one change; in the model one after another."""
    return shown[0] == to[0] and shown[1] > to[1]


def _next(world: World) -> Iterator[Action]:
    """Return the steps that may happen by themselves: all but the return of a broker."""
    for action, _ in possible(world, _NO_FAULTS, (0, 0, 0)):
        if action[0] != "restart":
            yield action
