"""Faults and requests of administrators, as actions that a schedule may contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.startup import broker_startup, crash, end_session, start_session_timeout
from backend.replication_lab.model.state import Broker, Fetcher, Role
from backend.replication_lab.model.world import World


def _pause(world: World, broker: Broker) -> bool:
    """Pause the process (SIGSTOP): it neither sends nor answers, and its session expires after a while."""
    if not broker.alive or broker.paused:
        return False
    start_session_timeout(world, broker)
    broker.paused = True
    return True


def _resume(world: World, broker: Broker) -> bool:
    """Resume a paused process in its old state; the clock decides about timers that fired meanwhile."""
    if not broker.paused:
        return False
    broker.paused = False
    return True


def cut(world: World, one: int, other: int) -> bool:
    """Cut the connection between two brokers, or a broker and the store (0), until `heal`."""
    pair = (min(one, other), max(one, other))
    if pair in world.cuts:
        return False
    if pair[0] == NOBODY:
        start_session_timeout(world, world.brokers[pair[1]])
    world.cuts |= {pair}
    return True


def heal(world: World, one: int, other: int) -> bool:
    """Restore a connection."""
    pair = (min(one, other), max(one, other))
    if pair not in world.cuts:
        return False
    world.cuts -= {pair}
    if pair[0] == NOBODY:
        broker = world.brokers[pair[1]]
        for action in ("notice", "request", "commit"):
            world.wake((action, broker.id), world.configuration.times.network)
        if broker.role is Role.NONE and broker.alive:
            world.notify(broker, "leader_change")
    return True


def _slow(world: World, broker: Broker) -> bool:
    """Make a follower slow at fetching."""
    changed, broker.slow = not broker.slow, True
    return changed


def _slow_disk(world: World, broker: Broker) -> bool:
    """Make a disk slow at writing fetched records and at flushing."""
    changed, broker.slow_disk = not broker.slow_disk, True
    return changed


def _fast(world: World, broker: Broker) -> bool:
    """Restore the normal speed of follower and disk."""
    changed = broker.slow or broker.slow_disk
    broker.slow = broker.slow_disk = False
    if broker.fetcher in (Fetcher.READY, Fetcher.ASKS):
        world.wake(("fetch", broker.id), 0)
    return changed


def reassign(world: World, *replicas: int) -> bool:
    """Request a reassignment, as an administrator writes /brokers/partitions_reassigned/[topic]/[partition_id]."""
    if world.store.reassigned == replicas or world.store.deleted:
        return False
    world.store.reassigned = replicas
    _tell_leader(world, "partition_reassigned")
    return True


def delete_topic(world: World) -> bool:
    """Delete the topic, as an administrator does."""
    if world.store.deleted:
        return False
    world.store.deleted = True
    _tell_leader(world, "replica_change")
    return True


def _tell_leader(world: World, listener: str) -> None:
    """Call listeners that are "ONLY on the leader"; for a deleted topic without a leader, on every broker."""
    leader = world.leader()
    if leader is not None:
        world.notify(leader, listener)
    elif world.store.deleted:
        for broker in world.brokers.values():
            world.notify(broker, listener)


def _of_broker(handler: Callable[[World, Broker], bool]) -> Callable[..., bool]:
    return lambda world, broker: handler(world, world.brokers[broker])


HANDLERS: Mapping[str, Callable[..., bool]] = MappingProxyType(
    {
        "crash": _of_broker(crash),
        "power_loss": lambda world, broker: crash(world, world.brokers[broker], loses_tail=True),
        "restart": _of_broker(broker_startup),
        "pause": _of_broker(_pause),
        "resume": _of_broker(_resume),
        "session_expiry": _of_broker(end_session),
        "cut": cut,
        "heal": heal,
        "slow": _of_broker(_slow),
        "slow_disk": _of_broker(_slow_disk),
        "fast": _of_broker(_fast),
        "reassign": reassign,
        "delete_topic": delete_topic,
    }
)
"""Handler of each fault, by name."""
