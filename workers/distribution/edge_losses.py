"""Recording of records that a task cannot copy, before it continues."""

from __future__ import annotations

import uuid

import structlog

from backend import deciders
from backend.domain.distribution.assignment import Unit
from backend.domain.distribution.edge_losses import EdgeCommand, RecordLoss, RecordReplacement, SetAside
from backend.domain.tenants.stream_records import RecordTailLost
from backend.kafka.copy.knowledge import CutOff, Gone, Refused, Replaced
from workers import context

log = structlog.get_logger("distributor")

ACTOR = "worker:distributor"


def set_aside(unit: Unit, what: Refused) -> str:
    """Record a dead letter and return its id. Raises DomainError: then the task must not continue."""
    command = SetAside(cluster=unit.cluster, level=unit.level, **vars(what))
    _record(unit, command)
    log.error("record dead-lettered", id=command.id, reason=what.reason)
    return command.id


def lost(unit: Unit, what: Gone) -> None:
    """Record lost records. Raises DomainError: then the task must not continue."""
    _record(unit, RecordLoss(cluster=unit.cluster, level=unit.level, **vars(what)))
    log.error("records lost", unit=unit.name, **vars(what))


def replaced(unit: Unit, what: Replaced) -> None:
    """Record the possible losses with a former topic. Raises DomainError: then the task must not continue."""
    command = RecordReplacement(
        cluster=unit.cluster,
        level=unit.level,
        target=what.target,
        stream=what.stream,
        incarnation=what.incarnation,
        partitions=tuple((at, each.first_offset, each.at_least) for at, each in sorted(what.unread.items())),
    )
    _record(unit, command)
    log.error("source topic re-created", unit=unit.name, stream=what.stream, partitions=command.partitions)


def cut_off(unit: Unit, what: CutOff) -> None:
    """Record that a log of the task's source was truncated. Raises DomainError: then it is found again."""
    log.error("log truncated", cluster=unit.cluster, **vars(what))
    parts = what.stream.split("/")
    if len(parts) != 4:
        return  # internal streams have no tenant; the task's reason says what to do
    tenant, instance, environment, stream = parts
    command = RecordTailLost(
        instance=instance, environment=environment, cluster=unit.cluster, **{**vars(what), "stream": stream}
    )
    context.dispatch(deciders.TENANT, f"tenant-{tenant}", command, ACTOR, _request(unit))


def _record(unit: Unit, command: EdgeCommand) -> None:
    context.dispatch(deciders.EDGE, f"edge-{unit.cluster}-{unit.level}", command, ACTOR, _request(unit))


def _request(unit: Unit) -> str:
    return f"{unit.name}-{uuid.uuid4().hex[:12]}"
