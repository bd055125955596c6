"""Recording of workers' observations in tests, by a dispatcher or by an application's database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine

from backend.deciders import TENANT
from backend.dispatch import Dispatcher
from backend.eventlog.recorded import Metadata
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS


def record_by(dispatcher: Dispatcher, command: Any, decider: Any = TENANT, stream: str = "tenant-acme") -> None:
    """Carry out a command as a worker does that has polled a cluster."""
    dispatcher.execute(
        decider,
        stream,
        command,
        metadata=Metadata(actor="worker:reconcile", request_id="r"),
        time=datetime.now(UTC),
        answer=lambda connection, outcome: None,
    )


def record(engine: Engine, command: Any, decider: Any = TENANT, stream: str = "tenant-acme") -> None:
    """Carry out a command as a worker does, in this database."""
    record_by(Dispatcher(engine, domain_registry(), PROJECTIONS), command, decider, stream)
