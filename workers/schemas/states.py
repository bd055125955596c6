"""Stores the states of the schema distributor's targets, for the console and the API."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.schemas.schema_conflicts import Conflict
from backend.queries.schemas.schemas import schema_targets

STARTING, RUNNING, DEGRADED, BLOCKED = "starting", "running", "degraded", "blocked"
_CONFLICTS_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class TargetState:
    """State of a target as its thread sees it; see `schema_targets`."""

    cluster: str
    primary_cluster: str
    state: str = STARTING
    reason: str | None = None
    subjects: int | None = None
    behind: int | None = None
    conflicts: tuple[Conflict, ...] = ()


def write(connection: Connection, states: Collection[TargetState]) -> None:
    """Replace all rows."""
    names = [state.cluster for state in states]
    connection.execute(sa.delete(schema_targets).where(schema_targets.c.cluster.not_in(names)))
    rows = [
        {
            **vars(state),
            "conflicts": [asdict(each) for each in state.conflicts[:_CONFLICTS_SHOWN]],
            "written_at": sa.func.clock_timestamp(),
        }
        for state in sorted(states, key=lambda state: state.cluster)
    ]
    if rows:
        statement = insert(schema_targets).values(rows)
        fresh = {column.name: statement.excluded[column.name] for column in schema_targets.c}
        connection.execute(statement.on_conflict_do_update(index_elements=["cluster"], set_=fresh))
