"""Recording what a unit cannot copy, before it goes on."""

from __future__ import annotations

import uuid

import structlog

from backend import deciders
from backend.domain.assignment import Unit
from backend.domain.edge_losses import EdgeCommand, RecordLoss, SetAside
from backend.kafka.knowledge import Gone, Refused
from workers import context

log = structlog.get_logger("distributor")

ACTOR = "worker:distributor"


def set_aside(unit: Unit, what: Refused) -> str:
    """Record that a record is being set aside; its id. Raises DomainError: then the unit must not go on."""
    command = SetAside(cluster=unit.cluster, level=unit.level, **vars(what))
    _record(unit, command)
    log.error("record set aside", id=command.id, reason=what.reason)
    return command.id


def lost(unit: Unit, what: Gone) -> None:
    """Record that records were gone. Raises DomainError: then the unit must not go on."""
    _record(unit, RecordLoss(cluster=unit.cluster, level=unit.level, **vars(what)))
    log.error("records lost", unit=unit.name, **vars(what))


def _record(unit: Unit, command: EdgeCommand) -> None:
    request_id = f"{unit.name}-{uuid.uuid4().hex[:12]}"
    context.dispatch(deciders.EDGE, f"edge-{unit.cluster}-{unit.level}", command, ACTOR, request_id)
