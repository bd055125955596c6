"""Whether all is well again after the last fault was healed."""

from __future__ import annotations

from backend.domain.base.words import counted
from backend.replication_lab.messages import producer_name
from backend.replication_lab.state import Role
from backend.replication_lab.timed import Clock
from backend.replication_lab.world import World

PATIENCE_MS = 20_000
"""Of simulated time: many times what sessions, elections and followers that were dropped take."""
_BETWEEN_LOOKS_MS = 50


def settles(clock: Clock) -> bool:
    """Go on until all is well, to a violation, or until patience ends; False in the last case."""
    world = clock.world
    end = world.now + PATIENCE_MS
    while world.now < end and world.history.violated is None:
        clock.run(world.now + _BETWEEN_LOOKS_MS)
        if is_well(world):
            return True
    return world.history.violated is not None


def acknowledged_and_gone(world: World) -> tuple[str, ...]:
    """Records that producers were told of as written, and that the leader does not have, if there is one."""
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


def is_well(world: World) -> bool:
    """One leads, all replicas live and are in sync with the same log, and every producer got its answers."""
    return not unsettled(world)


def unsettled(world: World) -> str:
    """What is not well, in words; empty if all is."""
    store = world.store
    if store.deleted:
        left = [str(each.id) for each in world.brokers.values() if each.log]
        return f"the topic is deleted, and brokers {', '.join(left)} still have its log" if left else ""
    leader = world.leader()
    if leader is None:
        return "nobody leads the partition"
    if store.reassigned:
        return f"the replicas are not moved to {', '.join(str(each) for each in store.reassigned)} yet"
    live = [each for each in world.brokers.values() if each.alive]
    left = [str(each.id) for each in live if each.log and each.id not in store.replicas]
    if left:
        return f"the log of a replica that was moved away is still on broker {', '.join(left)}"
    missing = [str(each) for each in store.replicas if each not in store.isr]
    if missing:
        return f"{counted(len(missing), 'replica')} ({', '.join(missing)}) did not come in sync again"
    waiting = sum(each.left for each in world.producers)
    if waiting:
        return f"{counted(waiting, 'record')} of producers never acknowledged"
    replicas = [world.brokers[each] for each in store.replicas]
    if any(not each.alive or each.log != leader.log for each in replicas):
        return "the replicas' logs are not the same"
    if leader.role is not Role.LEADER or leader.hw != len(leader.log):
        return f"the HW of broker {leader.id} is {leader.hw}, and its log ends at {len(leader.log)}"
    return ""
