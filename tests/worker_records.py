"""What workers record, by a dispatcher of the test's own or of the application that it asks."""

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
    """Carry a command out as a worker does that has looked at a cluster."""
    dispatcher.execute(
        decider,
        stream,
        command,
        metadata=Metadata(actor="worker:reconcile", request_id="r"),
        time=datetime.now(UTC),
        answer=lambda connection, outcome: None,
    )


def record(engine: Engine, command: Any, decider: Any = TENANT, stream: str = "tenant-acme") -> None:
    """The same, in this database."""
    record_by(Dispatcher(engine, domain_registry(), PROJECTIONS), command, decider, stream)
