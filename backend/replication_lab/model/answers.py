"""Answers of a leader to producers, and to requests that still wait when it steps down."""

from __future__ import annotations

from backend.replication_lab.model.checking import after_step
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.messages import NOBODY, Pending, ProduceRequest, ProduceResponse, named, sent_by
from backend.replication_lab.model.network import post
from backend.replication_lab.model.state import Broker, Role
from backend.replication_lab.model.world import World

NOT_LEADER = "not the leader"
TOO_FEW_IN_SYNC = "fewer in sync than min ISR"
FENCED = "a newer producer has this id"


def refuse(world: World, leader: Broker, request: ProduceRequest, error: str) -> None:
    """Answer that the record was not appended."""
    answer = ProduceResponse(request.attempt, request.number, -1, error)
    post(world, leader.id, sent_by(request.producer), answer)


def acknowledge(world: World, leader: Broker, request: ProduceRequest, first: int, offset: int) -> None:
    """Answer that the record is committed or, without acks=all, that the leader has it.

    The promises of synchronous replication are checked here, where they are given.
    """
    if request.acks_all:
        in_sync, least = len(leader.partition.isr), world.configuration.min_isr
        if in_sync < least:
            world.history.violate(
                Invariant.BELOW_MIN_ISR,
                f"broker {leader.id} acknowledged {named(request)} with {in_sync} in sync; "
                f"min.insync.replicas is {least}",
            )
        if leader.hw < offset:
            world.history.violate(
                Invariant.NOT_READABLE,
                f"broker {leader.id} acknowledged {named(request)} at offset {first}, but its HW is {leader.hw}",
            )
    post(world, leader.id, sent_by(request.producer), ProduceResponse(request.attempt, request.number, first, ""))


def step_down(world: World, broker: Broker) -> None:
    """Stop leading. The documents stop the commit thread and leave the requests in the commitQ unanswered.

    Fix: each gets an error, and its producer retries with the new leader.
    """
    if broker.role is Role.LEADER:
        after_step(world)  # check what it committed in this step while it still leads
    partition = broker.partition
    waiting: tuple[Pending, ...] = tuple(each for each in partition.commit_q if each.request.acks_all)
    partition.commit_q = ()
    if broker.role is not Role.NONE:
        broker.role = Role.NONE
        partition.leader = NOBODY
        broker.stop_threads()
    if world.rules.answers_first:
        for each in waiting:
            refuse(world, broker, each.request, NOT_LEADER)
    elif waiting:
        names = ", ".join(named(each.request) for each in waiting)
        world.history.violate(
            Invariant.UNANSWERED,
            f"broker {broker.id} stepped down and stopped its commit thread; {names} will never be answered",
        )
