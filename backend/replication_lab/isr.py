"""Writing the in-sync replicas to the store, and what holds about them there."""

from __future__ import annotations

from backend.replication_lab.history import Invariant
from backend.replication_lab.messages import NOBODY
from backend.replication_lab.state import Broker, Role
from backend.replication_lab.world import World


def write_isr(world: World, leader: Broker, isr: frozenset[int], cur: frozenset[int] | None = None) -> bool:
    """Write p.ISR (and CUR) to the store, in one step with the leader's own memory; False if it could not.

    Mend: only over the version that the leader knows (compare and set), so that one that was replaced cannot.
    Where fewer than min ISR are left, those that go stay eligible to lead: nothing is committed until they are
    back (KIP-966).
    """
    if not world.sees_store(leader):
        return False
    store, partition = world.store, leader.partition
    if world.rules.compare_and_set and (store.isr_version != partition.isr_version or store.leader != leader.id):
        refresh_isr(world, leader)
        return False
    take_isr_over(world, leader, isr, frozenset(partition.ar) - isr if cur is None else cur)
    leader.dirty.append(leader.id)
    return True


def take_isr_over(world: World, leader: Broker, isr: frozenset[int], cur: frozenset[int]) -> None:
    """Write ISR and CUR over whatever stands there, with who is eligible to lead beside them (KIP-966)."""
    store, partition = world.store, leader.partition
    partition.isr, partition.cur = isr, cur
    elr: frozenset[int] = frozenset()
    if world.rules.broker_epochs and len(isr) < world.configuration.min_isr:
        elr = (store.elr | store.isr) - isr
    store.write_isr(isr, cur, elr)
    partition.isr_version = store.isr_version
    see_promise(world)


def refresh_isr(world: World, leader: Broker) -> None:
    """A leader reads the ISR of the store again, if that still calls it the leader."""
    store, partition = world.store, leader.partition
    if store.leader == leader.id and leader.role is Role.LEADER and store.leader_epoch == partition.epoch:
        partition.isr, partition.isr_version = store.isr, store.isr_version
        partition.cur = frozenset(partition.ar) - store.isr


def see_promise(world: World) -> None:
    """The documents promise committed records "as long as there is at least one in sync replica alive, at all
    times".

    Where there is none, what is committed so far may be lost: that is expected, and named if it happens.
    """
    store, history = world.store, world.history
    in_sync = store.isr | store.elr
    if in_sync and not any(world.brokers[each].started for each in in_sync):
        history.lost_promise = len(history.committed)


def comes_back_unclean(world: World, broker: Broker) -> None:
    """Mend: who was registered before and crashed may have lost its tail, and is in sync no more (KIP-903,
    KIP-966).

    Where nobody is left, who led last is the last resort, as in Kafka; what it lost is lost. The leader hears of
    it, or all if there is none.
    """
    store = world.store
    if world.rules.broker_epochs and broker.incarnation > 1 and broker.id in store.isr | store.elr:
        isr, elr = store.isr - {broker.id}, store.elr - {broker.id}
        if not isr and not elr:
            # The last leader may have no replica any more: then nobody has more than this one.
            isr = frozenset((store.last_leader if store.last_leader in store.replicas else broker.id,))
        store.write_isr(isr, (store.cur | {broker.id}) - isr, elr)
        see_promise(world)
        if store.leader != NOBODY:
            world.notify(world.brokers[store.leader], "leader_change")
        else:
            world.leader_changed()  # who may lead now may be up already


def all_accounted_for(world: World, leader: Broker) -> None:
    """AR = ISR + CUR, as the documents say: who is in neither would never be looked at again."""
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
    """A set of brokers in words."""
    return "{" + ", ".join(str(each) for each in sorted(brokers)) + "}"


def may_lead(world: World, broker: Broker) -> bool:
    """leaderElection's condition: assigned, and in sync where anybody is; or eligible (KIP-966).

    With the mends, one that is being assigned may be in sync or eligible already, and once all others are gone
    the only one.
    With unclean election any may as soon as no session is left of one that is in sync or eligible.
    """
    store = world.store
    assigned = (*store.replicas, *store.isr, *store.elr) if world.rules.compare_and_set else store.replicas
    if broker.id not in assigned:
        return False
    clean = store.isr | store.elr
    if not clean or broker.id in clean:
        return True
    return world.configuration.unclean_election and not any(each in store.registered for each in clean)
