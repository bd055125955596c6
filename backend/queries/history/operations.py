"""Operations: long-running work that an answer 202 points to, derived from events and workers' reports.

Their ids name the kind and the position of the event that started them. `target-switch-<position>` has succeeded
once every task of the distributor runs on the new target, and is superseded when a later event changed the target
again; `primary-move-<position>` has succeeded once the primary has moved, and is superseded by another order;
`adoption-<position>`: see `adoptions.py`.
"""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import events
from backend.queries.clusters import adoptions
from backend.queries.distribution.distributors import read_distributors
from backend.queries.tree.trees import get_tree

_ID = re.compile(r"(target-switch|primary-move|adoption)-([1-9][0-9]{0,17})")
_SWITCHED = "DistributorTargetSwitched"
_MOVED = "PrimaryMoved"
_BEGUN = {_SWITCHED: "target-switch", "PrimaryMoveBegun": "primary-move", "AdoptionBegun": "adoption"}


def operation_id(event: RecordedEvent) -> str:
    """Return the id of the operation that an event started."""
    return f"{_BEGUN[event.name]}-{event.position}"


def get_operation(connection: Connection, identity: str, at: int | None = None) -> dict[str, Any] | None:
    """Return an operation in the contract's form; None if there is none with this id.

    As of a position before its end it is running. Workers' reports have no history: a target switch that was not
    superseded by then is `unknown`.
    """
    match = _ID.fullmatch(identity)
    if match is None:
        return None
    position = int(match[2])
    if at is not None and position > at:
        return None
    if match[1] == "adoption":
        return adoptions.operation(connection, position, at)
    query = sa.select(events.c.name, events.c.data).where(events.c.position == position)
    begun = connection.execute(query).one_or_none()
    if begun is None or _BEGUN.get(begun.name) != match[1]:
        return None
    operation = {"id": identity, "state": "running", "progress": 0.0, "result": None, "problem": None}
    outcome = _target_switch if begun.name == _SWITCHED else _primary_move
    return operation | outcome(connection, position, begun.data, at)


def _primary_move(connection: Connection, position: int, data: dict[str, Any], at: int | None) -> dict[str, Any]:
    tree = get_tree(connection, at)
    later = sa.select(events.c.data).where(events.c.position > position, events.c.name == _MOVED)
    if at is not None:
        later = later.where(events.c.position <= at)
    # The first move that ends after its start is this one's, unless another order came first.
    first = connection.execute(later.order_by(events.c.position).limit(1)).scalar_one_or_none()
    if first is not None and first["cluster"] == data["cluster"]:
        return {"state": "succeeded", "progress": 1.0, "result": first}
    if tree is not None and tree.move is not None and tree.move.cluster == data["cluster"]:
        return {}
    return _overtaken(f"the primary is no longer being moved to {data['cluster']}")


def _overtaken(detail: str) -> dict[str, Any]:
    problem = {
        "type": "urn:treeline:overtaken",
        "title": "A later change superseded this one.",
        "status": 409,
        "detail": detail,
    }
    return {"state": "failed", "progress": 1.0, "problem": problem}


def _target_switch(connection: Connection, position: int, data: dict[str, Any], at: int | None) -> dict[str, Any]:
    row = next(
        (
            row
            for row in read_distributors(connection, at)
            if (row.cluster, row.level) == (data["cluster"], data["level"])
        ),
        None,
    )
    if row is None or row.target != data["target"]:
        return _overtaken(f"{data['cluster']}:{data['level']} no longer copies to {data['target']}")
    if at is not None:
        return {"state": "unknown"}
    seen = row.observed
    if seen is None or seen.position < position or seen.state not in ("running", "degraded"):
        return {}
    result = {"cluster": row.cluster, "level": row.level, "target": row.target, "previous": data["previous"]}
    return {"state": "succeeded", "progress": 1.0, "result": result}
