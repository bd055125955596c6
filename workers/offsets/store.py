"""What the translator keeps in the database between its runs (`queries/offset_tables.py`)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.offsets.committing import OwnCommit
from backend.domain.offsets.offset_map import Follower
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
    """The index of each log, in order; `logs`: log -> incarnation of its newest records."""
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
    """(cluster, stream, partition, group) whose progress is on the map no more."""
    _forget(connection, group_commits, gone)


def end_commits(connection: Connection, gone: Collection[tuple[str, str, int, str]]) -> None:
    """(cluster, stream, partition, group) whose progress has ended, as the map says."""
    if gone:
        t = group_commits.c
        these = among((t.cluster, t.stream, t.partition, t.group), gone)
        connection.execute(sa.update(group_commits).where(these).values(is_ended=True))


def keep(connection: Connection, streams: Collection[str], members: Collection[str]) -> None:
    """Forget what is known of all other streams and clusters: they were deleted, or taken out of the tree.

    Not commits: they are on the map, and have to be taken back from it first; nor what was applied in other
    streams, which is its committer's to forget.
    """
    connection.execute(sa.delete(log_marks).where(log_marks.c.stream.not_in(list(streams))))
    for table in (log_marks, applied_offsets, commit_log_positions, groups_not_followed):
        connection.execute(sa.delete(table).where(table.c.cluster.not_in(list(members))))


@dataclass(frozen=True, kw_only=True)
class OnTheMap:
    """Progress, or its end, that the map has."""

    cluster: str
    """Where it was made."""
    follower: Follower
    technical_group: str
    is_ended: bool


def read_progress_of_others(
    connection: Connection, streams: Collection[str], members: Collection[str]
) -> list[OnTheMap]:
    """What is on the map of all other streams and clusters."""
    t = group_commits.c
    return _on_the_map(connection, sa.or_(t.stream.not_in(list(streams)), t.cluster.not_in(list(members))))


def read_ends_of_nothing(connection: Connection, limit: int) -> list[OnTheMap]:
    """Ends of groups that have progress nowhere, at most so many: nobody has to be told any more."""
    t, other = group_commits.c, group_commits.alias()
    same = [t[name] == other.c[name] for name in ("stream", "partition", "group")]
    living = sa.exists().where(*same, sa.not_(other.c.is_ended))
    return _on_the_map(connection, sa.and_(t.is_ended, sa.not_(living)), limit)


def _on_the_map(connection: Connection, which: sa.ColumnElement[bool], limit: int | None = None) -> list[OnTheMap]:
    t = group_commits.c
    query = sa.select(t.cluster, t.stream, t.partition, t.group, t.technical_group, t.is_ended).where(which)
    return [
        OnTheMap(
            cluster=row.cluster,
            follower=follower(row.stream, row.partition, row.group),
            technical_group=row.technical_group,
            is_ended=row.is_ended,
        )
        for row in connection.execute(query.limit(limit))
    ]


def follower(stream: str, partition: int, group: str) -> Follower:
    """From a row's parts; `stream` in full."""
    tenant, instance, environment, name = stream.split("/")
    return Follower(
        tenant=tenant, instance=instance, environment=environment, stream=name, partition=partition, group=group
    )


Order = tuple[OwnCommit | None, int | None]
"""(the group's last commit on a cluster, time of what was applied there); None: nothing was."""


def read_orders(
    connection: Connection, cluster: str, kafka_cluster_id: str, followers: Collection[Follower]
) -> dict[Follower, Order]:
    """What came before on a cluster, by follower."""
    own = _rows(connection, group_commits, cluster, followers)
    applied = _rows(connection, applied_offsets, cluster, followers)
    return {
        whose: (
            _own_commit(own[whose], kafka_cluster_id) if whose in own else None,
            applied[whose].set_for_ms if whose in applied else None,
        )
        for whose in own.keys() | applied.keys()
    }


def _rows(
    connection: Connection, table: sa.Table, cluster: str, followers: Collection[Follower]
) -> dict[Follower, sa.Row[Any]]:
    """A table's rows of one cluster, by follower."""
    t = table.c
    keys = [(each.stream_name, each.partition, each.group) for each in followers]
    these = sa.and_(t.cluster == cluster, among((t.stream, t.partition, t.group), keys))
    rows = connection.execute(sa.select(table).where(these))
    return {follower(row.stream, row.partition, row.group): row for row in rows}


def _own_commit(row: sa.Row[Any], kafka_cluster_id: str) -> OwnCommit:
    read_at = row.read_at if row.kafka_cluster_id == kafka_cluster_id else None
    return OwnCommit(row.committed_offset, row.committed_at_ms, row.broker_ms, read_at)


@dataclass(frozen=True, kw_only=True)
class LastKnown:
    """Of a group's offset on a cluster that is gone."""

    own: OwnCommit | None
    """The group's own commit there; None: it never made one."""
    topic_incarnation: int | None
    """Of the topic in which it stood last; None: not known."""
    lives_elsewhere: bool
    """Whether there is progress of the group that was made on other clusters."""


def read_last_known(
    connection: Connection, cluster: str, kafka_cluster_id: str, followers: Collection[Follower]
) -> dict[Follower, LastKnown]:
    """What was known of offsets that are gone."""
    own = _rows(connection, group_commits, cluster, followers)
    applied = _rows(connection, applied_offsets, cluster, followers)
    t, keys = group_commits.c, [(each.stream_name, each.partition, each.group) for each in followers]
    others = sa.select(t.stream, t.partition, t.group).where(
        t.cluster != cluster, sa.not_(t.is_ended), among((t.stream, t.partition, t.group), keys)
    )
    living = {follower(row.stream, row.partition, row.group) for row in connection.execute(others)}
    found: dict[Follower, LastKnown] = {}
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


def forget_unseen(connection: Connection, cluster: str, since: datetime) -> None:
    """Groups that are not followed, of a cluster whose log was read as a whole since then without them."""
    t = groups_not_followed.c
    connection.execute(sa.delete(groups_not_followed).where(t.cluster == cluster, t.seen_at < since))


def forget_not_followed(connection: Connection, rows: Collection[tuple[str, str, str]]) -> None:
    """(cluster, technical group, topic) of groups that are followed now, or have no offsets there any more."""
    t = groups_not_followed.c
    keys = sorted({(cluster, shown_group(group), topic) for cluster, group, topic in rows})
    if keys:
        these = among((t.cluster, t.technical_group, t.topic), keys)
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
        these = among((t.cluster, t.stream, t.partition, t.group), gone)
        connection.execute(sa.delete(table).where(these))


def _upsert(connection: Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    keys = [column.name for column in table.primary_key]
    # Sorted, so that two who write the same rows never wait for each other in a ring.
    ordered = sorted(rows, key=lambda row: tuple(row[key] for key in keys))
    statement = insert(table)
    changed = {column.name: statement.excluded[column.name] for column in table.c if column.name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), ordered)
