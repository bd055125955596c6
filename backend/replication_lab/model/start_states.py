"""Start states of runs: brokers that are not started yet, or a partition with a leader and replicas in sync."""

from __future__ import annotations

from backend.replication_lab.model.checking import after_step
from backend.replication_lab.model.configuration import Configuration, InvalidDrill
from backend.replication_lab.model.isr import ids
from backend.replication_lab.model.messages import NOBODY, Record
from backend.replication_lab.model.rules import Rules
from backend.replication_lab.model.state import Broker, Fetcher, Role
from backend.replication_lab.model.world import World

SEED = 25
"""Producer id of the records that exist at the beginning: z0, z1, ..."""


def established(
    configuration: Configuration,
    rules: Rules,
    *,
    records: int = 0,
    leader: int = 1,
    isr: frozenset[int] | None = None,
    eligible: frozenset[int] = frozenset(),
    dead: frozenset[int] = frozenset(),
    direct: bool = False,
    prompt: bool = False,
) -> World:
    """Return a world whose partition has a leader and `records` committed records.

    All replicas in the ISR and all `eligible` ones (ELR) have the records and know that they are committed.

    Raises:
        InvalidDrill: the leader or the ISR contradict the configuration.
    """
    world = World(configuration, rules, direct=direct, prompt=prompt)
    ar = frozenset(configuration.assigned)
    in_sync = ar - dead if isr is None else isr
    if leader not in in_sync or leader in dead or not in_sync <= ar:
        raise InvalidDrill(
            f"broker {leader} cannot lead: it must be up and in the ISR {ids(in_sync)}, "
            f"which must be a subset of the replicas {ids(ar)}."
        )
    store = world.store
    store.leader, store.isr, store.cur, store.isr_version = leader, in_sync, ar - in_sync, 1
    store.elr = eligible - in_sync
    store.last_leader = leader
    store.leader_epoch = 1 if rules.has_epochs else 0
    log = [Record(store.leader_epoch, SEED, 0, number) for number in range(records)]
    for broker in world.brokers.values():
        broker.incarnation = 1
        if broker.id in in_sync | eligible:
            broker.log = log.copy()
            broker.hw = broker.checkpoint = broker.flushed = records
        if broker.id not in dead:
            _join(world, broker)
    for record in log:
        world.history.add(record)
    for broker in world.brokers.values():
        world.dirty.append(broker.id)
    after_step(world)
    for producer in world.producers:
        producer.leader = leader
    return world


def _join(world: World, broker: Broker) -> None:
    """Let a broker run, as leader or follower."""
    store, partition = world.store, broker.partition
    broker.alive = True
    store.registered[broker.id] = broker.incarnation
    if broker.id not in store.replicas:
        return
    broker.started = broker.checkpoints = True
    partition.leader, partition.epoch, partition.ar = store.leader, store.leader_epoch, store.replicas
    if broker.id == store.leader:
        broker.role = Role.LEADER
        partition.isr, partition.cur, partition.isr_version = store.isr, store.cur, store.isr_version
        partition.leo = {
            each: len(broker.log) if each in store.isr else 0 for each in store.replicas if each != broker.id
        }
    else:
        broker.role = Role.FOLLOWER
        broker.fetcher = Fetcher.READY


def wake_all(world: World) -> None:
    """Start every timer of an established world, which now has a clock."""
    times = world.configuration.times
    for broker in world.brokers.values():
        if broker.alive:
            world.wake(("checkpoint", broker.id), times.checkpoint)
            world.wake(("fetch", broker.id), times.fetch)
            if broker.role is Role.LEADER and world.rules.judges_by_progress:
                for replica in broker.partition.isr - {broker.id}:
                    world.wake(("shrink", broker.id, replica), times.keep_in_sync)
        elif broker.id in world.store.registered and world.store.leader != NOBODY:
            world.wake(("expire", broker.id), times.session)
    for producer in world.producers:
        world.wake(("produce", producer.id), times.produce)
