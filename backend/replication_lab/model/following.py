"""Followers: becomeFollower, and ReplicaFetcherThread with the truncation that precedes it."""

from __future__ import annotations

from backend.replication_lab.model.answers import step_down
from backend.replication_lab.model.messages import (
    NOBODY,
    UNKNOWN,
    EpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
)
from backend.replication_lab.model.network import post
from backend.replication_lab.model.rules import OffByOne, Truncation
from backend.replication_lab.model.state import Broker, Fetcher, Role
from backend.replication_lab.model.world import World

_SLOW = 400
"""Factor by which a slow follower, or a follower with a slow disk, takes longer."""


def become_follower(world: World, broker: Broker) -> bool:
    """becomeFollower(r): follow the leader in the store; return False without one, or if it is this broker.

    Fix: the log is truncated not to the HW but to where it agrees with the leader's, which is requested (KIP-101).
    """
    store, rules, partition = world.store, world.rules, broker.partition
    if store.leader in (NOBODY, broker.id):
        return False
    known = (
        broker.role is Role.FOLLOWER and partition.leader == store.leader and partition.epoch == store.leader_epoch
    )
    if known and rules.truncation is not Truncation.HW:
        return False
    step_down(world, broker)
    broker.stop_threads()
    broker.role = Role.FOLLOWER
    broker.checkpoints = True
    partition.leader, partition.epoch = store.leader, store.leader_epoch
    if rules.truncation is Truncation.HW:
        broker.truncate(max(0, broker.hw - (rules.off_by_one is OffByOne.TRUNCATED)))
        broker.fetcher = Fetcher.READY
    else:
        broker.fetcher = Fetcher.ASKS
    broker.dirty.append(broker.id)
    world.wake(("fetch", broker.id), 0)
    return True


def replica_fetcher_thread(world: World, broker: Broker) -> bool:
    """ReplicaFetcherThread, first half: send a request to the leader."""
    leader = broker.partition.leader
    if broker.fetcher is Fetcher.READY:
        broker.fetcher = Fetcher.WAITS
        epoch = broker.partition.epoch
        request = FetchRequest(broker.id, broker.incarnation, broker.thread, len(broker.log), epoch)
        post(world, broker.id, leader, request)
    elif broker.fetcher is Fetcher.ASKS:
        broker.fetcher = Fetcher.WAITS_FOR_EPOCH
        epoch = broker.partition.epoch
        asked = EpochRequest(broker.id, broker.incarnation, broker.thread, epoch, broker.last_epoch())
        post(world, broker.id, leader, asked)
    else:
        return False
    return True


def fetched(world: World, broker: Broker, response: FetchResponse) -> bool:
    """ReplicaFetcherThread, second half: append the records, adopt the leader's HW, and continue."""
    if broker.fetcher is not Fetcher.WAITS or not _is_for(broker, response):
        return False
    times = world.configuration.times
    broker.fetcher = Fetcher.READY
    records = response.records
    if records is None:
        world.wake(("fetch", broker.id), 10 * times.fetch)
        return True
    if records:
        broker.append(records)
    hw = response.hw
    if world.rules.keeps_hw:
        hw = max(broker.hw, min(hw, len(broker.log)))
    broker.set_hw(hw)
    pause = times.fetch
    if broker.slow or (records and broker.slow_disk):
        pause *= _SLOW
    elif records:
        pause = 0
    world.wake(("fetch", broker.id), pause)
    return True


def truncate_to_leader(world: World, broker: Broker, response: EpochResponse) -> bool:
    """Truncate the log to where it agrees with the leader's, as far as the answer says (KIP-101, KIP-279).

    If the leader does not know the requested epoch, its answer names a lower one. KIP-101 takes the end of that
    epoch; KIP-279 truncates to the greatest epoch that both may have, and requests again until both know it.
    """
    if broker.fetcher is not Fetcher.WAITS_FOR_EPOCH or not _is_for(broker, response):
        return False
    times = world.configuration.times
    if response.end == UNKNOWN:
        broker.fetcher = Fetcher.ASKS
        world.wake(("fetch", broker.id), 10 * times.fetch)
        return True
    broker.fetcher = Fetcher.READY
    end = response.end
    if world.rules.truncation is Truncation.EXACT and response.epoch != broker.last_epoch():
        epoch, own_end = broker.end_of_epoch(response.epoch)
        if epoch == response.epoch:
            end = min(end, own_end)
        else:
            end = own_end
            broker.fetcher = Fetcher.ASKS
    broker.truncate(end)
    broker.set_hw(min(broker.hw, len(broker.log)))
    broker.dirty.append(broker.id)
    world.wake(("fetch", broker.id), 0)
    return True


def _is_for(broker: Broker, response: FetchResponse | EpochResponse) -> bool:
    return response.incarnation == broker.incarnation and response.thread == broker.thread
