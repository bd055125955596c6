"""Snapshots of observations for pages of earlier positions: taking them, and reading what one contains."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Engine, FromClause

from backend.queries.history.snapshot_tables import WATCHED, Watched, looks

FORGOTTEN_AT_ONCE = 10_000
MOST_PIECES = 20
LONGEST_SECONDS = 600
_LOCK = sa.func.pg_try_advisory_xact_lock(sa.func.hashtext("treeline.looks"))
# A snapshot is later than the previous one, whatever the database's clock does.
_NOW = sa.select(
    sa.func.greatest(
        sa.func.clock_timestamp(),
        sa.select(sa.func.max(looks.c.at) + timedelta(microseconds=1)).scalar_subquery(),
    )
)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The newest snapshot at or before a moment."""

    at: datetime
    moment: datetime

    @property
    def seconds_before(self) -> float:
        """Return the seconds between the snapshot and the moment."""
        return (self.moment - self.at).total_seconds()


# --- looking


def take_snapshot(engine: Engine) -> bool:
    """Take a snapshot of all observations: store what has changed since the previous one.

    Returns False if another process is doing so. Raises DomainError, and has written nothing then.
    """
    # A concurrent change is seen by all statements, or by none.
    with engine.execution_options(isolation_level="REPEATABLE READ").begin() as connection:
        if not connection.scalar(sa.select(_LOCK)):
            return False
        # The first snapshot of a large estate writes everything; it runs in its own thread.
        connection.execute(sa.text(f"SET LOCAL statement_timeout = '{LONGEST_SECONDS}s'"))
        now = connection.execute(_NOW).scalar_one()
        for each in WATCHED:
            connection.execute(_ended(each, now))
            connection.execute(_followed(each))
            connection.execute(_begun(each, now))
        connection.execute(sa.insert(looks).values(at=now))
        return True


def _ended(watched: Watched, now: datetime) -> sa.Update:
    """End the rows of the previous snapshot that are gone, or have changed."""
    past = watched.past
    values = {name: value for name, value in watched.values().items() if name not in watched.beside}
    same = [past.c[name].is_not_distinct_from(value) for name, value in values.items()]
    still = sa.exists().where(watched.counts, *_same_key(watched), *same)
    return sa.update(past).where(past.c.is_newest, past.c.until.is_(None), sa.not_(still)).values(until=now)


def _followed(watched: Watched) -> sa.Update:
    """Unmark ended rows that have a successor now."""
    past = watched.past
    again = sa.exists().where(watched.counts, *_same_key(watched))
    return sa.update(past).where(past.c.is_newest, past.c.until.is_not(None), again).values(is_newest=False)


def _begun(watched: Watched, now: datetime) -> sa.Insert:
    """Insert rows that are new, or have changed."""
    past, values = watched.past, watched.values()
    known = sa.exists().where(past.c.is_newest, past.c.until.is_(None), *_same_key(watched))
    keys = [watched.now.c[name] for name in watched.keys]
    rows = sa.select(*keys, sa.literal(now, past.c.since.type), sa.true(), *values.values())
    names = [*watched.keys, "since", "is_newest", *values]
    # Sorted, so that all rows are found before the first is written: while the table seems empty, it is scanned
    # for each row, and rows written here would be scanned again and again.
    found = rows.where(watched.counts, sa.not_(known)).order_by(*keys)
    return sa.insert(past).from_select(names, found)


def _same_key(watched: Watched) -> list[ColumnElement[bool]]:
    return [watched.past.c[name] == watched.now.c[name] for name in watched.keys]


def forget(engine: Engine, hours: float, most_rows: int) -> None:
    """Delete snapshots that are too old, and the oldest ones while any table has too many ended rows.

    Rows are deleted in a limited number of batches; the rest follows after the next snapshot.
    """
    with engine.begin() as connection:
        connection.execute(sa.text(f"SET LOCAL statement_timeout = '{LONGEST_SECONDS}s'"))
        horizon = _horizon(connection, hours, most_rows)
        connection.execute(sa.delete(looks).where(looks.c.at < horizon))
    for _ in range(MOST_PIECES):
        with engine.begin() as connection:
            if not _forget_some(connection, horizon):
                return


def _horizon(connection: Connection, hours: float, most_rows: int) -> datetime:
    """Return the oldest time from which everything is kept."""
    oldest = sa.select(sa.func.clock_timestamp() - timedelta(hours=hours))
    horizon: datetime = connection.execute(oldest).scalar_one()
    for each in WATCHED:
        until = each.past.c.until
        query = sa.select(until).where(until.is_not(None)).order_by(until.desc()).offset(most_rows).limit(1)
        horizon = max(horizon, connection.execute(query).scalar_one_or_none() or horizon)
    return horizon


def _forget_some(connection: Connection, horizon: datetime) -> bool:
    """Delete one batch; return whether there may be more."""
    more = False
    for each in WATCHED:
        key = sa.tuple_(*each.past.primary_key)
        old = sa.select(*each.past.primary_key).where(each.past.c.until <= horizon).limit(FORGOTTEN_AT_ONCE)
        gone = connection.execute(sa.delete(each.past).where(key.in_(old))).rowcount
        more = more or gone == FORGOTTEN_AT_ONCE
    return more


# --- what was seen


@dataclass(frozen=True)
class Seen:
    """Rows of a snapshot: the newest version of each key at that time, found by one step in an index."""

    keys: FromClause
    """The newest row of each key, to filter by keys."""
    rows: FromClause

    def select(self, snapshot: Snapshot) -> sa.Select[Any]:
        """Return the rows that the snapshot contains."""
        query = sa.select(self.rows).select_from(self.keys.join(self.rows, sa.true()))
        still = sa.or_(self.rows.c.until.is_(None), self.rows.c.until > snapshot.at)
        return query.where(self.keys.c.is_newest, still)


def seen(watched: Watched, snapshot: Snapshot) -> Seen:
    """Return the rows of one kind of observation in a snapshot."""
    past, keys = watched.past, watched.past.alias("keys")
    of_key = [past.c[name] == keys.c[name] for name in watched.keys]
    newest = sa.select(past).where(*of_key, past.c.since <= snapshot.at).order_by(past.c.since.desc()).limit(1)
    return Seen(keys, newest.lateral("seen"))


def snapshot_before(connection: Connection, moment: datetime | None) -> Snapshot | None:
    """Return the newest snapshot at or before a moment; None if it is no longer kept, or there was none."""
    if moment is None:
        return None
    query = sa.select(looks.c.at).where(looks.c.at <= moment).order_by(looks.c.at.desc()).limit(1)
    at = connection.execute(query).scalar_one_or_none()
    return None if at is None else Snapshot(at=at, moment=moment)


def oldest_snapshot(connection: Connection) -> datetime | None:
    """Return the time of the oldest snapshot."""
    oldest: datetime | None = connection.execute(sa.select(sa.func.min(looks.c.at))).scalar_one()
    return oldest
