"""Committed offsets, and the offsets set on the other clusters, as of a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, FromClause, Row

from backend.queries.history.snapshot_tables import APPLIED, COMMITS, NOT_FOLLOWED
from backend.queries.history.snapshots import Snapshot, seen
from backend.queries.offsets.offsets import (
    CommitRow,
    NotFollowedRow,
    Place,
    Wanted,
    key_of,
    these_places,
    with_elsewhere,
)


def list_commits(connection: Connection, wanted: Wanted, snapshot: Snapshot) -> list[CommitRow]:
    """Return at most `wanted.limit` rows after a place."""
    found = seen(COMMITS, snapshot)
    shown = [found.rows.c[each.name] for each in fields(CommitRow) if each.name in found.rows.c]
    query = found.select(snapshot).with_only_columns(*shown).where(*wanted.of(found.keys, found.rows))
    if wanted.group is not None:
        query = query.where(_ever_called(wanted.group, found.keys))
    rows = connection.execute(query.order_by(*key_of(found.keys)).limit(wanted.limit))
    return with_elsewhere(CommitRow, rows, lambda made: _applied(connection, made, snapshot))


def _ever_called(group: str, keys: FromClause) -> ColumnElement[bool]:
    """Return a condition on places whose group has, or had in any row, this name: only those are evaluated."""
    past = COMMITS.past
    place = [past.c[name] for name in COMMITS.keys]
    query = sa.select(*place).where(past.c.technical_group == group).order_by(*place).limit(1)
    # From each place to the next one: a busy group has some thousand rows of each.
    found = sa.select(query.subquery()).cte("called", recursive=True)
    behind = query.where(sa.tuple_(*place) > sa.tuple_(*found.c)).correlate(found).lateral("behind")
    found = found.union_all(sa.select(behind).select_from(found.join(behind, sa.true())))
    here = sa.tuple_(*(keys.c[name] for name in COMMITS.keys))
    return sa.or_(keys.c.group == group, here.in_(sa.select(*found.c)))


def _applied(connection: Connection, made: Collection[Place], snapshot: Snapshot) -> Iterable[Row[Any]]:
    found, these = seen(APPLIED, snapshot), these_places(made)
    same = (found.keys.c[part] == these.c[part] for part in ("stream", "partition", "group"))
    query = found.select(snapshot).join(these, found.rows.c.origin_cluster == these.c.origin_cluster).where(*same)
    return connection.execute(query.order_by(found.keys.c.cluster))


def list_not_followed(connection: Connection, most: int, snapshot: Snapshot) -> list[NotFollowedRow]:
    """Return at most `most` groups whose offsets were not distributed, by cluster, group and topic."""
    found = seen(NOT_FOLLOWED, snapshot)
    shown = [found.rows.c[each.name] for each in fields(NotFollowedRow)]
    query = found.select(snapshot).with_only_columns(*shown).limit(most)
    order = (found.keys.c[name] for name in NOT_FOLLOWED.keys)
    return [NotFollowedRow(**row._mapping) for row in connection.execute(query.order_by(*order))]
