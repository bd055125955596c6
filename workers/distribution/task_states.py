"""Storage of the states of tasks, for the console and the API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import Insert, insert

from backend.queries.base.observed import unit_states


@dataclass(frozen=True, kw_only=True)
class TaskState:
    """State of a task as its holder reports it; `state` is one of the contract's distributor states."""

    unit: str
    holder: str
    epoch: int
    state: str
    reason: str | None
    target: str
    lag_records: int | None
    wait_seconds: float | None = None
    records_per_second: float
    copied_records: int
    copied_bytes: int
    unreadable_flags: int
    schema_holds: int = 0
    schema_held_seconds: float = 0.0
    schema_waits_run_out: int = 0
    position: int


def _replacing() -> Insert:
    names = [field.name for field in fields(TaskState)]
    statement = insert(unit_states).values(
        {name: sa.bindparam(name) for name in names} | {"seen_at": sa.func.clock_timestamp()}
    )
    old, given = unit_states.c, statement.excluded
    fresh: dict[str, Any] = {name: given[name] for name in (*names, "seen_at") if name != "unit"}
    for counted in ("schema_holds", "schema_held_seconds", "schema_waits_run_out"):
        before = old[f"{counted}_before"]
        fresh[f"{counted}_before"] = sa.case((given.epoch > old.epoch, before + old[counted]), else_=before)
    # A late report of a former holder must not overwrite its successor's.
    return statement.on_conflict_do_update(
        index_elements=["unit"], set_=fresh, where=unit_states.c.epoch <= given.epoch
    )


_REPLACING = _replacing()
"""Built once: it is executed every second, for each task."""


def write(connection: Connection, states: Iterable[TaskState]) -> None:
    """Replace the rows of these tasks; counts of former holders are kept beside those of the current one."""
    rows = [asdict(state) for state in states]
    if rows:
        connection.execute(_REPLACING, rows)


def forget(connection: Connection, desired: Iterable[str]) -> None:
    """Delete the rows of tasks that no tree has any more."""
    connection.execute(sa.delete(unit_states).where(unit_states.c.unit.not_in(list(desired))))
