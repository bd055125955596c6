"""Exhaustive search through the orders of events in small configurations: breadth first, so stories are shortest.

Messages are answered in the step that sends them, and time is not modelled: any timer that could fire may fire
next. States are identified by 64 bits of their hash (hash compaction): among a million states, two collide with a
probability of 3 in 10^8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.committing import offset_reached
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.leading import all_caught_up
from backend.replication_lab.model.state import Broker, Fetcher, Role
from backend.replication_lab.model.timeouts import follower_is_delayed
from backend.replication_lab.model.world import Action, World


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits on faults in one story; anything without a limit happens as often as possible."""

    crashes: int = 2
    power_losses: int = 0
    """Crashes that lose what was not flushed."""
    expiries: int = 0
    """Sessions that expire although their brokers are alive."""
    attempts: int = 1
    """Attempts at sending a record."""
    checkpoints: bool = False
    """Tells whether flushes of log and HW are steps of their own; otherwise nothing is flushed after the
    beginning."""
    leader_epochs: int = 1 << 30
    """Last leader epoch of a story. A leader may yield to the preferred replica and lead again for ever."""


@dataclass(frozen=True)
class Found:
    """Result of a search."""

    depth: int
    """Depth to which every story was examined, or at which the first violation was found."""
    states: int
    """Number of distinct states."""
    steps: int
    """Number of transitions."""
    by_depth: tuple[int, ...]
    """New states at each depth, from 0."""
    violated: Invariant | None = None
    what: str = ""
    story: tuple[Action, ...] = field(default=())
    """Actions that lead to the violation."""
    is_whole: bool = False
    """Tells whether every state was expanded: within the bounds there are no longer stories."""


Spent = tuple[int, int, int]
"""Crashes, power losses and session expiries so far."""


def possible(world: World, bounds: Bounds, spent: Spent) -> Iterator[tuple[Action, Spent]]:
    """Yield the possible next actions, each with what will have been spent after it."""
    if world.store.leader_epoch > bounds.leader_epochs:
        return
    crashes, losses, expiries = spent
    for id_, broker in world.brokers.items():
        if not broker.alive:
            yield ("restart", id_), spent
            if id_ in world.store.registered:
                yield ("expire", id_), spent
            continue
        if broker.paused:
            if id_ in world.store.registered:
                yield ("expire", id_), spent
            continue
        for action in _of_broker(world, broker, bounds):
            yield action, spent
        if crashes < bounds.crashes:
            yield ("crash", id_), (crashes + 1, losses, expiries)
        if losses < bounds.power_losses and broker.flushed < len(broker.log):
            yield ("power_loss", id_), (crashes, losses + 1, expiries)
        if expiries < bounds.expiries and id_ in world.store.registered:
            yield ("session_expiry", id_), (crashes, losses, expiries + 1)
    for producer in world.producers:
        if not producer.waits and producer.left:
            yield ("produce", producer.id), spent
        elif producer.waits and producer.attempt < bounds.attempts:
            yield ("timeout", producer.id, producer.number, producer.attempt), spent


def _of_broker(world: World, broker: Broker, bounds: Bounds) -> Iterator[Action]:
    id_, role = broker.id, broker.role
    if broker.fetcher in (Fetcher.READY, Fetcher.ASKS):
        yield ("fetch", id_)
    if broker.notices:
        yield ("notice", id_)
    if id_ in world.store.requests:
        yield ("request", id_)
    if role is Role.STANDING:
        yield ("elect", id_)
    elif role is Role.BECOMING:
        yield ("lead", id_) if all_caught_up(world, broker) else ("lead_anyway", id_)
    elif role is Role.LEADER:
        yield from _of_leader(world, broker)
    if (
        bounds.checkpoints
        and broker.started
        and (broker.checkpoint, broker.flushed) != (broker.hw, len(broker.log))
    ):
        yield ("checkpoint", id_)


def _of_leader(world: World, leader: Broker) -> Iterator[Action]:
    partition = leader.partition
    if world.rules.judges_by_progress:
        for replica in sorted(partition.isr):
            if replica != leader.id:
                behind = partition.leo.get(replica, 0) < len(leader.log)
                if behind or follower_is_delayed(world, leader, replica):
                    yield ("shrink", leader.id, replica)
    elif partition.commit_q:
        offset = partition.commit_q[0].offset
        if all(offset_reached(world, leader, each, offset) for each in partition.isr if each != leader.id):
            yield ("commit", leader.id)
        else:
            yield ("late", leader.id, offset, len(partition.isr))


def search(
    start: World, bounds: Bounds, depth: int, *, report: Callable[[int, int, int], None] | None = None
) -> Found:
    """Take every step from every state up to `depth` steps from `start`, to the first violation.

    Args:
        report: called after each depth with depth, states and steps so far.
    """
    parents: list[tuple[int, Action]] = [(-1, ())]
    known = {hash((start.key(), (0, 0, 0)))}
    frontier: list[tuple[World, Spent, int]] = [(start, (0, 0, 0), 0)]
    by_depth, steps = [1], 0
    for level in range(1, depth + 1):
        following: list[tuple[World, Spent, int]] = []
        for world, spent, number in frontier:
            for action, then in possible(world, bounds, spent):
                twin = world.copy()
                if not perform(twin, action):
                    continue
                steps += 1
                if twin.history.violated is not None:
                    story = (*_story(parents, number), action)
                    by_depth.append(len(following))
                    return Found(
                        level, len(known), steps, tuple(by_depth), twin.history.violated, twin.history.what, story
                    )
                state = hash((twin.key(), then))
                if state not in known:
                    known.add(state)
                    if level < depth:
                        parents.append((number, action))
                        following.append((twin, then, len(parents) - 1))
                    else:
                        following.append((start, then, 0))  # counted only
        by_depth.append(len(following))
        frontier = following
        if report is not None:
            report(level, len(known), steps)
        if not frontier:
            return Found(level, len(known), steps, tuple(by_depth), is_whole=True)
    return Found(depth, len(known), steps, tuple(by_depth))


def _story(parents: list[tuple[int, Action]], number: int) -> tuple[Action, ...]:
    story: list[Action] = []
    while number > 0:
        number, action = parents[number]
        story.append(action)
    return tuple(reversed(story))
