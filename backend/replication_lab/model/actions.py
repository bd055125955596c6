"""All actions of the model by name; `perform` takes one step and checks the invariants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from backend.replication_lab.model import faults
from backend.replication_lab.model.checking import after_step
from backend.replication_lab.model.committing import committer_thread, drop_if_late, first_behind
from backend.replication_lab.model.fetching import epoch_end, replica_fetch
from backend.replication_lab.model.following import fetched, replica_fetcher_thread, truncate_to_leader
from backend.replication_lab.model.leading import all_caught_up, become_leader, leader_election
from backend.replication_lab.model.messages import (
    EpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
    sent_by,
)
from backend.replication_lab.model.network import drop_answer, drop_request, take
from backend.replication_lab.model.producing import (
    begin_anew,
    produce,
    produce_request_handler,
    receive_answer,
    retry_timed_out,
)
from backend.replication_lab.model.startup import (
    expire_session,
    hw_checkpoint_thread,
    notice,
    state_change_listener,
)
from backend.replication_lab.model.state import Broker, Fetcher, Role
from backend.replication_lab.model.timeouts import answer_is_delayed, any_is_delayed, follower_is_delayed
from backend.replication_lab.model.world import Action, World

Handler = Callable[..., bool]


_AT_LEADER: Mapping[type, Handler] = MappingProxyType(
    {FetchRequest: replica_fetch, EpochRequest: epoch_end, ProduceRequest: produce_request_handler}
)
_AT_FOLLOWER: Mapping[type, Handler] = MappingProxyType(
    {FetchResponse: fetched, EpochResponse: truncate_to_leader}
)


def deliver(world: World, sender: int, receiver: int) -> bool:
    """Deliver the oldest message on a connection; it is lost if the receiver is down or unreachable."""
    if receiver > 0 and world.brokers[receiver].paused:
        return False  # it stays in the socket until the broker resumes
    message = take(world, sender, receiver)
    if message is None:
        return False
    if receiver < 0:
        if not isinstance(message, ProduceResponse):
            return False
        return receive_answer(world, world.producers[sent_by(receiver)], message) or True
    broker = world.brokers[receiver]
    kind, comes_through = type(message), not world.is_cut(sender, receiver)
    if kind in _AT_LEADER:
        if broker.alive and comes_through:
            return _AT_LEADER[kind](world, broker, message)
        drop_request(world, message)
    elif not comes_through:
        drop_answer(world, receiver)
    elif broker.alive:
        _AT_FOLLOWER[kind](world, broker, message)
    return True


def _on_broker(handler: Callable[[World, Broker], bool]) -> Handler:
    """Return a step of one broker; it does nothing while the broker is down or paused."""

    def step(world: World, broker_id: int, *_rest: int) -> bool:
        broker = world.brokers[broker_id]
        return broker.alive and not broker.paused and handler(world, broker)

    return step


def _after_wait(handler: Callable[[World, Broker], bool]) -> Handler:
    """Return a step at the end of a broker's wait; it does nothing if the clock measured an earlier wait."""
    step = _on_broker(handler)

    def measured(world: World, broker_id: int, thread: int | None = None) -> bool:
        is_stale = world.timed and thread not in (None, world.brokers[broker_id].thread)
        return not is_stale and step(world, broker_id)

    return measured


def _elect(world: World, broker: Broker) -> bool:
    return leader_election(world, broker, waited=True)


def _lead(world: World, broker: Broker) -> bool:
    return all_caught_up(world, broker) and _finish_leading(world, broker)


def _finish_leading(world: World, broker: Broker) -> bool:
    return become_leader(world, broker, broker.partition.isr, broker.partition.ar, waited=True)


def _lead_without_waiting(world: World, broker: Broker) -> bool:
    if world.patient and not all_caught_up(world, broker):
        expected = [each for each in broker.partition.ar if each in world.store.registered]
        if not any_is_delayed(world, broker, expected, broker.hw):
            return False
    return _finish_leading(world, broker)


def _late(world: World, broker_id: int, offset: int, in_sync: int) -> bool:
    """Take the step that follows once KeepInSyncTime has passed for the waiting request.

    Request and ISR must still be those for which the time was measured. Without a clock nothing was measured: the
    time may have passed for the request that waits now.
    """
    broker = world.brokers[broker_id]
    partition = broker.partition
    if not broker.alive or broker.paused or not partition.commit_q:
        return False
    if world.timed and (partition.commit_q[0].offset, len(partition.isr)) != (offset, in_sync):
        return False
    if world.patient:
        behind = first_behind(world, broker)
        if behind is None or not follower_is_delayed(world, broker, behind):
            return False
    return committer_thread(world, broker, late=True)


def _shrink(world: World, broker_id: int, replica: int) -> bool:
    broker = world.brokers[broker_id]
    if world.patient and not follower_is_delayed(world, broker, replica):
        return False
    return broker.alive and not broker.paused and drop_if_late(world, broker, replica)


def _time_out(world: World, producer_id: int, number: int, attempt: int) -> bool:
    producer = world.producers[producer_id]
    if world.patient and not answer_is_delayed(world, producer):
        return False
    return retry_timed_out(world, producer, number, attempt)


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
        "elect": _after_wait(_elect),
        "lead": _on_broker(_lead),
        "lead_anyway": _after_wait(_lead_without_waiting),
        "expire": lambda world, broker: expire_session(world, world.brokers[broker]),
        "produce": lambda world, producer: produce(world, world.producers[producer]),
        "timeout": _time_out,
        "begin_anew": lambda world, producer: begin_anew(world, world.producers[producer]),
        **faults.HANDLERS,
    }
)
"""Handler of each action, by name. A handler returns False if there was nothing to do: then it was no step."""


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
    """Return a connection with a message; messages to a paused broker stay under way."""
    return next((each for each in world.channels if each[1] < 0 or not world.brokers[each[1]].paused), None)


def _all_go_on(world: World) -> bool:
    """Let every broker continue; return True if any of them did."""
    went_on = False
    for broker in world.brokers.values():
        went_on |= _go_on(world, broker)
    return went_on


def _go_on(world: World, broker: Broker) -> bool:
    """Take the steps that end within the step that begins them."""
    if broker.role is Role.STANDING:
        return leader_election(world, broker, waited=True)
    return (
        broker.fetcher is Fetcher.ASKS
        and broker.alive
        and _can_ask(world, broker)
        and replica_fetcher_thread(world, broker)
    )


def _can_ask(world: World, broker: Broker) -> bool:
    """Tell whether the leader is going to answer; otherwise the request is retried as a step of its own."""
    leader = world.brokers[broker.partition.leader]
    same = leader.partition.epoch == broker.partition.epoch or not world.rules.fenced
    return leader.alive and leader.role >= Role.BECOMING and same and not world.is_cut(leader.id, broker.id)
