"""Recording of leases that a live worker lost to others: as an event, and as counts for metrics."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
import structlog
from sqlalchemy import Connection

from backend import deciders
from backend.domain.distribution.fenced_workers import EVENT_STREAM, RecordFenced
from backend.queries.base.observed import leases
from workers import context

log = structlog.get_logger("leases")

ACTOR = "worker:leases"

Fenced = tuple[str, int, str | None, int]
"""(Lease, epoch that was lost, current holder, current epoch)."""


def count(connection: Connection, lost: Mapping[str, int]) -> list[Fenced]:
    """Count the leases that a worker found lost, and return their current holders."""
    if not lost:
        return []
    statement = (
        sa.update(leases)
        .where(leases.c.unit.in_(list(lost)))
        .values(fenced=leases.c.fenced + 1)
        .returning(leases.c.unit, leases.c.holder, leases.c.epoch)
    )
    return [(row.unit, lost[row.unit], row.holder, row.epoch) for row in connection.execute(statement)]


def record(holder: str, fenced: Sequence[Fenced]) -> None:
    """Record lost leases as one event. Raises DomainError."""
    for lease, epoch, successor, newer in fenced:
        log.warning("lease lost while alive", lease=lease, epoch=epoch, successor=successor, newer_epoch=newer)
    command = RecordFenced(holder=holder, leases=tuple(sorted(fenced)))
    context.dispatch(deciders.FENCED_WORKERS, EVENT_STREAM, command, ACTOR, f"fenced-{uuid.uuid4().hex[:12]}")
