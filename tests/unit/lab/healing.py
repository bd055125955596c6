"""Heal all faults of a world, and wake everything that may be waiting: the partition must recover from there."""

from __future__ import annotations

from backend.replication_lab.model.state import Broker
from backend.replication_lab.model.world import World
from backend.replication_lab.runs.timed import Clock


def heal(clock: Clock) -> None:
    """Let producers wait for their answers, and send no more."""
    world, times = clock.world, clock.world.configuration.times
    for pair in sorted(world.cuts):
        clock.take(("heal", *pair))
    for broker in world.brokers.values():
        clock.take(("resume", broker.id))
        clock.take(("restart", broker.id))
        clock.take(("fast", broker.id))
        wake_threads(world, broker)
        world.wake(("checkpoint", broker.id), times.checkpoint)
    for sender, receiver in list(world.channels):
        for _ in world.channels[sender, receiver]:
            world.wake(("deliver", sender, receiver), times.network)
    for producer in world.producers:
        producer.left = 1 if producer.waits else 0
        world.wake(("timeout", producer.id, producer.number, producer.attempt), times.request)


def wake_threads(world: World, broker: Broker) -> None:
    """Make everything that the broker may have to do due: there was no clock to know when it is."""
    for (sender, receiver), messages in list(world.channels.items()):
        if receiver == broker.id:
            for _ in messages:
                world.wake(("deliver", sender, receiver), 0)
    network = world.configuration.times.network
    for action in ("notice", "request", "elect", "lead_anyway", "fetch", "commit"):
        world.wake((action, broker.id), network)
    partition = broker.partition
    if partition.commit_q:
        world.wake(("late", broker.id, partition.commit_q[0].offset, len(partition.isr)), network)
    for replica in partition.isr - {broker.id}:
        world.wake(("shrink", broker.id, replica), network)
