"""Broker startup, listeners and state-change requests; crashes and expired sessions."""

from __future__ import annotations

from backend.replication_lab.model.answers import step_down
from backend.replication_lab.model.committing import advance_hw
from backend.replication_lab.model.configuration import LEAST_OF_A_WAIT
from backend.replication_lab.model.following import become_follower
from backend.replication_lab.model.isr import note_possible_losses, refresh_isr, remove_restarted_replica
from backend.replication_lab.model.leading import leader_election
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.network import hang_up
from backend.replication_lab.model.state import Broker, Partition, Role
from backend.replication_lab.model.store import Request
from backend.replication_lab.model.world import World


def broker_startup(world: World, broker: Broker) -> bool:
    """brokerStartup(): register, find the replicas, listen for requests, and open the assigned replica.

    A broker that does not reach the store waits for it. An existing leader is followed at once (High-level Design,
    "Follower failure"), since its election calls no listener any more.
    """
    if broker.alive:
        return False
    broker.alive = True
    broker.incarnation += 1
    world.wake(("checkpoint", broker.id), world.configuration.times.checkpoint)
    if world.sees_store(broker):
        _register(world, broker)
    else:
        world.notify(broker, "startup")
    return True


def _register(world: World, broker: Broker) -> None:
    """Register in the store. The last session ends first: its ephemeral nodes are in the way."""
    end_session(world, broker)
    world.store.registered[broker.id] = broker.incarnation
    remove_restarted_replica(world, broker)
    if world.store.deleted:
        close_replica(world, broker)
    elif broker.id in (*world.store.replicas, *world.store.reassigned):
        broker.partition.ar = world.store.replicas
        replica_state_change(world, broker)
        if world.store.leader != NOBODY:
            become_follower(world, broker)
    world.wake(("request", broker.id), world.configuration.times.network)


def state_change_listener(world: World, broker: Broker) -> bool:
    """stateChangeListener(r): read the next request and execute it."""
    if not world.sees_store(broker):
        return False
    request = world.store.take_request(broker.id)
    if request is None:
        return False
    if broker.id in world.store.requests:
        world.wake(("request", broker.id), world.configuration.times.network)
    if request is Request.BECOME_FOLLOWER:
        if broker.started:
            become_follower(world, broker)
    elif request is Request.REPLICA_UNASSIGNED:
        if broker.id not in (*world.store.replicas, *world.store.reassigned):  # it may be assigned again by now
            close_replica(world, broker)
    elif request is Request.DELETE_REPLICA:
        close_replica(world, broker)
    else:
        replica_state_change(world, broker)
        become_follower(world, broker)
    return True


def replica_state_change(world: World, broker: Broker) -> bool:
    """replicaStateChange(r): open the log with the checkpointed HW or its end; elect a leader if needed."""
    if not broker.started:
        broker.hw = min(broker.checkpoint, len(broker.log))
        broker.started = True
        broker.dirty.append(broker.id)
    if world.store.leader == NOBODY:
        return leader_election(world, broker)
    return True


def close_replica(world: World, broker: Broker) -> bool:
    """closeReplica(r): stop the fetcher, close the log and delete it.

    This is deleteReplica(r) as well, which the document calls and does not define: by its heading, closeReplica
    "is requested by the leader when a topic is deleted".
    """
    step_down(world, broker)
    broker.stop_threads()
    broker.started = broker.checkpoints = False
    broker.partition = Partition()
    broker.truncate(0)
    broker.hw = broker.checkpoint = broker.flushed = 0
    return True


def leader_change_event(world: World, broker: Broker) -> bool:
    """Leader-change listener, whose section in the document is empty: High-level Design, "Leader failure", 1 to 3.

    Without a leader, stand for election; with another leader, follow it. A leader is notified of its own node,
    too, and may find that another broker changed the ISR.
    """
    store = world.store
    if store.deleted:
        replica_change_listener(world, broker)
        return True
    if not broker.started:
        return False
    if store.leader == broker.id:
        if broker.role is Role.LEADER and store.leader_epoch == broker.partition.epoch:
            if world.rules.compare_and_set:
                refresh_isr(world, broker)
            return True
        return False
    if store.leader == NOBODY:
        if broker.role >= Role.BECOMING:
            step_down(world, broker)
        if broker.role is not Role.STANDING:
            leader_election(world, broker)
        return True
    return become_follower(world, broker)


def notice(world: World, broker: Broker) -> bool:
    """Call the next due listener. A broker whose session was lost registers again first."""
    if not broker.notices or not world.sees_store(broker):
        return False
    listener, broker.notices = broker.notices[0], broker.notices[1:]
    if broker.notices:
        world.wake(("notice", broker.id), world.configuration.times.network)
    if listener == "startup":
        _register(world, broker)
        return True
    if listener == "session_lost":
        world.store.registered[broker.id] = broker.incarnation
        if broker.id in world.store.requests:
            world.wake(("request", broker.id), world.configuration.times.network)
    if listener == "replica_change":
        replica_change_listener(world, broker)
    elif listener == "partition_reassigned":
        partition_reassigned_listener(world, broker)
    else:
        leader_change_event(world, broker)
    return True


def replica_change_listener(world: World, broker: Broker) -> None:
    """Replica-change listener, on the leader: delete the replicas of a deleted topic, this one last.

    If the leader is gone as well, each broker that is notified deletes its own replica.
    """
    if not world.store.deleted:
        return
    if broker.role is Role.LEADER:
        for replica in (*broker.partition.ar, *broker.partition.rar):
            if replica != broker.id:
                world.request(replica, Request.DELETE_REPLICA)
    close_replica(world, broker)
    if world.store.leader == broker.id:
        world.store.leader = NOBODY


def partition_reassigned_listener(world: World, leader: Broker) -> None:
    """Partition-reassigned listener, on the leader: adopt the new replicas, and have them opened."""
    if leader.role is Role.LEADER:
        leader.partition.rar = world.store.reassigned
        for replica in leader.partition.rar:
            if replica not in leader.partition.ar:
                world.request(replica, Request.REPLICA_ASSIGNED)
        if world.rules.judges_by_progress:
            advance_hw(world, leader)  # all may be in sync already, without a fetch to come


def end_session(world: World, broker: Broker) -> bool:
    """End a broker's session: its ephemeral nodes go, and leader-change listeners are called if it led."""
    store = world.store
    if broker.id not in store.registered:
        return False
    is_of_this_life = store.registered.pop(broker.id) == broker.incarnation
    if store.leader == broker.id:
        store.leader = NOBODY
        world.leader_changed(by=broker.id)
    if broker.alive and is_of_this_life:
        world.notify(broker, "session_lost")
    return True


def is_silent(world: World, broker: Broker) -> bool:
    """Tell whether the store receives no heartbeats of a broker."""
    return not broker.alive or broker.paused or not world.sees_store(broker)


def start_session_timeout(world: World, broker: Broker) -> None:
    """Start the session timeout of a broker whose heartbeats stop now."""
    if not is_silent(world, broker):
        broker.silent_since = world.now
    world.wake(("expire", broker.id), world.configuration.times.session)


def expire_session(world: World, broker: Broker) -> bool:
    """End a session that has timed out; without a clock after any time."""
    if not is_silent(world, broker):
        return False
    heard = world.timed and world.now - broker.silent_since < world.configuration.times.session * LEAST_OF_A_WAIT
    return not heard and end_session(world, broker)


def crash(world: World, broker: Broker, *, loses_tail: bool = False) -> bool:
    """Crash a broker: its memory is lost, and with `loses_tail` also what was not flushed.

    Requests in its commitQ stay unanswered, which a crashed leader cannot help.
    """
    if not broker.alive:
        return False
    start_session_timeout(world, broker)
    broker.alive = False
    broker.paused = False
    broker.notices = ()
    broker.started = broker.checkpoints = False
    broker.role = Role.NONE
    broker.stop_threads()
    broker.partition = Partition()
    hang_up(world, broker)
    if loses_tail:
        broker.truncate(broker.flushed)
    note_possible_losses(world)
    return True


def hw_checkpoint_thread(world: World, broker: Broker) -> bool:
    """HW checkpoint thread: flush r.hw and r.log to disk."""
    world.wake(("checkpoint", broker.id), world.configuration.times.checkpoint * (8 if broker.slow_disk else 1))
    if not broker.checkpoints or (broker.checkpoint == broker.hw and broker.flushed == len(broker.log)):
        return False
    broker.checkpoint = broker.hw
    broker.flushed = len(broker.log)
    return True
