"""Distributor states as workers would have written them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Engine

from backend.eventlog.tables import event_log_head
from backend.queries.base.observed import leases, unit_states
from backend.settings import settings


def observe(
    engine: Engine, cluster: str, level: int, target: str, state: str = "running", **facts: object
) -> None:
    """Put all tasks of one distributor into one state, held by a worker whose lease lasts."""
    with engine.begin() as connection:
        for bucket in range(settings().partition_buckets):
            unit = f"distributor:{cluster}:{level}:{bucket}"
            connection.execute(sa.delete(leases).where(leases.c.unit == unit))
            connection.execute(sa.delete(unit_states).where(unit_states.c.unit == unit))
            expires_at = sa.text("clock_timestamp() + interval '1 hour'")
            connection.execute(sa.insert(leases).values(unit=unit, holder="w:1", epoch=1, expires_at=expires_at))
            row = {
                "unit": unit,
                "holder": "w:1",
                "epoch": 1,
                "state": state,
                "reason": None,
                "target": target,
                "lag_records": 0,
                "wait_seconds": None,
                "records_per_second": 0.0,
                "copied_records": 0,
                "copied_bytes": 0,
                "unreadable_flags": 0,
                "schema_holds": 0,
                "schema_held_seconds": 0.0,
                "schema_waits_run_out": 0,
                "position": sa.select(event_log_head.c.position).scalar_subquery(),
                "seen_at": sa.func.clock_timestamp(),
            }
            connection.execute(sa.insert(unit_states).values({**row, **facts}))
