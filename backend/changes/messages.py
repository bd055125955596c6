"""Record of a message that was produced."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from backend.changes.change import Change
from backend.deciders import PRODUCED_MESSAGES
from backend.domain.tenants.produced_messages import Produced, RecordProduced


def record_produced(
    tenant: str, build: Callable[[Connection], RecordProduced]
) -> Change[Produced, RecordProduced]:
    """Record where a message was written, and its sizes."""
    return Change(PRODUCED_MESSAGES, f"messages-{tenant}", build)
