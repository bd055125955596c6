"""Delivery of messages, and what a sender observes when its connection breaks."""

from __future__ import annotations

from backend.replication_lab.model.messages import EpochRequest, FetchRequest, Message
from backend.replication_lab.model.state import Broker, Fetcher
from backend.replication_lab.model.world import World


def post(world: World, sender: int, receiver: int, message: Message) -> None:
    """Send a message; messages on one connection arrive in order, as over a socket."""
    connection = (sender, receiver)
    world.channels[connection] = (*world.channels.get(connection, ()), message)
    world.wake(("deliver", sender, receiver), world.configuration.times.network)


def take(world: World, sender: int, receiver: int) -> Message | None:
    """Remove and return the oldest message under way on a connection."""
    waiting = world.channels.get((sender, receiver))
    if not waiting:
        return None
    if len(waiting) == 1:
        del world.channels[sender, receiver]
    else:
        world.channels[sender, receiver] = waiting[1:]
    return waiting[0]


def drop_request(world: World, message: Message) -> None:
    """Drop a request without a receiver: a fetcher retries after a while, a producer after its timeout."""
    if isinstance(message, FetchRequest | EpochRequest):
        broker = world.brokers[message.replica_id]
        if broker.incarnation == message.incarnation and broker.thread == message.thread:
            retry_fetch(world, broker)


def drop_answer(world: World, receiver: int) -> None:
    """Drop the answer to a follower, whose connection broke."""
    if receiver > 0 and world.brokers[receiver].alive:
        retry_fetch(world, world.brokers[receiver])


def retry_fetch(world: World, broker: Broker) -> None:
    """Let a fetcher that waits for an answer retry."""
    if broker.fetcher is Fetcher.WAITS:
        broker.fetcher = Fetcher.READY
    elif broker.fetcher is Fetcher.WAITS_FOR_EPOCH:
        broker.fetcher = Fetcher.ASKS
    else:
        return
    world.wake(("fetch", broker.id), 10 * world.configuration.times.fetch)


def hang_up(world: World, broker: Broker) -> None:
    """Close a broker's connections: messages to it are lost, and senders of requests notice."""
    for connection in [each for each in world.channels if each[1] == broker.id]:
        for message in world.channels.pop(connection):
            drop_request(world, message)
