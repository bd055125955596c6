"""Recovery check: whether the partition has recovered after the last fault was healed."""

from __future__ import annotations

from backend.domain.base.words import counted
from backend.replication_lab.model.messages import producer_name
from backend.replication_lab.model.state import Role
from backend.replication_lab.model.world import World
from backend.replication_lab.runs.timed import Clock

PATIENCE_MS = 20_000
"""Simulated time allowed for recovery: many times what sessions, elections and dropped followers take."""
_BETWEEN_LOOKS_MS = 50


def settles(clock: Clock) -> bool:
    """Run until recovery, a violation, or the end of patience; return False in the last case."""
    world = clock.world
    end = world.now + PATIENCE_MS
    while world.now < end and world.history.violated is None:
        clock.run(world.now + _BETWEEN_LOOKS_MS)
        if has_recovered(world):
            return True
    return world.history.violated is not None


def lost_acknowledged(world: World) -> tuple[str, ...]:
    """Return the acknowledged records that the leader does not have; none if there is no leader."""
    leader = world.leader()
    if leader is None or world.store.deleted:
        return ()
    there = {(each.producer, each.number) for each in leader.log}
    return tuple(
        f"{producer_name(producer.id)}{number}"
        for producer in world.producers
        for number in range(producer.number)
        if number not in producer.abandoned and (producer.id, number) not in there
    )


def has_recovered(world: World) -> bool:
    """Tell whether a leader serves, all replicas are in sync with equal logs, and every producer is answered."""
    return not unsettled(world)


def unsettled(world: World) -> str:
    """Describe what has not recovered; empty if everything has."""
    store = world.store
    if store.deleted:
        left = [str(each.id) for each in world.brokers.values() if each.log]
        return f"the topic is deleted, and brokers {', '.join(left)} still have its log" if left else ""
    leader = world.leader()
    if leader is None:
        return "the partition has no leader"
    if store.reassigned:
        return f"the replicas have not moved to {', '.join(str(each) for each in store.reassigned)} yet"
    live = [each for each in world.brokers.values() if each.alive]
    left = [str(each.id) for each in live if each.log and each.id not in store.replicas]
    if left:
        return f"the log of a replica that was moved away is still on broker {', '.join(left)}"
    missing = [str(each) for each in store.replicas if each not in store.isr]
    if missing:
        return f"{counted(len(missing), 'replica')} ({', '.join(missing)}) did not return to the ISR"
    waiting = sum(each.left for each in world.producers)
    if waiting:
        return f"{counted(waiting, 'record')} of producers never acknowledged"
    replicas = [world.brokers[each] for each in store.replicas]
    if any(not each.alive or each.log != leader.log for each in replicas):
        return "the replicas' logs differ"
    if leader.role is not Role.LEADER or leader.hw != len(leader.log):
        return f"the HW of broker {leader.id} is {leader.hw}, and its log ends at {len(leader.log)}"
    return ""
