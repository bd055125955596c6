"""All that can happen in one step, by name; `perform` does it and checks the invariants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from backend.replication_lab import faults
from backend.replication_lab.checking import after_step
from backend.replication_lab.committing import committer_thread, follower_is_late, waited_for
from backend.replication_lab.fetching import epoch_end, replica_fetch
from backend.replication_lab.following import fetched, replica_fetcher_thread, truncate_to_leader
from backend.replication_lab.leading import become_leader, has_everyone, leader_election
from backend.replication_lab.messages import (
    EpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
    sent_by,
)
from backend.replication_lab.network import answer_lost, lost, take
from backend.replication_lab.patience import answer_is_held_up, follower_is_held_up, somebody_is_held_up
from backend.replication_lab.producing import answered, begin_anew, produce, produce_request_handler, time_is_over
from backend.replication_lab.startup import hw_checkpoint_thread, notice, session_is_over, state_change_listener
from backend.replication_lab.state import Broker, Fetcher, Role
from backend.replication_lab.world import Action, World

Handler = Callable[..., bool]


_AT_LEADER: Mapping[type, Handler] = MappingProxyType(
    {FetchRequest: replica_fetch, EpochRequest: epoch_end, ProduceRequest: produce_request_handler}
)
_AT_FOLLOWER: Mapping[type, Handler] = MappingProxyType(
    {FetchResponse: fetched, EpochResponse: truncate_to_leader}
)


def deliver(world: World, sender: int, receiver: int) -> bool:
    """The oldest message from one to the other arrives, or is lost if the other is gone or out of reach."""
    if receiver > 0 and world.brokers[receiver].paused:
        return False  # it stays in the socket until the broker goes on
    message = take(world, sender, receiver)
    if message is None:
        return False
    if receiver < 0:
        if not isinstance(message, ProduceResponse):
            return False
        return answered(world, world.producers[sent_by(receiver)], message) or True
    broker = world.brokers[receiver]
    kind, comes_through = type(message), not world.is_cut(sender, receiver)
    if kind in _AT_LEADER:
        if broker.alive and comes_through:
            return _AT_LEADER[kind](world, broker, message)
        lost(world, message)
    elif not comes_through:
        answer_lost(world, receiver)
    elif broker.alive:
        _AT_FOLLOWER[kind](world, broker, message)
    return True


def _on_broker(handler: Callable[[World, Broker], bool]) -> Handler:
    """A step of one broker, which is not taken while that is gone or paused."""

    def step(world: World, broker_id: int, *_rest: int) -> bool:
        broker = world.brokers[broker_id]
        return broker.alive and not broker.paused and handler(world, broker)

    return step


def _of_thread(handler: Callable[[World, Broker], bool]) -> Handler:
    """A step of one broker at the end of a wait, which is none if the clock measured it for an earlier one."""
    step = _on_broker(handler)

    def measured(world: World, broker_id: int, thread: int | None = None) -> bool:
        is_stale = world.timed and thread not in (None, world.brokers[broker_id].thread)
        return not is_stale and step(world, broker_id)

    return measured


def _elect(world: World, broker: Broker) -> bool:
    return leader_election(world, broker, waited=True)


def _lead(world: World, broker: Broker) -> bool:
    return has_everyone(world, broker) and _end_of_wait(world, broker)


def _end_of_wait(world: World, broker: Broker) -> bool:
    return become_leader(world, broker, broker.partition.isr, broker.partition.ar, waited=True)


def _lead_anyway(world: World, broker: Broker) -> bool:
    if world.patient and not has_everyone(world, broker):
        expected = [each for each in broker.partition.ar if each in world.store.registered]
        if not somebody_is_held_up(world, broker, expected, broker.hw):
            return False
    return _end_of_wait(world, broker)


def _late(world: World, broker_id: int, offset: int, in_sync: int) -> bool:
    """KeepInSyncTime has passed; the request that waits and the ISR are still those that it was measured for.

    Without a clock nothing was measured: it may have passed for the request that waits now.
    """
    broker = world.brokers[broker_id]
    partition = broker.partition
    if not broker.alive or broker.paused or not partition.commit_q:
        return False
    if world.timed and (partition.commit_q[0].offset, len(partition.isr)) != (offset, in_sync):
        return False
    if world.patient:
        behind = waited_for(world, broker)
        if behind is None or not follower_is_held_up(world, broker, behind):
            return False
    return committer_thread(world, broker, late=True)


def _shrink(world: World, broker_id: int, replica: int) -> bool:
    broker = world.brokers[broker_id]
    if world.patient and not follower_is_held_up(world, broker, replica):
        return False
    return broker.alive and not broker.paused and follower_is_late(world, broker, replica)


def _time_out(world: World, producer_id: int, number: int, attempt: int) -> bool:
    producer = world.producers[producer_id]
    if world.patient and not answer_is_held_up(world, producer):
        return False
    return time_is_over(world, producer, number, attempt)


HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "deliver": deliver,
        "fetch": _on_broker(replica_fetcher_thread),
        "commit": _on_broker(committer_thread),
        "late": _late,
        "shrink": _shrink,
        "checkpoint": _on_broker(hw_checkpoint_thread),
        "notice": _on_broker(notice),
        "request": _on_broker(state_change_listener),
        "elect": _of_thread(_elect),
        "lead": _on_broker(_lead),
        "lead_anyway": _of_thread(_lead_anyway),
        "expire": lambda world, broker: session_is_over(world, world.brokers[broker]),
        "produce": lambda world, producer: produce(world, world.producers[producer]),
        "timeout": _time_out,
        "begin_anew": lambda world, producer: begin_anew(world, world.producers[producer]),
        **faults.HANDLERS,
    }
)
"""By name of the action. Each gives False where there was nothing to do: then it was no step."""


def perform(world: World, action: Action) -> bool:
    """Take one step, if there is anything to do, and check the invariants.

    Raises:
        KeyError: there is no such action, broker or producer.
    """
    name, *whom = action
    done = HANDLERS[name](world, *whom)  # type: ignore[index]
    if world.direct:
        _answer_at_once(world)
    if done and world.history.violated is None:
        after_step(world)
    return done


def _answer_at_once(world: World) -> None:
    while True:
        while (arriving := _arriving(world)) is not None:
            deliver(world, *arriving)
        if not (world.prompt and _all_go_on(world)):
            return


def _arriving(world: World) -> tuple[int, int] | None:
    """A connection with a message; what is under way to a broker that stands still stays there."""
    return next((each for each in world.channels if each[1] < 0 or not world.brokers[each[1]].paused), None)


def _all_go_on(world: World) -> bool:
    """True if any of them did."""
    went_on = False
    for broker in world.brokers.values():
        went_on |= _go_on(world, broker)
    return went_on


def _go_on(world: World, broker: Broker) -> bool:
    """What is over in the step that begins it."""
    if broker.role is Role.STANDING:
        return leader_election(world, broker, waited=True)
    return (
        broker.fetcher is Fetcher.ASKS
        and broker.alive
        and _can_ask(world, broker)
        and replica_fetcher_thread(world, broker)
    )


def _can_ask(world: World, broker: Broker) -> bool:
    """The leader will answer; otherwise the question is asked again as a step."""
    leader = world.brokers[broker.partition.leader]
    same = leader.partition.epoch == broker.partition.epoch or not world.rules.fenced
    return leader.alive and leader.role >= Role.BECOMING and same and not world.is_cut(leader.id, broker.id)
