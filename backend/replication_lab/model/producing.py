"""Produce requests at the leader, and the producers that send them."""

from __future__ import annotations

from backend.replication_lab.model.answers import FENCED, NOT_LEADER, TOO_FEW_IN_SYNC, acknowledge, refuse
from backend.replication_lab.model.committing import advance_hw
from backend.replication_lab.model.messages import (
    UNKNOWN,
    Pending,
    ProduceRequest,
    ProduceResponse,
    Record,
    sent_by,
)
from backend.replication_lab.model.network import post
from backend.replication_lab.model.state import Broker, Producer, Role, producer_state
from backend.replication_lab.model.world import World


def produce_request_handler(world: World, broker: Broker, request: ProduceRequest) -> bool:
    """produceRequestHandler(pr): append to the log, and leave the answer to the committer.

    With acks=all and fewer in sync than min.insync.replicas the request is refused (ADS, "Replication"). Fix: a
    record that the log already has is not written again (KIP-98).
    """
    partition, rules = broker.partition, world.rules
    if broker.role is not Role.LEADER:
        refuse(world, broker, request, NOT_LEADER)
        return True
    if request.acks_all and len(partition.isr) < world.configuration.min_isr:
        refuse(world, broker, request, TOO_FEW_IN_SYNC)
        return True
    if rules.idempotent:
        epoch, number, end = producer_state(broker.log, request.producer)
        if request.producer_epoch < epoch:
            refuse(world, broker, request, FENCED)
            return True
        if request.producer_epoch == epoch and request.number <= number:
            _answer_again(world, broker, request, end if request.number == number else 0)
            return True
    first = len(broker.log)
    epoch = partition.epoch if rules.has_epochs else 0
    broker.append((Record(epoch, request.producer, request.producer_epoch, request.number),))
    pending = Pending(request, first, first + 1)
    if not request.acks_all:
        acknowledge(world, broker, request, first, first + 1)
    partition.commit_q = (*partition.commit_q, pending)
    if rules.judges_by_progress:
        advance_hw(world, broker)
        return True
    world.wake(("commit", broker.id), 0)
    if len(partition.commit_q) == 1:
        wait = world.configuration.times.keep_in_sync
        world.wake(("late", broker.id, pending.offset, len(partition.isr)), wait)
    return True


def _answer_again(world: World, broker: Broker, request: ProduceRequest, end: int) -> None:
    """Acknowledge a record that is in the log already: once it is committed, at once if it is."""
    if not request.acks_all or end <= broker.hw:
        acknowledge(world, broker, request, end - 1, end)
    else:
        pending = Pending(request, end - 1, end)
        queue = broker.partition.commit_q
        broker.partition.commit_q = tuple(sorted((*queue, pending), key=lambda each: each.offset))


def produce(world: World, producer: Producer) -> bool:
    """Send a producer's next record."""
    if producer.waits or not producer.left:
        return False
    producer.waits = True
    producer.attempt += 1
    if producer.leader == UNKNOWN:
        world.find_leader(producer)
    _send(world, producer)
    return True


def retry_timed_out(world: World, producer: Producer, number: int, attempt: int) -> bool:
    """Retry a record that was not answered in time, after looking up the leader.

    Without a clock nothing was measured: the timeout may apply to whatever attempt is under way.
    """
    if not producer.waits or (world.timed and (producer.number, producer.attempt) != (number, attempt)):
        return False
    producer.attempt += 1
    world.find_leader(producer)
    _send(world, producer)
    return True


def _send(world: World, producer: Producer) -> None:
    times = world.configuration.times
    if producer.leader != UNKNOWN:
        acks_all = world.configuration.acks_all
        request = ProduceRequest(producer.id, producer.epoch, producer.number, producer.attempt, acks_all)
        post(world, sent_by(producer.id), producer.leader, request)
    world.wake(("timeout", producer.id, producer.number, producer.attempt), times.request)


def receive_answer(world: World, producer: Producer, response: ProduceResponse) -> bool:
    """Process an answer: an acknowledgement ends the record; after an error the producer looks up the leader.

    It retries later.
    """
    if not producer.waits or response.number != producer.number:
        return False
    if response.error:
        if response.attempt == producer.attempt:
            world.find_leader(producer)
        return True
    producer.waits = False
    producer.attempt = 0
    producer.number += 1
    producer.left -= 1
    producer.acknowledged += 1
    world.wake(("produce", producer.id), world.configuration.times.produce)
    return True


def begin_anew(world: World, producer: Producer) -> bool:
    """Restart a producer: it gets a new epoch, abandons the record under way, and sends its next one."""
    producer.epoch += 1
    if producer.waits:
        producer.abandoned |= {producer.number}
        producer.waits = False
        producer.attempt = 0
        producer.number += 1
        producer.left -= 1
    world.wake(("produce", producer.id), world.configuration.times.produce)
    return True
