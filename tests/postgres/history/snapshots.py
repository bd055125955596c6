"""Committed and translated offsets of groups, written by hand, and snapshots of them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from backend.queries.history import snapshots
from backend.queries.history.snapshot_offsets import list_commits
from backend.queries.history.snapshot_tables import looks
from backend.queries.history.snapshots import Snapshot
from backend.queries.offsets.offset_tables import applied_offsets, group_commits
from backend.queries.offsets.offsets import Wanted
from tests.support.database.postgres import Database

STREAM = "acme/retail/prod/orders"
ALL = Wanted(limit=1000)


def commit(database: Database, group: str = "billing", cluster: str = "c1", **changed: Any) -> None:
    """Record an offset that a group has committed by itself, in place of the one before."""
    row = {
        "cluster": cluster,
        "stream": STREAM,
        "partition": 0,
        "group": group,
        "technical_group": f"acme-{group}",
        "committed_offset": 10,
        "committed_at_ms": 1_700_000_000_000,
        "published_at_ms": 1_700_000_000_000,
        **changed,
    }
    t = group_commits.c
    with database.engine.begin() as connection:
        connection.execute(sa.delete(group_commits).where(t.group == group, t.cluster == cluster))
        connection.execute(sa.insert(group_commits).values(row))


def applied(database: Database, cluster: str, offset: int, **changed: Any) -> None:
    """Record an offset that was set for the group on another cluster."""
    row = {
        "cluster": cluster,
        "stream": STREAM,
        "partition": 0,
        "group": "billing",
        "technical_group": "acme-billing",
        "state": "applied",
        "origin_cluster": "c1",
        "generation": 1,
        "committed_at_ms": 1_700_000_000_000,
        "offset": offset,
        "mode": "exact",
        **changed,
    }
    with database.engine.begin() as connection:
        connection.execute(sa.delete(applied_offsets).where(applied_offsets.c.cluster == cluster))
        connection.execute(sa.insert(applied_offsets).values(row))


def look(database: Database) -> Snapshot:
    """Take a snapshot; the result is the key to what it saw."""
    assert snapshots.take_snapshot(database.engine)
    with database.engine.connect() as connection:
        at = connection.execute(sa.select(sa.func.max(looks.c.at))).scalar_one()
    return Snapshot(at=at, moment=at)


def seen(
    database: Database, at: Snapshot, wanted: Wanted = ALL
) -> list[tuple[str, str, int, list[tuple[str, Any]]]]:
    with database.engine.connect() as connection:
        rows = list_commits(connection, wanted, at)
    return [
        (row.group, row.cluster, row.committed_offset, [(each.cluster, each.offset) for each in row.elsewhere])
        for row in rows
    ]


def count(database: Database, table: sa.Table) -> int:
    with database.engine.connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
