"""Checkpoints of logs in the database: offsets with the vectors seen there, from which rescans may begin.

They are observations and may be lost without harm (`backend/domain/distribution/rescan.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.distribution import rescan
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records import origin
from backend.queries.base.matching import among
from backend.queries.base.observed import log_checkpoints

Partition = tuple[str, int]
"""(Stream, partition)."""

_THIN_BEYOND = 64


def write(connection: Connection, cluster: str, taken: Iterable[tuple[str, int, Checkpoint]]) -> None:
    """Add checkpoints of a cluster's logs, and drop those that are no longer worth keeping."""
    rows = [
        {
            "cluster": cluster,
            "stream": stream,
            "partition": partition,
            "offset": one.offset,
            "incarnation": one.incarnation,
            "seen": origin.plain(one.seen),
        }
        for stream, partition, one in taken
    ]
    if not rows:
        return
    # Sorted, so that two holders that write the same rows cannot deadlock.
    rows.sort(key=lambda row: (row["stream"], row["partition"], row["offset"]))
    connection.execute(insert(log_checkpoints).on_conflict_do_nothing(), rows)
    _thin(connection, cluster, {(stream, partition) for stream, partition, _ in taken})


def _thin(connection: Connection, cluster: str, partitions: Collection[Partition]) -> None:
    t = log_checkpoints.c
    these = sa.and_(t.cluster == cluster, among((t.stream, t.partition), partitions))
    many = (
        sa.select(t.stream, t.partition, sa.func.array_agg(t.offset))
        .where(these)
        .group_by(t.stream, t.partition)
        .having(sa.func.count() > _THIN_BEYOND)
    )
    for stream, partition, offsets in connection.execute(many).all():
        kept = rescan.worth_keeping(offsets)
        dropped = sa.delete(log_checkpoints).where(
            t.cluster == cluster, t.stream == stream, t.partition == partition
        )
        connection.execute(dropped.where(t.offset.in_([each for each in offsets if each not in kept])))


def read(
    connection: Connection, cluster: str, partitions: Collection[Partition]
) -> dict[Partition, list[Checkpoint]]:
    """Return the checkpoints of these partitions of a cluster's logs."""
    t = log_checkpoints.c
    query = sa.select(log_checkpoints).where(t.cluster == cluster, among((t.stream, t.partition), partitions))
    found: dict[Partition, list[Checkpoint]] = {}
    for row in connection.execute(query):
        one = Checkpoint(row.offset, row.incarnation, origin.from_plain(row.seen))
        found.setdefault((row.stream, row.partition), []).append(one)
    return found
