"""Followers' requests at the leader: replicaFetch, and OffsetForLeaderEpoch, which KIP-101 adds."""

from __future__ import annotations

from backend.replication_lab.model.committing import advance_hw
from backend.replication_lab.model.isr import write_isr
from backend.replication_lab.model.leading import lead_if_caught_up
from backend.replication_lab.model.messages import (
    UNKNOWN,
    EpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
)
from backend.replication_lab.model.network import post
from backend.replication_lab.model.state import Broker, Role
from backend.replication_lab.model.world import World


def replica_fetch(world: World, leader: Broker, request: FetchRequest) -> bool:
    """replicaFetch(f), the handler at the leader: answer a fetch.

    A broker that is still becoming leader answers too, or no follower could catch up. Fix: a request in another
    leader epoch is refused (KIP-320).
    """
    replica, incarnation, thread, offset, epoch = request
    partition = leader.partition
    if leader.role < Role.BECOMING or (world.rules.fenced and epoch != partition.epoch):
        post(world, leader.id, replica, FetchResponse(incarnation, thread, 0, None))
        return True
    partition.leo[replica] = offset
    log = leader.log
    end = len(log)
    records = tuple(log[offset : offset + world.configuration.most_fetched]) if offset < end else ()
    post(world, leader.id, replica, FetchResponse(incarnation, thread, leader.hw, records))
    if leader.role is Role.BECOMING:
        lead_if_caught_up(world, leader)
    elif world.rules.judges_by_progress:
        _judge(world, leader, request)
    elif partition.commit_q:
        world.wake(("commit", leader.id), 0)
    return True


def _judge(world: World, leader: Broker, request: FetchRequest) -> None:
    """Apply a follower's progress: it may rejoin the ISR, and the HW may rise.

    A follower rejoins when it has everything committed, including records of earlier epochs that this leader's own
    HW does not cover yet. With broker epochs only the currently registered broker rejoins (KIP-903).
    """
    partition, replica, offset = leader.partition, request.replica_id, request.offset
    if offset >= len(leader.log):
        partition.caught_up_at[replica] = world.now
    is_back = (
        replica not in partition.isr
        and offset >= leader.hw
        and offset >= partition.epoch_start
        and replica in (*partition.ar, *partition.rar)
    )
    if is_back and _is_registered(world, request) and write_isr(world, leader, partition.isr | {replica}):
        # KeepInSyncTime starts again for it; the timer that watched it stopped when it left the ISR.
        partition.caught_up_at[replica] = world.now
        world.wake(("shrink", leader.id, replica), world.configuration.times.keep_in_sync)
    advance_hw(world, leader)


def _is_registered(world: World, request: FetchRequest) -> bool:
    """Tell whether the requesting follower is the broker that is registered in the store."""
    registered = world.store.registered.get(request.replica_id)
    return registered is not None and (not world.rules.broker_epochs or registered == request.incarnation)


def epoch_end(world: World, leader: Broker, request: EpochRequest) -> bool:
    """Answer OffsetForLeaderEpoch: the greatest epoch up to the requested one, and its end offset (KIP-101)."""
    replica, incarnation, thread, epoch, asked = request
    refused = leader.role < Role.BECOMING or (world.rules.fenced and epoch != leader.partition.epoch)
    found, end = (0, UNKNOWN) if refused else leader.end_of_epoch(asked)
    post(world, leader.id, replica, EpochResponse(incarnation, thread, found, end))
    return True
