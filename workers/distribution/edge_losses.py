"""Recording of records that a task cannot copy, before it continues."""

from __future__ import annotations

import uuid

import structlog

from backend import deciders
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edge_losses import EdgeCommand, RecordDeadLetter, RecordLoss, RecordReplacement
from backend.domain.tenants.stream_records import RecordTailLost
from backend.kafka.copy.control_plane import Gone, Refused, Replaced, Truncated
from workers import context

log = structlog.get_logger("distributor")

ACTOR = "worker:distributor"


def dead_letter(task: Task, what: Refused) -> str:
    """Record a dead letter and return its id. Raises DomainError: then the task must not continue."""
    command = RecordDeadLetter(cluster=task.cluster, level=task.level, **vars(what))
    _record(task, command)
    log.error("record dead-lettered", id=command.id, reason=what.reason)
    return command.id


def lost(task: Task, what: Gone) -> None:
    """Record lost records. Raises DomainError: then the task must not continue."""
    _record(task, RecordLoss(cluster=task.cluster, level=task.level, **vars(what)))
    log.error("records lost", unit=task.name, **vars(what))


def replaced(task: Task, what: Replaced) -> None:
    """Record the possible losses with a former topic. Raises DomainError: then the task must not continue."""
    command = RecordReplacement(
        cluster=task.cluster,
        level=task.level,
        target=what.target,
        stream=what.stream,
        incarnation=what.incarnation,
        partitions=tuple((at, each.first_offset, each.at_least) for at, each in sorted(what.unread.items())),
    )
    _record(task, command)
    log.error("source topic re-created", unit=task.name, stream=what.stream, partitions=command.partitions)


def truncated(task: Task, what: Truncated) -> None:
    """Record that a log of the task's source was truncated. Raises DomainError: then it is found again."""
    log.error("log truncated", cluster=task.cluster, **vars(what))
    parts = what.stream.split("/")
    if len(parts) != 4:
        return  # internal streams have no tenant; the task's reason says what to do
    tenant, instance, environment, stream = parts
    command = RecordTailLost(
        instance=instance, environment=environment, cluster=task.cluster, **{**vars(what), "stream": stream}
    )
    context.dispatch(deciders.TENANT, f"tenant-{tenant}", command, ACTOR, _request(task))


def _record(task: Task, command: EdgeCommand) -> None:
    context.dispatch(deciders.EDGE, f"edge-{task.cluster}-{task.level}", command, ACTOR, _request(task))


def _request(task: Task) -> str:
    return f"{task.name}-{uuid.uuid4().hex[:12]}"
