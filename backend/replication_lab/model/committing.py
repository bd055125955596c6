"""Commits at the leader: the committer thread with its callees, and its fix, a HW that rises with fetches."""

from __future__ import annotations

from backend.replication_lab.model.answers import acknowledge, step_down
from backend.replication_lab.model.isr import all_accounted_for, write_isr
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import OffByOne
from backend.replication_lab.model.state import Broker, Role
from backend.replication_lab.model.store import Request
from backend.replication_lab.model.timeouts import follower_is_delayed
from backend.replication_lab.model.world import World


def committer_thread(world: World, leader: Broker, *, late: bool = False) -> bool:
    """Committer thread for partition p, one turn: process the request at the head of the commitQ.

    Until every replica in the ISR has reached its offset, the turn ends and is taken again. `late` says that
    KeepInSyncTime has passed for the replica that is waited for, which then leaves the ISR. The block's order is
    kept: CUR, reassigned replicas, load balancing (either may stop this thread), and only then HW and
    acknowledgement. Fix: there is no such thread; `advance_hw` does its work with each fetch.
    """
    partition = leader.partition
    if leader.role is not Role.LEADER or not partition.commit_q or world.rules.judges_by_progress:
        return False
    pending = partition.commit_q[0]
    behind = first_behind(world, leader)
    if behind is not None:
        if not late:
            return False
        left = write_isr(world, leader, partition.isr - {behind}, partition.cur | {behind})
        _wait_for_head(world, leader)
        return left
    for replica in sorted(partition.cur):
        if partition.leo.get(replica, 0) < pending.offset:
            continue
        if not write_isr(world, leader, partition.isr | {replica}, partition.cur - {replica}):
            world.wake(("commit", leader.id), 10 * world.configuration.times.fetch)  # waits for the store
            return False
    all_accounted_for(world, leader)
    if check_reassigned_replicas(world, leader, pending.offset) or check_load_balancing(world, leader):
        return True
    if world.rules.committer_sets_leader_hw:
        leader.set_hw(pending.offset)
    elif len(partition.isr) > 1:
        last = max(partition.isr - {leader.id})
        partition.leo[last] = max(partition.leo.get(last, 0), pending.offset)  # r.hw of a copy that is never read
    partition.commit_q = partition.commit_q[1:]
    if pending.request.acks_all:
        acknowledge(world, leader, pending.request, pending.first, pending.offset)
    _wait_for_head(world, leader)
    return True


def first_behind(world: World, leader: Broker) -> int | None:
    """Return the first follower in the ISR that has not reached the offset at the head of the commitQ."""
    partition = leader.partition
    followers = sorted(partition.isr - {leader.id})
    offset = partition.commit_q[0].offset
    return next((each for each in followers if not offset_reached(world, leader, each, offset)), None)


def _wait_for_head(world: World, leader: Broker) -> None:
    """Schedule the committer's next turn, and the end of KeepInSyncTime for the replica that it waits for."""
    queue = leader.partition.commit_q
    if queue:
        world.wake(("commit", leader.id), 0)
        world.wake(
            ("late", leader.id, queue[0].offset, len(leader.partition.isr)), world.configuration.times.keep_in_sync
        )


def offset_reached(world: World, leader: Broker, replica: int, offset: int) -> bool:
    """offsetReached(r, offset): tell whether a replica has reached an offset.

    It does not wait: the committer takes another turn, and knows when it has waited long enough.
    """
    leo = leader.partition.leo.get(replica, 0)
    return leo + (world.rules.off_by_one is OffByOne.REACHED) >= offset


def check_load_balancing(world: World, leader: Broker) -> bool:
    """checkLoadBalancing(): yield to the preferred replica if it is in sync; return True if the thread stops."""
    store, partition = world.store, leader.partition
    preferred = partition.ar[0] if partition.ar else leader.id
    if not world.configuration.gives_way:
        return False
    if leader.id == preferred or preferred not in partition.isr or not world.sees_store(leader):
        return False
    if world.rules.compare_and_set and store.leader != leader.id:
        return False
    store.leader = NOBODY
    step_down(world, leader)
    leader.checkpoints = False
    world.leader_changed()
    return True


def check_reassigned_replicas(world: World, leader: Broker, offset: int) -> bool:
    """checkReassignedReplicas(pr, RAR, ISR): hand over to the new replicas once all have reached the offset.

    Return True if the thread stops. Fix: they must be in sync, ISR and replicas change in one write that is
    conditional on the known version, and the leader stays if it is one of them.
    """
    store, rules, partition = world.store, world.rules, leader.partition
    rar = partition.rar
    if not rar or not world.sees_store(leader):
        return False
    leo = partition.leo
    if not all(each == leader.id or leo.get(each, 0) >= offset for each in rar):
        return False
    if rules.compare_and_set:
        if not partition.isr.issuperset(rar) or not write_isr(world, leader, partition.isr & frozenset(rar)):
            return False
    else:
        partition.isr |= frozenset(rar)
        store.write_isr(partition.isr, frozenset())
    for gone in set(store.replicas) - set(rar):
        world.request(gone, Request.REPLICA_UNASSIGNED)
    store.replicas, store.reassigned = rar, ()
    partition.ar, partition.rar = rar, ()
    partition.cur = frozenset(rar) - partition.isr
    if rules.compare_and_set and leader.id in rar:
        advance_hw(world, leader)  # fewer replicas are waited for
        return False
    store.leader = NOBODY
    step_down(world, leader)
    world.leader_changed()
    return True


def advance_hw(world: World, leader: Broker) -> None:
    """Fix: set the HW to what all replicas in the ISR have, and acknowledge the requests below it.

    With fewer than min.insync.replicas in the ISR nothing is committed (KIP-966).
    """
    partition, log = leader.partition, leader.log
    rules, isr = world.rules, partition.isr
    if not (rules.min_isr_at_commit and len(isr) < world.configuration.min_isr):
        hw = len(log)
        leo = partition.leo
        for replica in isr:
            if replica != leader.id:
                reached = leo.get(replica, 0)
                if reached < hw:
                    hw = reached
        if hw > leader.hw:
            leader.set_hw(hw)
            while partition.commit_q and partition.commit_q[0].offset <= hw:
                pending = partition.commit_q[0]
                partition.commit_q = partition.commit_q[1:]
                if pending.request.acks_all:
                    acknowledge(world, leader, pending.request, pending.first, pending.offset)
    if partition.rar and check_reassigned_replicas(world, leader, leader.hw):
        return
    if leader.id != partition.ar[0] and not partition.commit_q and _preferred_has_all(leader):
        check_load_balancing(world, leader)


def _preferred_has_all(leader: Broker) -> bool:
    """Tell whether the preferred replica has everything, so that nothing would have to be resent if it led."""
    return leader.partition.leo.get(leader.partition.ar[0], 0) >= len(leader.log) == leader.hw


def drop_if_late(world: World, leader: Broker, replica: int) -> bool:
    """Fix: drop a follower that has not been caught up for KeepInSyncTime, with or without traffic."""
    partition, now = leader.partition, world.now
    if leader.role is not Role.LEADER or replica not in partition.isr or not world.rules.judges_by_progress:
        return False
    times = world.configuration.times
    since = partition.caught_up_at.get(replica, 0.0)
    if world.timed and now - since < times.keep_in_sync:
        world.wake(("shrink", leader.id, replica), since + times.keep_in_sync - now)
        return False
    if partition.leo.get(replica, 0) >= len(leader.log) and not follower_is_delayed(world, leader, replica):
        # It has everything, and its next fetch is under way: by the clock as in a story, which has no clock.
        world.wake(("shrink", leader.id, replica), times.fetch * 10)
        return False
    return drop_follower(world, leader, replica)


def drop_follower(world: World, leader: Broker, replica: int) -> bool:
    """Remove a follower from the ISR and commit what waited only for it."""
    if not write_isr(world, leader, leader.partition.isr - {replica}):
        world.wake(("shrink", leader.id, replica), world.configuration.times.fetch * 10)
        return False
    advance_hw(world, leader)
    return True
