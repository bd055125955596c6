"""What a worker has to remember while it moves the replicas of a placement, and how far it is: observations.

Replicas themselves are not among them: where they are is asked of the cluster.
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
    # Compressed JSON: topics with Kafka's ids when their first replica was moved; NULL until then.
    sa.Column("topic_ids", sa.LargeBinary),
    # What was set of throttles and has to be taken away again (backend.kafka.admin.replication_throttle).
    sa.Column("throttle", JSONB(none_as_null=True)),
    sa.Column("told", JSONB(none_as_null=True)),
)


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """Of one placement."""

    topic_ids: Mapping[str, str] | None
    """None: none of its replicas has been moved yet."""
    throttle: dict[str, Any] | None


def recall(connection: Connection, placement: str) -> Remembered:
    """What is remembered; nothing of one that was never run."""
    query = sa.select(placement_runs).where(placement_runs.c.placement == placement)
    row = connection.execute(query).one_or_none()
    if row is None:
        return Remembered(topic_ids=None, throttle=None)
    ids = None if row.topic_ids is None else json.loads(zlib.decompress(row.topic_ids))
    return Remembered(topic_ids=ids, throttle=row.throttle)


def keep_topic_ids(connection: Connection, placement: str, ids: Mapping[str, str]) -> None:
    """The cluster was found as the plan has it: from now on replicas may have moved."""
    _keep(connection, placement, topic_ids=zlib.compress(json.dumps(dict(ids)).encode()))


def keep_throttle(connection: Connection, placement: str, throttle: dict[str, Any] | None) -> None:
    """Before it is set; None once it is gone."""
    _keep(connection, placement, throttle=throttle)


def tell(connection: Connection, placement: str, told: dict[str, Any]) -> None:
    """Replace what was told of its progress."""
    _keep(connection, placement, told=told)


def told(connection: Connection, placement: str) -> dict[str, Any] | None:
    """What was told last."""
    query = sa.select(placement_runs.c.told).where(placement_runs.c.placement == placement)
    found: dict[str, Any] | None = connection.execute(query).scalar_one_or_none()
    return found


def _keep(connection: Connection, placement: str, **values: Any) -> None:
    row = insert(placement_runs).values(placement=placement, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["placement"], set_=values))
