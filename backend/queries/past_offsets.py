"""What groups had committed, and where they went on on the other clusters, as a look saw it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Row

from backend.queries.offsets import (
    CommitRow,
    NotFollowedRow,
    Place,
    Wanted,
    key_of,
    these_places,
    with_elsewhere,
)
from backend.queries.past import Look, seen
from backend.queries.past_tables import APPLIED, COMMITS, NOT_FOLLOWED


def list_commits(connection: Connection, wanted: Wanted, look: Look) -> list[CommitRow]:
    """At most so many rows behind a place."""
    found = seen(COMMITS, look)
    shown = [found.rows.c[each.name] for each in fields(CommitRow) if each.name in found.rows.c]
    query = found.select(look).with_only_columns(*shown).where(*wanted.of(found.keys, found.rows))
    rows = connection.execute(query.order_by(*key_of(found.keys)).limit(wanted.limit))
    return with_elsewhere(CommitRow, rows, lambda made: _applied(connection, made, look))


def _applied(connection: Connection, made: Collection[Place], look: Look) -> Iterable[Row[Any]]:
    found, these = seen(APPLIED, look), these_places(made)
    same = (found.keys.c[part] == these.c[part] for part in ("stream", "partition", "group"))
    query = found.select(look).join(these, found.rows.c.origin_cluster == these.c.origin_cluster).where(*same)
    return connection.execute(query.order_by(found.keys.c.cluster))


def list_not_followed(connection: Connection, most: int, look: Look) -> list[NotFollowedRow]:
    """Groups whose offsets were not distributed, by cluster, group and topic; at most so many."""
    found = seen(NOT_FOLLOWED, look)
    shown = [found.rows.c[each.name] for each in fields(NotFollowedRow)]
    query = found.select(look).with_only_columns(*shown).limit(most)
    order = (found.keys.c[name] for name in NOT_FOLLOWED.keys)
    return [NotFollowedRow(**row._mapping) for row in connection.execute(query.order_by(*order))]
