"""Counts of distributors' waits for schemas, which continue when a task changes its holder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.distribution import assignment
from backend.queries.base.observed import unit_states
from backend.queries.tree.trees import get_tree


@dataclass(frozen=True)
class SchemaCounts:
    """Counts of all tasks of one distributor, from their first run on."""

    holds: int
    held_seconds: float
    waits_run_out: int


def read(connection: Connection, buckets: int) -> Mapping[tuple[str, int], SchemaCounts]:
    """Return (cluster, level) -> counts, of the tree's distributors that have ever run."""
    tree = get_tree(connection)
    if tree is None:
        return {}
    of = unit_states.c
    rows = connection.execute(
        sa.select(
            of.unit,
            (of.schema_holds_before + of.schema_holds).label("holds"),
            (of.schema_held_seconds_before + of.schema_held_seconds).label("held_seconds"),
            (of.schema_waits_run_out_before + of.schema_waits_run_out).label("waits_run_out"),
        )
    )
    counted = {row.unit: row for row in rows}
    found: dict[tuple[str, int], SchemaCounts] = {}
    for task in assignment.tasks(tree.targets, buckets):
        if (row := counted.get(task.name)) is not None:
            so_far = found.get((task.cluster, task.level), SchemaCounts(0, 0.0, 0))
            found[task.cluster, task.level] = SchemaCounts(
                so_far.holds + row.holds,
                so_far.held_seconds + row.held_seconds,
                so_far.waits_run_out + row.waits_run_out,
            )
    return found
