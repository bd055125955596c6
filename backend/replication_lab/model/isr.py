"""In-sync replicas in the store: conditional writes, eligible leader replicas, and AR = ISR + CUR."""

from __future__ import annotations

from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.state import Broker, Role
from backend.replication_lab.model.world import World


def write_isr(world: World, leader: Broker, isr: frozenset[int], cur: frozenset[int] | None = None) -> bool:
    """Write p.ISR (and CUR) to the store and to the leader's memory in one step; return False if it could not.

    Fix: the write is conditional on the version that the leader knows (compare and set), so that a replaced leader
    cannot write. If fewer than min.insync.replicas remain, leaving replicas stay eligible to lead: nothing is
    committed until they are back (KIP-966).
    """
    if not world.sees_store(leader):
        return False
    store, partition = world.store, leader.partition
    if world.rules.compare_and_set and (store.isr_version != partition.isr_version or store.leader != leader.id):
        refresh_isr(world, leader)
        return False
    overwrite_isr(world, leader, isr, frozenset(partition.ar) - isr if cur is None else cur)
    leader.dirty.append(leader.id)
    return True


def overwrite_isr(world: World, leader: Broker, isr: frozenset[int], cur: frozenset[int]) -> None:
    """Overwrite ISR and CUR, with the eligible leader replicas (KIP-966)."""
    store, partition = world.store, leader.partition
    partition.isr, partition.cur = isr, cur
    elr: frozenset[int] = frozenset()
    if world.rules.broker_epochs and len(isr) < world.configuration.min_isr:
        elr = (store.elr | store.isr) - isr
    store.write_isr(isr, cur, elr)
    partition.isr_version = store.isr_version
    note_possible_losses(world)


def refresh_isr(world: World, leader: Broker) -> None:
    """Read the ISR from the store again if the store still names this broker the leader."""
    store, partition = world.store, leader.partition
    if store.leader == leader.id and leader.role is Role.LEADER and store.leader_epoch == partition.epoch:
        partition.isr, partition.isr_version = store.isr, store.isr_version
        partition.cur = frozenset(partition.ar) - store.isr


def note_possible_losses(world: World) -> None:
    """Note committed records that may be lost because no in-sync replica is alive.

    The documents promise committed records "as long as there is at least one in sync replica alive, at all times".
    Where there is none, losing them is expected, and reported if it happens.
    """
    store, history = world.store, world.history
    in_sync = store.isr | store.elr
    if in_sync and not any(world.brokers[each].started for each in in_sync):
        history.lost_promise = len(history.committed)


def remove_restarted_replica(world: World, broker: Broker) -> None:
    """Fix: remove a restarted broker from ISR and ELR, since it may have lost its tail (KIP-903, KIP-966).

    If no replica remains, the last leader is the last resort, as in Kafka; what it lost is lost. The leader is
    notified, or every broker if there is none.
    """
    store = world.store
    if world.rules.broker_epochs and broker.incarnation > 1 and broker.id in store.isr | store.elr:
        isr, elr = store.isr - {broker.id}, store.elr - {broker.id}
        if not isr and not elr:
            # The last leader may have no replica any more: then this broker has as much as any other.
            isr = frozenset((store.last_leader if store.last_leader in store.replicas else broker.id,))
        store.write_isr(isr, (store.cur | {broker.id}) - isr, elr)
        note_possible_losses(world)
        if store.leader != NOBODY:
            world.notify(world.brokers[store.leader], "leader_change")
        else:
            world.leader_changed()  # a broker that may lead now may be up already


def all_accounted_for(world: World, leader: Broker) -> None:
    """Check AR = ISR + CUR, as the documents say: a replica in neither is never considered again."""
    partition = leader.partition
    forgotten = set(partition.ar) - partition.isr - partition.cur
    if forgotten:
        names = " and ".join(str(each) for each in sorted(forgotten))
        be = "is" if len(forgotten) == 1 else "are"
        world.history.violate(
            Invariant.FORGOTTEN,
            f"broker {leader.id} leads with ISR {ids(partition.isr)} and CUR {ids(partition.cur)}: "
            f"{names} {be} in neither and will never be in sync again",
        )


def ids(brokers: frozenset[int]) -> str:
    """Format a set of broker ids."""
    return "{" + ", ".join(str(each) for each in sorted(brokers)) + "}"


def may_lead(world: World, broker: Broker) -> bool:
    """Tell whether a broker may lead: leaderElection's condition.

    It must be assigned, and in sync where any replica is, or eligible (KIP-966). With the fixes, a replica that is
    being assigned may be in the ISR or ELR already, and may be the only one left. With unclean election any
    replica may lead as soon as no replica in ISR or ELR has a session.
    """
    store = world.store
    assigned = (*store.replicas, *store.isr, *store.elr) if world.rules.compare_and_set else store.replicas
    if broker.id not in assigned:
        return False
    clean = store.isr | store.elr
    if not clean or broker.id in clean:
        return True
    return world.configuration.unclean_election and not any(each in store.registered for each in clean)
