"""All trees that were ever in force, with the times of the events that began and ended them."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.distribution.trace import TreeVersion
from backend.domain.tree import tree_shape
from backend.domain.tree.distributor_settings import SETTINGS_EVENTS
from backend.domain.tree.tree import clusters_of
from backend.eventlog.tables import events
from backend.projections.trees import tree_targets, trees
from backend.queries.tree.trees import MAIN


def versions(connection: Connection, name: str = MAIN) -> list[TreeVersion]:
    """Return all trees in the order in which they were in force; events that change no route start no new one."""
    query = (
        sa.select(trees.c.root, trees.c.valid_from, events.c.time)
        .join(events, events.c.position == trees.c.valid_from)
        .where(trees.c.name == name, events.c.name.not_in([cls.stored_name for cls in SETTINGS_EVENTS]))
        .order_by(trees.c.valid_from)
    )
    rows = connection.execute(query).all()
    targets = connection.execute(sa.select(tree_targets).where(tree_targets.c.tree == name)).all()
    ends = [*(_milliseconds(row.time) for row in rows[1:]), None]
    return [
        TreeVersion(
            root=tree_shape.parse(row.root, clusters_of(row.root)),
            targets={
                (each.cluster, each.level): each.target
                for each in targets
                if each.valid_from <= row.valid_from and (each.valid_to is None or each.valid_to > row.valid_from)
            },
            began_ms=_milliseconds(row.time),
            ended_ms=end,
        )
        for row, end in zip(rows, ends, strict=True)
    ]


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
