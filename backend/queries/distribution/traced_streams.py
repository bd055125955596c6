"""Location of a stream, of a tenant or internal, as tracing needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.names.names import is_name
from backend.domain.records.incarnations import Incarnations, incarnation_at, incarnations_of
from backend.queries.base.observed import internal_topics
from backend.queries.tenants.streams import get_stream


@dataclass(frozen=True)
class TracedStream:
    """A stream; `topics` and `incarnations` name clusters with a topic; `absent` the others, with the reason."""

    stream: str
    partitions: int
    distributed: bool
    compacted: bool
    topics: Mapping[str, str]
    incarnations: Mapping[str, int]
    tails: Mapping[str, Mapping[int, Incarnations]]
    """Incarnations of the partitions that lost a tail, by cluster."""
    absent: Mapping[str, str]

    def incarnation(self, cluster: str, partition: int, offset: int) -> int:
        """Return the incarnation of the record that was produced there."""
        return incarnation_at(incarnations_of(self.tails[cluster], partition, self.incarnations[cluster]), offset)


def traced_stream(connection: Connection, name: str) -> TracedStream | None:
    """Return a stream by its full name; None if there is none."""
    parts = name.split("/")
    if len(parts) == 4 and all(is_name(part) for part in parts):
        return _of_tenant(connection, *parts)
    return _internal(connection, name) if len(parts) == 1 else None


def _of_tenant(
    connection: Connection, tenant: str, instance: str, environment: str, stream: str
) -> TracedStream | None:
    row = get_stream(connection, tenant, instance, environment, stream)
    if row is None:
        return None
    return TracedStream(
        stream=row.stream,
        partitions=row.partitions,
        distributed=row.distributed,
        compacted="compact" in row.cleanup_policy,
        topics={cluster: row.technical_names[cluster] for cluster in row.incarnations},
        incarnations=row.incarnations,
        tails=row.tails,
        absent={
            cluster: f"its topic is {state} there"
            + (f": {row.failures[cluster]}" if cluster in row.failures else "")
            for cluster, state in row.applied.items()
            if cluster not in row.incarnations
        },
    )


def _internal(connection: Connection, name: str) -> TracedStream | None:
    if "\x00" in name:
        return None
    rows = connection.execute(sa.select(internal_topics).where(internal_topics.c.topic == name)).all()
    if not rows:
        return None
    return TracedStream(
        stream=name,
        partitions=min(row.partitions for row in rows),
        distributed=True,
        compacted=False,
        topics={row.cluster: name for row in rows},
        incarnations={row.cluster: row.incarnation for row in rows},
        tails={row.cluster: {} for row in rows},
        absent={},
    )
