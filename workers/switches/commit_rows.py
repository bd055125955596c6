"""Group commits as the translator stored them, for readers that do not wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.offsets.offset_map import GroupPartition
from backend.domain.records import origin
from backend.domain.records.log_index import Prefix
from backend.queries.base.matching import among
from backend.queries.offsets.offset_tables import group_commits
from workers.offsets import store
from workers.switches.topology import Partition


@dataclass(frozen=True, kw_only=True)
class CommitRow:
    """A group's commit, as published in the offset map."""

    offset: int
    committed_at_ms: int
    """Commit time, by which commits are ordered."""
    timestamp_ms: int | None
    """Timestamp of the last record before the offset."""
    safe_timestamp_ms: int | None
    """Smallest timestamp of records at or behind the offset."""


@dataclass(frozen=True)
class CommitRows:
    """Stored commits and known vectors of some logs of one cluster."""

    by_follower: Mapping[GroupPartition, CommitRow] = field(default_factory=dict)
    bases: Mapping[Partition, list[Prefix]] = field(default_factory=dict)
    """Prefixes with known vectors, from these commits and the translator's index."""
    told: Mapping[Partition, list[Prefix]] = field(default_factory=dict)
    """Prefixes with partly known vectors: part of the log was deleted, or in open transactions."""


def read(connection: Connection, cluster: str, incarnations: Mapping[Partition, int]) -> CommitRows:
    """Read the stored commits of these logs; rows of another incarnation are left out."""
    t = group_commits.c
    these = sa.and_(t.cluster == cluster, sa.not_(t.is_ended), among((t.stream, t.partition), list(incarnations)))
    commits: dict[GroupPartition, CommitRow] = {}
    bases: dict[Partition, list[Prefix]] = {}
    told: dict[Partition, list[Prefix]] = {}
    for row in connection.execute(sa.select(group_commits).where(these)):
        if row.incarnation != incarnations[row.stream, row.partition]:
            continue
        commits[store.group_partition(row.stream, row.partition, row.group)] = CommitRow(
            offset=row.committed_offset,
            committed_at_ms=row.committed_at_ms,
            timestamp_ms=row.timestamp_ms,
            safe_timestamp_ms=row.safe_timestamp_ms,
        )
        if row.vector is not None:
            one = Prefix(offset=row.committed_offset, seen=origin.from_plain(row.vector), whole=row.whole)
            (bases if row.whole else told).setdefault((row.stream, row.partition), []).append(one)
    logs = {(cluster, *partition): incarnation for partition, incarnation in incarnations.items()}
    for (_, stream, partition), marks in store.read_marks(connection, logs).items():
        some = [Prefix(offset=mark.first, seen=mark.seen, whole=mark.whole) for mark in marks]
        bases.setdefault((stream, partition), []).extend(some)
    return CommitRows(commits, bases, told)
