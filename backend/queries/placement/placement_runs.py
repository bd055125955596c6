"""State and progress of a worker that executes a placement: observations.

The locations of replicas are not stored here: they are read from the cluster.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import JSONB, insert

from backend.eventlog.tables import METADATA

placement_runs = sa.Table(
    "placement_runs",
    METADATA,
    sa.Column("placement", sa.Text, primary_key=True),
    # Compressed JSON: Kafka's ids of topics when their first replica was moved; NULL until then.
    sa.Column("topic_ids", sa.LargeBinary),
    # Throttles that were set and must be removed at the end (backend.kafka.admin.replication_throttle).
    sa.Column("throttle", JSONB(none_as_null=True)),
    sa.Column("told", JSONB(none_as_null=True)),
)


@dataclass(frozen=True, kw_only=True)
class RunState:
    """The state that a worker stores for one placement."""

    topic_ids: Mapping[str, str] | None
    """Ids of the topics; None before the first replica was moved."""
    throttle: dict[str, Any] | None


def find_run_state(connection: Connection, placement: str) -> RunState:
    """Return what is remembered of a placement; an empty state if it was never executed."""
    query = sa.select(placement_runs).where(placement_runs.c.placement == placement)
    row = connection.execute(query).one_or_none()
    if row is None:
        return RunState(topic_ids=None, throttle=None)
    ids = None if row.topic_ids is None else json.loads(zlib.decompress(row.topic_ids))
    return RunState(topic_ids=ids, throttle=row.throttle)


def store_topic_ids(connection: Connection, placement: str, ids: Mapping[str, str]) -> None:
    """Store topic ids before the first move: the cluster matches the plan, and from now on replicas may move."""
    _keep(connection, placement, topic_ids=zlib.compress(json.dumps(dict(ids)).encode()))


def store_throttle(connection: Connection, placement: str, throttle: dict[str, Any] | None) -> None:
    """Store the throttle before it is set; None once it is removed."""
    _keep(connection, placement, throttle=throttle)


def store_progress(connection: Connection, placement: str, progress: dict[str, Any]) -> None:
    """Replace the progress of a placement."""
    _keep(connection, placement, told=progress)


def find_progress(connection: Connection, placement: str) -> dict[str, Any] | None:
    """Return the latest progress of a placement."""
    query = sa.select(placement_runs.c.told).where(placement_runs.c.placement == placement)
    found: dict[str, Any] | None = connection.execute(query).scalar_one_or_none()
    return found


def _keep(connection: Connection, placement: str, **values: Any) -> None:
    row = insert(placement_runs).values(placement=placement, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["placement"], set_=values))
