"""Leaders: leaderElection and becomeLeader."""

from __future__ import annotations

from backend.replication_lab.model.committing import advance_hw
from backend.replication_lab.model.isr import all_accounted_for, may_lead, note_possible_losses, overwrite_isr
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import NewLeaderHw, Truncation
from backend.replication_lab.model.state import Broker, Role
from backend.replication_lab.model.store import Request
from backend.replication_lab.model.world import World


def leader_election(world: World, broker: Broker, *, waited: bool = False) -> bool:
    """leaderElection(r): stand for election if in sync (or if no replica is), wait, then write the leader's node.

    The step at the end of the wait has `waited` set. ISR and AR are those read before the wait. Fix: the write is
    conditional on the ISR that was read and has the next leader epoch, and unregistered brokers leave the ISR.
    """
    store, partition = world.store, broker.partition
    if not waited:
        if store.leader != NOBODY or not may_lead(world, broker) or not world.sees_store(broker):
            return False
        partition.ar, partition.isr, partition.cur = store.replicas, store.isr, store.cur
        partition.isr_version = store.isr_version
        broker.role = Role.STANDING
        broker.stop_threads()
        world.wake(("elect", broker.id, broker.thread), _election_wait(world, broker))
        return True
    if broker.role is not Role.STANDING:
        return False
    registered = store.registered.get(broker.id) == broker.incarnation
    if store.leader != NOBODY or not registered or not world.sees_store(broker):
        broker.role = Role.NONE
        if not registered:
            world.notify(broker, "session_lost")
        return True
    if world.rules.compare_and_set and store.isr_version != partition.isr_version:
        broker.role = Role.NONE
        return leader_election(world, broker)
    store.leader = store.last_leader = broker.id
    if world.rules.has_epochs:
        store.leader_epoch += 1
    if broker.id not in store.isr | store.elr:  # unclean: replicas with all committed records have to follow now
        store.isr = store.elr = frozenset()
        if world.configuration.unclean_election:  # the store and ADS count a broker without a session as gone
            world.history.elected_unclean(store.leader_epoch)
    if world.rules.compare_and_set:  # an unregistered broker is not in sync any more
        isr = frozenset(each for each in store.isr if each in store.registered) | {broker.id}
        overwrite_isr(world, broker, isr, frozenset(store.replicas) - isr)
    passed = partition.ar if world.rules.passes_ar else tuple(sorted(partition.cur))
    return become_leader(world, broker, partition.isr, passed)


def _election_wait(world: World, broker: Broker) -> float:
    """Return PreferredReplicaTime for all but the preferred replica.

    In the other reading, only a replica that sees a higher HW in the ISR waits.
    """
    preferred = world.store.replicas[0] == broker.id
    if world.rules.yields_to_higher_hw:
        in_sync = [each for id_, each in world.brokers.items() if id_ in world.store.isr and each.alive]
        behind = any(each.hw > broker.hw for each in in_sync if not world.is_cut(each.id, broker.id))
        return world.configuration.times.leader_election_wait if behind and not preferred else 0
    return 0 if preferred else world.configuration.times.leader_election_wait


def become_leader(
    world: World, broker: Broker, isr: frozenset[int], ar: tuple[int, ...], *, waited: bool = False
) -> bool:
    """becomeLeader(r, ISR, AR): wait until the live replicas in AR have caught up, then serve clients.

    The step at the end of the wait has `waited` set; it writes the ISR. Fix: there is no wait, since no replica
    leaves the ISR by it and the HW stays as it was; records above it are committed once all in the ISR have
    fetched them in this epoch. Followers learn of their leader by the leader-change listener alone, not by a
    request as well.
    """
    partition, rules = broker.partition, world.rules
    if not waited:
        broker.checkpoints = False
        partition.isr, partition.ar, partition.leo = isr, ar, {}
        partition.leader, partition.epoch, partition.epoch_start = (
            broker.id,
            world.store.leader_epoch,
            len(broker.log),
        )
        if rules.new_leader_hw is NewLeaderHw.LEO:
            broker.set_hw(len(broker.log))
        elif rules.new_leader_hw is NewLeaderHw.CHECKPOINT:
            broker.set_hw(min(broker.checkpoint, len(broker.log)))
        broker.role = Role.BECOMING
        world.leader_changed(by=broker.id)
        if rules.new_leader_hw is not NewLeaderHw.OWN:
            world.wake(("lead_anyway", broker.id, broker.thread), world.configuration.times.keep_in_sync)
            lead_if_caught_up(world, broker)
            return True
    if broker.role is not Role.BECOMING or not world.sees_store(broker):
        return False
    if rules.new_leader_hw is not NewLeaderHw.OWN:
        in_sync = _in_sync_now(broker)
        partition.isr, partition.cur = in_sync, frozenset(partition.ar) - in_sync
        world.store.write_isr(partition.isr, partition.cur)
        partition.isr_version = world.store.isr_version
        note_possible_losses(world)
    partition.ar = world.store.replicas
    partition.rar = world.store.reassigned
    broker.role = Role.LEADER
    broker.checkpoints = True
    broker.dirty.append(broker.id)
    all_accounted_for(world, broker)
    if rules.truncation is Truncation.HW:
        for replica in (*world.store.replicas, *partition.rar):
            if replica != broker.id:
                world.request(replica, Request.BECOME_FOLLOWER)
    else:
        for replica in partition.rar:  # the listener notified a leader that is gone, or none
            if replica not in partition.ar:
                world.request(replica, Request.REPLICA_ASSIGNED)
    _start_threads(world, broker)
    return True


def _start_threads(world: World, broker: Broker) -> None:
    """Start the commit thread or, with the fix, the timers that watch followers."""
    partition = broker.partition
    if world.rules.judges_by_progress:
        for replica in partition.isr - {broker.id}:
            partition.caught_up_at[replica] = world.now
            world.wake(("shrink", broker.id, replica), world.configuration.times.keep_in_sync)
        advance_hw(world, broker)


def lead_if_caught_up(world: World, broker: Broker) -> None:
    """End becomeLeader's wait as soon as every live replica has what the new leader has."""
    if all_caught_up(world, broker):
        world.wake(("lead", broker.id), 0)


def all_caught_up(world: World, broker: Broker) -> bool:
    """Tell whether every live replica in AR has caught up with the new leader: its leo == r.hw."""
    leo, hw, registered = broker.partition.leo, broker.hw, world.store.registered
    return all(leo.get(each, -1) >= hw for each in broker.partition.ar if each != broker.id and each in registered)


def _in_sync_now(broker: Broker) -> frozenset[int]:
    """Return the replicas in sync with r, of those that were passed to becomeLeader."""
    leo = broker.partition.leo
    caught_up = [each for each in broker.partition.ar if leo.get(each, -1) >= broker.hw]
    return frozenset((broker.id, *caught_up))
