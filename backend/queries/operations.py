"""Operations: long work that an answer 202 points to, derived from events and what workers report.

Their ids name the kind and the position of the event that began them. `target-switch-<position>` has succeeded
once every unit of the distributor runs on the new target, and is overtaken when a later event changed the target
again; `adoption-<position>`: see `adoptions.py`.
"""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import events
from backend.queries import adoptions
from backend.queries.distributors import read_distributors

_ID = re.compile(r"(target-switch|adoption)-([1-9][0-9]{0,17})")
_SWITCHED = "DistributorTargetSwitched"


def operation_id(event: RecordedEvent) -> str:
    """Id of the operation that an event began."""
    return f"target-switch-{event.position}"


def get_operation(connection: Connection, identity: str) -> dict[str, Any] | None:
    """The contract's shape of an operation; None if there is none of this id."""
    match = _ID.fullmatch(identity)
    if match is None:
        return None
    position = int(match[2])
    if match[1] == "adoption":
        return adoptions.operation(connection, position)
    query = sa.select(events.c.data).where(events.c.position == position, events.c.name == _SWITCHED)
    data = connection.execute(query).scalar_one_or_none()
    if data is None:
        return None
    row = next(
        (
            row
            for row in read_distributors(connection)
            if (row.cluster, row.level) == (data["cluster"], data["level"])
        ),
        None,
    )
    operation = {"id": identity, "state": "running", "progress": 0.0, "result": None, "problem": None}
    if row is None or row.target != data["target"]:
        problem = {
            "type": "urn:treeline:overtaken",
            "title": "A later change took this one's place.",
            "status": 409,
            "detail": f"{data['cluster']}:{data['level']} no longer copies to {data['target']}",
        }
        return {**operation, "state": "failed", "progress": 1.0, "problem": problem}
    seen = row.observed
    if seen is None or seen.position < position or seen.state not in ("running", "degraded"):
        return operation
    result = {"cluster": row.cluster, "level": row.level, "target": row.target, "previous": data["previous"]}
    return {**operation, "state": "succeeded", "progress": 1.0, "result": result}
