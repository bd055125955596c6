"""Sending, and what a sender sees when its connection breaks."""

from __future__ import annotations

from backend.replication_lab.messages import EpochRequest, FetchRequest, Message
from backend.replication_lab.state import Broker, Fetcher
from backend.replication_lab.world import World


def post(world: World, sender: int, receiver: int, message: Message) -> None:
    """Send; messages from one to another arrive in order, as over one socket."""
    connection = (sender, receiver)
    world.channels[connection] = (*world.channels.get(connection, ()), message)
    world.wake(("deliver", sender, receiver), world.configuration.times.network)


def take(world: World, sender: int, receiver: int) -> Message | None:
    """The oldest message under way between them, which is under way no more."""
    waiting = world.channels.get((sender, receiver))
    if not waiting:
        return None
    if len(waiting) == 1:
        del world.channels[sender, receiver]
    else:
        world.channels[sender, receiver] = waiting[1:]
    return waiting[0]


def lost(world: World, message: Message) -> None:
    """A request found nobody: a follower's fetcher tries again after a while, a producer when its time is over."""
    if isinstance(message, FetchRequest | EpochRequest):
        broker = world.brokers[message.replica_id]
        if broker.incarnation == message.incarnation and broker.thread == message.thread:
            try_again(world, broker)


def answer_lost(world: World, receiver: int) -> None:
    """The answer to a follower was lost with its connection."""
    if receiver > 0 and world.brokers[receiver].alive:
        try_again(world, world.brokers[receiver])


def try_again(world: World, broker: Broker) -> None:
    """A fetcher that waits will not be answered."""
    if broker.fetcher is Fetcher.WAITS:
        broker.fetcher = Fetcher.READY
    elif broker.fetcher is Fetcher.WAITS_FOR_EPOCH:
        broker.fetcher = Fetcher.ASKS
    else:
        return
    world.wake(("fetch", broker.id), 10 * world.configuration.times.fetch)


def hang_up(world: World, broker: Broker) -> None:
    """The broker's process ends: what was under way to it has nobody to read it, and senders of requests see
    that.
    """
    for connection in [each for each in world.channels if each[1] == broker.id]:
        for message in world.channels.pop(connection):
            lost(world, message)
