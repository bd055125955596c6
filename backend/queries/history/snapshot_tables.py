"""History of observations, kept for a while, for pages of earlier positions.

A snapshot each minute stores what has changed since the previous one (`past.py`). `since` is the first snapshot
with the row, `until` the first one without it, or with changes; NULL: the newest snapshot has it. `is_newest`
marks the last row of its key, which may have ended: keys are found by it, however many rows each has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Table
from sqlalchemy.dialects.postgresql import JSONB

from backend.eventlog.tables import METADATA
from backend.queries.base.observed import STALE, cluster_replication
from backend.queries.offsets.offset_tables import applied_offsets, group_commits, groups_not_followed

looks = sa.Table("looks", METADATA, sa.Column("at", sa.DateTime(timezone=True), primary_key=True))
"""Times of the snapshots that are still kept."""


_OF_ROWS = ("since", "until", "is_newest")


def _past(name: str, keys: tuple[sa.Column[Any], ...], values: tuple[sa.Column[Any], ...]) -> Table:
    table = sa.Table(
        name,
        METADATA,
        *keys,
        sa.Column("since", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("until", sa.DateTime(timezone=True)),
        sa.Column("is_newest", sa.Boolean, nullable=False),
        *values,
    )
    names = [key.name for key in keys]
    sa.Index(f"{name}_newest", *(table.c[key] for key in names), unique=True, postgresql_where=table.c.is_newest)
    sa.Index(f"{name}_until", table.c.until, postgresql_where=table.c.until.is_not(None))
    return table


def _place() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("group", sa.Text, primary_key=True),
    )


# Columns are those of the tables whose history it is.
past_commits = _past(
    "past_commits",
    _place(),
    (
        sa.Column("technical_group", sa.Text, nullable=False),
        sa.Column("committed_offset", sa.BigInteger, nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
    ),
)

for _name in ("stream", "group"):
    sa.Index(f"past_commits_{_name}", past_commits.c[_name], postgresql_where=past_commits.c.is_newest)
# Also for rows that are not the newest: a group may have had another name. Rows of one place are together.
sa.Index("past_commits_called", past_commits.c.technical_group, *(past_commits.c[key.name] for key in _place()))

past_applied = _past(
    "past_applied",
    _place(),
    (
        sa.Column("technical_group", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("origin_cluster", sa.Text, nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
        sa.Column("offset", sa.BigInteger),
        sa.Column("mode", sa.Text),
        sa.Column("re_read_bound", sa.BigInteger),
        sa.Column("settled", sa.Boolean),
        sa.Column("applied_at_ms", sa.BigInteger),
    ),
)

_OF = ("stream", "partition", "group")
sa.Index("past_applied_of", *(past_applied.c[name] for name in _OF), postgresql_where=past_applied.c.is_newest)

past_not_followed = _past(
    "past_not_followed",
    (
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("technical_group", sa.Text, primary_key=True),
        sa.Column("topic", sa.Text, primary_key=True),
    ),
    (sa.Column("reason", sa.Text, nullable=False),),
)

past_replication = _past(
    "past_replication",
    (sa.Column("kafka_cluster_id", sa.Text, primary_key=True),),
    (
        # Without single topics, of which there are many.
        sa.Column("health", JSONB(none_as_null=True)),
        sa.Column("reason", sa.Text),
        # Whether the health was stale at the snapshot, because the cluster had not been polled since.
        sa.Column("is_stale", sa.Boolean, nullable=False),
        # Time of the poll, if it was stale or there is a reason; otherwise some time at which it was so.
        sa.Column("seen_at", sa.DateTime(timezone=True)),
    ),
)


@dataclass(frozen=True)
class Watched:
    """A table of observations, and the table of its history."""

    now: Table
    past: Table
    counts: ColumnElement[bool] = field(default_factory=sa.true)
    """Columns of `past` that are computed, not copied from `now`."""
    otherwise: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    """Columns whose change alone stores no new row."""
    beside: frozenset[str] = frozenset()
    """Columns that tell nothing new by themselves."""

    @property
    def keys(self) -> list[str]:
        """Return the columns that identify a row's subject."""
        return [column.name for column in self.past.primary_key if column.name != "since"]

    def values(self) -> dict[str, ColumnElement[Any]]:
        """Return the current values of the other columns of `past`."""
        names = [column.name for column in self.past.c if column.name not in (*self.keys, *_OF_ROWS)]
        return {name: self.otherwise[name] if name in self.otherwise else self.now.c[name] for name in names}


COMMITS = Watched(group_commits, past_commits, counts=sa.not_(group_commits.c.is_ended))
APPLIED = Watched(applied_offsets, past_applied)
NOT_FOLLOWED = Watched(groups_not_followed, past_not_followed)
REPLICATION = Watched(
    cluster_replication,
    past_replication,
    otherwise={
        "health": cluster_replication.c.health.delete_path(["declared_topics"]),
        "is_stale": sa.func.coalesce(
            sa.func.clock_timestamp() - cluster_replication.c.seen_at > STALE, sa.false()
        ),
    },
    beside=frozenset({"seen_at"}),
)
WATCHED = (COMMITS, APPLIED, NOT_FOLLOWED, REPLICATION)
