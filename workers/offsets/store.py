"""What the translator keeps in the database between its runs (`queries/offset_tables.py`)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain import origin
from backend.domain.committing import OwnCommit
from backend.domain.log_index import Mark, Prefix
from backend.domain.offset_map import Follower
from backend.queries.offset_tables import (
    applied_offsets,
    commit_log_positions,
    group_commits,
    groups_not_followed,
    log_marks,
)

_LONGEST_GROUP = 249

Log = tuple[str, str, int]
"""(cluster, stream, partition)."""


def read_marks(connection: Connection, logs: Mapping[Log, int]) -> dict[Log, list[Mark]]:
    """The index of each log, in order; `logs`: log -> incarnation of its newest records."""
    t = log_marks.c
    wanted = [(*log, incarnation) for log, incarnation in logs.items()]
    query = sa.select(log_marks).where(sa.tuple_(t.cluster, t.stream, t.partition, t.incarnation).in_(wanted))
    found: dict[Log, list[Mark]] = {}
    for row in connection.execute(query.order_by(t.cluster, t.stream, t.partition, t.first)):
        last = None if row.last_offset is None else (row.last_offset, row.last_timestamp_ms)
        mark = Mark(
            first=row.first,
            seen=origin.from_plain(row.seen),
            min_timestamp_ms=row.min_timestamp_ms,
            last=last,
            whole=row.whole,
        )
        found.setdefault((row.cluster, row.stream, row.partition), []).append(mark)
    return found


def write_marks(
    connection: Connection, log: Log, incarnation: int, marks: Iterable[Mark], anew: bool, kept_from: int
) -> None:
    """Add marks to a log's index, replacing those at the same places; `anew`: forget all others, which is done
    with those before `kept_from` anyway."""
    cluster, stream, partition = log
    t = log_marks.c
    other = sa.true() if anew else sa.or_(t.incarnation != incarnation, t.first < kept_from)
    these = (t.cluster == cluster, t.stream == stream, t.partition == partition)
    connection.execute(sa.delete(log_marks).where(*these, other))
    rows = [
        {
            "cluster": cluster,
            "stream": stream,
            "partition": partition,
            "first": mark.first,
            "incarnation": incarnation,
            "seen": origin.plain(mark.seen),
            "min_timestamp_ms": mark.min_timestamp_ms,
            "last_offset": mark.last[0] if mark.last else None,
            "last_timestamp_ms": mark.last[1] if mark.last else None,
            "whole": mark.whole,
        }
        for mark in marks
    ]
    if rows:
        _upsert(connection, log_marks, rows)


def read_prefixes(connection: Connection, log: Log, incarnation: int, up_to: int) -> list[Prefix]:
    """What is known of the beginning of a log from what groups committed there, not behind an offset. What is gone
    of the log by now was there when they did."""
    cluster, stream, partition = log
    t = group_commits.c
    query = (
        sa.select(t.committed_offset, t.vector, t.whole)
        .where(t.cluster == cluster, t.stream == stream, t.partition == partition)
        .where(t.incarnation == incarnation, t.committed_offset <= up_to, t.vector.is_not(None))
        .order_by(t.committed_offset.desc())
    )
    return [
        Prefix(offset=row.committed_offset, seen=origin.from_plain(row.vector), whole=row.whole)
        for row in connection.execute(query)
    ]


def write_commits(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Groups' latest commits, with what stands there."""
    if rows:
        _upsert(connection, group_commits, rows)


def forget_commits(connection: Connection, gone: Collection[tuple[str, str, int, str]]) -> None:
    """(cluster, stream, partition, group) whose offset expired or was deleted."""
    _forget(connection, group_commits, gone)


def keep(connection: Connection, streams: Collection[str], members: Collection[str]) -> None:
    """Forget what is known of all other streams and clusters: they were deleted, or taken out of the tree.

    Not commits in other streams: they are on the map, and have to be taken back from it first; nor what was
    applied to them, which is its committer's to forget.
    """
    connection.execute(sa.delete(log_marks).where(log_marks.c.stream.not_in(list(streams))))
    for table in (group_commits, log_marks, applied_offsets, commit_log_positions, groups_not_followed):
        connection.execute(sa.delete(table).where(table.c.cluster.not_in(list(members))))


def read_followers_of_others(connection: Connection, streams: Collection[str]) -> list[tuple[str, Follower, str]]:
    """Whose progress in all other streams is on the map: (cluster where it was made, who, technical group)."""
    t = group_commits.c
    query = sa.select(t.cluster, t.stream, t.partition, t.group, t.technical_group)
    rows = connection.execute(query.where(t.stream.not_in(list(streams))))
    return [(row.cluster, follower(row.stream, row.partition, row.group), row.technical_group) for row in rows]


def follower(stream: str, partition: int, group: str) -> Follower:
    """From a row's parts; `stream` in full."""
    tenant, instance, environment, name = stream.split("/")
    return Follower(
        tenant=tenant, instance=instance, environment=environment, stream=name, partition=partition, group=group
    )


Order = tuple[OwnCommit | None, int | None]
"""(the group's last commit on a cluster, time of what was applied there); None: nothing was."""


def read_orders(connection: Connection, cluster: str, followers: Collection[Follower]) -> dict[Follower, Order]:
    """What came before on a cluster, by follower."""
    keys = [(cluster, each.stream_name, each.partition, each.group) for each in followers]
    found: dict[Follower, Order] = {}
    if not keys:
        return found
    t = group_commits.c
    these = sa.tuple_(t.cluster, t.stream, t.partition, t.group).in_(keys)
    for row in connection.execute(sa.select(group_commits).where(these)):
        own = OwnCommit(row.committed_offset, row.committed_at_ms, row.broker_ms)
        found[follower(row.stream, row.partition, row.group)] = (own, None)
    t = applied_offsets.c
    these = sa.tuple_(t.cluster, t.stream, t.partition, t.group).in_(keys)
    for row in connection.execute(sa.select(applied_offsets).where(these)):
        whose = follower(row.stream, row.partition, row.group)
        found[whose] = (found.get(whose, (None, None))[0], row.set_for_ms)
    return found


def read_older(connection: Connection, cluster: str, followers: Collection[Follower]) -> dict[str, list[Follower]]:
    """By other clusters, who made progress there that is not later than that on this one."""
    keys = [(each.stream_name, each.partition, each.group) for each in followers]
    here, there = group_commits.alias(), group_commits.alias()
    same = [here.c[name] == there.c[name] for name in ("stream", "partition", "group")]
    query = (
        sa.select(there.c.cluster, there.c.stream, there.c.partition, there.c.group)
        .join_from(here, there, sa.and_(*same, there.c.cluster != here.c.cluster))
        .where(here.c.cluster == cluster, there.c.committed_at_ms <= here.c.committed_at_ms)
        .where(sa.tuple_(here.c.stream, here.c.partition, here.c.group).in_(keys))
    )
    found: dict[str, list[Follower]] = {}
    for row in connection.execute(query):
        found.setdefault(row.cluster, []).append(follower(row.stream, row.partition, row.group))
    return found


def write_not_followed(connection: Connection, rows: Collection[tuple[str, str, str, str]]) -> None:
    """(cluster, technical group, topic, reason) of groups whose offsets are not distributed."""
    now = datetime.now(UTC)
    kept = {
        (cluster, shown_group(group), topic): {
            "cluster": cluster,
            "technical_group": shown_group(group),
            "topic": topic,
            "reason": reason,
            "seen_at": now,
        }
        for cluster, group, topic, reason in rows
    }
    if kept:
        _upsert(connection, groups_not_followed, list(kept.values()))


def forget_not_followed(connection: Connection, rows: Collection[tuple[str, str, str]]) -> None:
    """(cluster, technical group, topic) of groups that are followed now, or have no offsets there any more."""
    t = groups_not_followed.c
    keys = sorted({(cluster, shown_group(group), topic) for cluster, group, topic in rows})
    if keys:
        these = sa.tuple_(t.cluster, t.technical_group, t.topic).in_(keys)
        connection.execute(sa.delete(groups_not_followed).where(these))


def read_not_followed(connection: Connection) -> list[tuple[str, str, str]]:
    """(cluster, technical group, topic) of all."""
    t = groups_not_followed.c
    return [tuple(row) for row in connection.execute(sa.select(t.cluster, t.technical_group, t.topic))]


def shown_group(name: str) -> str:
    """A group's name as it is kept here: Kafka's clients take names of 32,767 bytes, with any character."""
    if len(name) <= _LONGEST_GROUP and name.isprintable():
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{ascii(name[:_LONGEST_GROUP])[1:-1][:_LONGEST_GROUP]}... ({digest})"


def read_applied(connection: Connection, cluster: str) -> list[dict[str, Any]]:
    """What was done about groups on a cluster."""
    query = sa.select(applied_offsets).where(applied_offsets.c.cluster == cluster)
    return [dict(row._mapping) for row in connection.execute(query)]


def write_applied(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """What was done about groups."""
    if rows:
        _upsert(connection, applied_offsets, rows)


def forget_applied(connection: Connection, gone: Collection[tuple[str, str, int, str]]) -> None:
    """(cluster, stream, partition, group) about which nothing is to be done any more."""
    _forget(connection, applied_offsets, gone)


def read_positions(connection: Connection, cluster: str, kafka_cluster_id: str) -> dict[int, int]:
    """Where reading a cluster's `__consumer_offsets` goes on; empty for one that was never read."""
    t = commit_log_positions.c
    query = sa.select(t.positions).where(t.cluster == cluster, t.kafka_cluster_id == kafka_cluster_id)
    found = connection.execute(query).scalar_one_or_none() or {}
    return {int(number): offset for number, offset in found.items()}


def write_positions(
    connection: Connection, cluster: str, kafka_cluster_id: str, positions: Mapping[int, int]
) -> None:
    """Where reading goes on, once what came before is written down."""
    known = {**read_positions(connection, cluster, kafka_cluster_id), **positions}
    row = {
        "cluster": cluster,
        "kafka_cluster_id": kafka_cluster_id,
        "positions": {str(number): offset for number, offset in known.items()},
    }
    _upsert(connection, commit_log_positions, [row])


def _forget(connection: Connection, table: sa.Table, gone: Collection[tuple[str, str, int, str]]) -> None:
    if gone:
        t = table.c
        these = sa.tuple_(t.cluster, t.stream, t.partition, t.group).in_(list(gone))
        connection.execute(sa.delete(table).where(these))


def _upsert(connection: Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    keys = [column.name for column in table.primary_key]
    # Sorted, so that two who write the same rows never wait for each other in a ring.
    ordered = sorted(rows, key=lambda row: tuple(row[key] for key in keys))
    statement = insert(table)
    changed = {column.name: statement.excluded[column.name] for column in table.c if column.name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), ordered)
