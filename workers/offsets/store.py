"""Tables in which the translator keeps its state between runs (`queries/offsets/offset_tables.py`)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.offsets.commit_rules import OwnCommit
from backend.domain.offsets.offset_map import GroupPartition
from backend.domain.records import origin
from backend.domain.records.log_index import Mark, Prefix
from backend.queries.base.matching import among
from backend.queries.offsets.offset_tables import (
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
    """Read the index of each log, in order; `logs` maps a log to the incarnation of its newest records."""
    t = log_marks.c
    wanted = [(*log, incarnation) for log, incarnation in logs.items()]
    query = sa.select(log_marks).where(among((t.cluster, t.stream, t.partition, t.incarnation), wanted))
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
    """Add marks to a log's index, replacing those at the same offsets.

    `anew` deletes all other marks; marks before `kept_from` are always deleted.
    """
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
    """Read what groups' commits tell about the beginning of a log, up to an offset.

    Records that were deleted since existed when the groups committed.
    """
    cluster, stream, partition = log
    t = group_commits.c
    query = (
        sa.select(t.committed_offset, t.vector, t.whole)
        .where(t.cluster == cluster, t.stream == stream, t.partition == partition)
        .where(t.incarnation == incarnation, t.committed_offset <= up_to, t.vector.is_not(None))
    )
    return [
        Prefix(offset=row.committed_offset, seen=origin.from_plain(row.vector), whole=row.whole)
        for row in connection.execute(query)
    ]


def write_commits(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write groups' latest commits with their vectors and timestamps."""
    if rows:
        _upsert(connection, group_commits, rows)


def forget_commits(connection: Connection, gone: Collection[tuple[str, str, int, str]]) -> None:
    """Delete commits, given as (cluster, stream, partition, group), whose progress has left the map."""
    _forget(connection, group_commits, gone)


def end_commits(connection: Connection, gone: Collection[tuple[str, str, int, str]]) -> None:
    """Mark commits, given as (cluster, stream, partition, group), as ended on the map."""
    if gone:
        t = group_commits.c
        these = among((t.cluster, t.stream, t.partition, t.group), gone)
        connection.execute(sa.update(group_commits).where(these).values(is_ended=True))


def keep(connection: Connection, streams: Collection[str], members: Collection[str]) -> None:
    """Delete state of all other streams and clusters: they were deleted, or removed from the tree.

    Commits are kept: they are on the map and must be removed from it first. So are applied offsets of other
    streams, which their committer deletes.
    """
    connection.execute(sa.delete(log_marks).where(log_marks.c.stream.not_in(list(streams))))
    for table in (log_marks, applied_offsets, commit_log_positions, groups_not_followed):
        connection.execute(sa.delete(table).where(table.c.cluster.not_in(list(members))))


@dataclass(frozen=True, kw_only=True)
class MapEntry:
    """Progress, or its end, that is on the map."""

    cluster: str
    """Cluster of the commit."""
    group_partition: GroupPartition
    technical_group: str
    is_ended: bool


def read_progress_of_others(
    connection: Connection, streams: Collection[str], members: Collection[str]
) -> list[MapEntry]:
    """Return the map's progress in all other streams and clusters."""
    t = group_commits.c
    return _map_entries(connection, sa.or_(t.stream.not_in(list(streams)), t.cluster.not_in(list(members))))


def read_orphaned_ends(connection: Connection, limit: int) -> list[MapEntry]:
    """Return up to `limit` ends of groups without any progress: no cluster needs them any more."""
    t, other = group_commits.c, group_commits.alias()
    same = [t[name] == other.c[name] for name in ("stream", "partition", "group")]
    living = sa.exists().where(*same, sa.not_(other.c.is_ended))
    return _map_entries(connection, sa.and_(t.is_ended, sa.not_(living)), limit)


def _map_entries(
    connection: Connection, which: sa.ColumnElement[bool], limit: int | None = None
) -> list[MapEntry]:
    t = group_commits.c
    query = sa.select(t.cluster, t.stream, t.partition, t.group, t.technical_group, t.is_ended).where(which)
    return [
        MapEntry(
            cluster=row.cluster,
            group_partition=group_partition(row.stream, row.partition, row.group),
            technical_group=row.technical_group,
            is_ended=row.is_ended,
        )
        for row in connection.execute(query.limit(limit))
    ]


def group_partition(stream: str, partition: int, group: str) -> GroupPartition:
    """Build a group partition from a row's columns; `stream` is the full name."""
    tenant, instance, environment, name = stream.split("/")
    return GroupPartition(
        tenant=tenant, instance=instance, environment=environment, stream=name, partition=partition, group=group
    )


Order = tuple[OwnCommit | None, int | None]
"""(the group's last own commit on a cluster, time of the progress applied there); None where there is none."""


def read_orders(
    connection: Connection, cluster: str, kafka_cluster_id: str, group_partitions: Collection[GroupPartition]
) -> dict[GroupPartition, Order]:
    """Return what came before on a cluster, by group partition."""
    own = _rows(connection, group_commits, cluster, group_partitions)
    applied = _rows(connection, applied_offsets, cluster, group_partitions)
    return {
        whose: (
            _own_commit(own[whose], kafka_cluster_id) if whose in own else None,
            applied[whose].set_for_ms if whose in applied else None,
        )
        for whose in own.keys() | applied.keys()
    }


def _rows(
    connection: Connection, table: sa.Table, cluster: str, group_partitions: Collection[GroupPartition]
) -> dict[GroupPartition, sa.Row[Any]]:
    """Return a table's rows of one cluster, by group partition."""
    t = table.c
    keys = [(each.stream_name, each.partition, each.group) for each in group_partitions]
    these = sa.and_(t.cluster == cluster, among((t.stream, t.partition, t.group), keys))
    rows = connection.execute(sa.select(table).where(these))
    return {group_partition(row.stream, row.partition, row.group): row for row in rows}


def _own_commit(row: sa.Row[Any], kafka_cluster_id: str) -> OwnCommit:
    read_at = row.read_at if row.kafka_cluster_id == kafka_cluster_id else None
    return OwnCommit(row.committed_offset, row.committed_at_ms, row.broker_ms, read_at)


@dataclass(frozen=True, kw_only=True)
class LastKnown:
    """Last known state of an offset that is gone from a cluster."""

    own: OwnCommit | None
    """The group's own commit there; None: it never made one."""
    topic_incarnation: int | None
    """Incarnation of the topic of the last commit; None: not known."""
    lives_elsewhere: bool
    """Tells whether the group has progress on other clusters."""


def read_last_known(
    connection: Connection, cluster: str, kafka_cluster_id: str, group_partitions: Collection[GroupPartition]
) -> dict[GroupPartition, LastKnown]:
    """Return what was known of offsets that are gone."""
    own = _rows(connection, group_commits, cluster, group_partitions)
    applied = _rows(connection, applied_offsets, cluster, group_partitions)
    t, keys = group_commits.c, [(each.stream_name, each.partition, each.group) for each in group_partitions]
    others = sa.select(t.stream, t.partition, t.group).where(
        t.cluster != cluster, sa.not_(t.is_ended), among((t.stream, t.partition, t.group), keys)
    )
    living = {group_partition(row.stream, row.partition, row.group) for row in connection.execute(others)}
    found: dict[GroupPartition, LastKnown] = {}
    for whose in own.keys() | applied.keys():
        incarnations = [own[whose].topic_incarnation] if whose in own else []
        incarnations += [applied[whose].incarnation] if whose in applied else []
        found[whose] = LastKnown(
            own=_own_commit(own[whose], kafka_cluster_id) if whose in own else None,
            topic_incarnation=max((each for each in incarnations if each is not None), default=None),
            lives_elsewhere=whose in living,
        )
    return found


def write_not_followed(connection: Connection, rows: Collection[tuple[str, str, str, str]]) -> None:
    """Store groups whose offsets are not distributed: (cluster, technical group, topic, reason)."""
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


def forget_unseen(connection: Connection, cluster: str, since: datetime) -> None:
    """Delete undistributed groups that did not occur when the cluster's log was read from `since` on."""
    t = groups_not_followed.c
    connection.execute(sa.delete(groups_not_followed).where(t.cluster == cluster, t.seen_at < since))


def forget_not_followed(connection: Connection, rows: Collection[tuple[str, str, str]]) -> None:
    """Delete (cluster, technical group, topic) of groups that are distributed now or have no offset."""
    t = groups_not_followed.c
    keys = sorted({(cluster, shown_group(group), topic) for cluster, group, topic in rows})
    if keys:
        these = among((t.cluster, t.technical_group, t.topic), keys)
        connection.execute(sa.delete(groups_not_followed).where(these))


def read_not_followed(connection: Connection) -> list[tuple[str, str, str]]:
    """Return (cluster, technical group, topic) of all undistributed groups."""
    t = groups_not_followed.c
    return [tuple(row) for row in connection.execute(sa.select(t.cluster, t.technical_group, t.topic))]


def shown_group(name: str) -> str:
    """Shorten a group's name for storage: Kafka's clients accept names of 32,767 bytes with any character."""
    if len(name) <= _LONGEST_GROUP and name.isprintable():
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{ascii(name[:_LONGEST_GROUP])[1:-1][:_LONGEST_GROUP]}... ({digest})"


def read_applied(connection: Connection, cluster: str) -> list[dict[str, Any]]:
    """Read the committer's results on a cluster."""
    query = sa.select(applied_offsets).where(applied_offsets.c.cluster == cluster)
    return [dict(row._mapping) for row in connection.execute(query)]


def write_applied(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write the committer's results."""
    if rows:
        _upsert(connection, applied_offsets, rows)


def forget_applied(connection: Connection, gone: Collection[tuple[str, str, int, str]]) -> None:
    """Delete results of (cluster, stream, partition, group)."""
    _forget(connection, applied_offsets, gone)


def read_positions(connection: Connection, cluster: str, kafka_cluster_id: str) -> dict[int, int]:
    """Read the positions in a cluster's `__consumer_offsets`; empty for a cluster that was never read."""
    t = commit_log_positions.c
    query = sa.select(t.positions).where(t.cluster == cluster, t.kafka_cluster_id == kafka_cluster_id)
    found = connection.execute(query).scalar_one_or_none() or {}
    return {int(number): offset for number, offset in found.items()}


def write_positions(
    connection: Connection, cluster: str, kafka_cluster_id: str, positions: Mapping[int, int]
) -> None:
    """Write the positions, once everything before them is stored."""
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
        these = among((t.cluster, t.stream, t.partition, t.group), gone)
        connection.execute(sa.delete(table).where(these))


def _upsert(connection: Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    keys = [column.name for column in table.primary_key]
    # Sorted, so that concurrent writers of the same rows cannot deadlock.
    ordered = sorted(rows, key=lambda row: tuple(row[key] for key in keys))
    statement = insert(table)
    changed = {column.name: statement.excluded[column.name] for column in table.c if column.name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), ordered)
