"""All faults of a world healed, and everything that may be waiting woken: from here on it has to settle."""

from __future__ import annotations

from backend.replication_lab.faults import wake_threads
from backend.replication_lab.timed import Clock


def heal(clock: Clock) -> None:
    """Producers wait for their answers, and send no more."""
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
