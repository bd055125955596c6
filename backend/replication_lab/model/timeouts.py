"""Causes of timeouts: in a patient world a timeout needs a cause that the story shows.

Without a clock any time may pass, so a story could end a wait that nothing delayed.
"""

from __future__ import annotations

from collections.abc import Iterable

from backend.replication_lab.model.messages import ProduceRequest, sent_by
from backend.replication_lab.model.state import Broker, Producer, Role
from backend.replication_lab.model.world import World


def follower_is_delayed(world: World, leader: Broker, replica: int) -> bool:
    """Tell whether a follower is down, paused, unreachable, slow, or not following this leader in this epoch."""
    follower = world.brokers[replica]
    if not follower.alive or follower.paused or follower.slow or follower.slow_disk:
        return True
    follows = follower.role is Role.FOLLOWER and follower.partition.leader == leader.id
    return not follows or follower.partition.epoch != leader.partition.epoch or world.is_cut(leader.id, replica)


def any_is_delayed(world: World, leader: Broker, replicas: Iterable[int], end: int) -> bool:
    """Tell whether a replica that lacks this end offset is delayed, or has several fetches to go."""
    leo, most = leader.partition.leo, world.configuration.most_fetched
    behind = [each for each in replicas if each != leader.id and leo.get(each, 0) < end]
    return any(leo.get(each, 0) + most < end or follower_is_delayed(world, leader, each) for each in behind)


def answer_is_delayed(world: World, producer: Producer) -> bool:
    """Tell whether no message is about to arrive, and no working leader is about to commit the record."""
    end = sent_by(producer.id)
    for (sender, receiver), messages in world.channels.items():
        if receiver == end:
            return False
        if sender == end and _serves(world, receiver) and any(_is_of(producer, each) for each in messages):
            return False
    for broker in world.brokers.values():
        partition = broker.partition
        waiting = [each.offset for each in partition.commit_q if _is_of(producer, each.request)]
        if waiting and _serves(world, broker.id):
            return any_is_delayed(world, broker, partition.isr, max(waiting))
    return True


def _serves(world: World, broker: int) -> bool:
    return world.brokers[broker].alive and not world.brokers[broker].paused


def _is_of(producer: Producer, message: object) -> bool:
    return isinstance(message, ProduceRequest) and message.number == producer.number
