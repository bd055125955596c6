"""Looking at what is observed, so that pages of an earlier position can show it, and finding what a look saw."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table

from backend.queries.past_tables import WATCHED, Watched, looks

FORGOTTEN_AT_ONCE = 10_000
_LOCK = sa.func.pg_try_advisory_xact_lock(sa.func.hashtext("treeline.looks"))
# A look is behind the one before, whatever the database's clock does.
_NOW = sa.select(
    sa.func.greatest(
        sa.func.clock_timestamp(),
        sa.select(sa.func.max(looks.c.at) + timedelta(microseconds=1)).scalar_subquery(),
    )
)


@dataclass(frozen=True, kw_only=True)
class Look:
    """The newest one that is not behind a moment."""

    at: datetime
    moment: datetime

    @property
    def seconds_before(self) -> float:
        """That it was before the moment."""
        return (self.moment - self.at).total_seconds()


# --- looking


def take(connection: Connection) -> bool:
    """Look at all that is observed, and write down what is otherwise than at the look before.

    False: another process does so now.
    """
    if not connection.scalar(sa.select(_LOCK)):
        return False
    now = connection.execute(_NOW).scalar_one()
    for each in WATCHED:
        connection.execute(_ended(each, now))
        connection.execute(_begun(each, now))
    connection.execute(sa.insert(looks).values(at=now))
    return True


def _ended(watched: Watched, now: datetime) -> sa.Update:
    past = watched.past
    same = [past.c[name].is_not_distinct_from(value) for name, value in watched.values().items()]
    still = sa.exists().where(watched.counts, *_same_key(watched), *same)
    return sa.update(past).where(past.c.until.is_(None), sa.not_(still)).values(until=now)


def _begun(watched: Watched, now: datetime) -> sa.Insert:
    past, values = watched.past, watched.values()
    known = sa.exists().where(past.c.until.is_(None), *_same_key(watched))
    rows = sa.select(
        *(watched.now.c[name] for name in watched.keys), sa.literal(now, past.c.since.type), *values.values()
    ).where(watched.counts, sa.not_(known))
    return sa.insert(past).from_select([*watched.keys, "since", *values], rows)


def _same_key(watched: Watched) -> list[ColumnElement[bool]]:
    return [watched.past.c[name] == watched.now.c[name] for name in watched.keys]


def forget(connection: Connection, hours: float, most_rows: int) -> bool:
    """Let go of looks that are too old, and of the oldest while any table has more than so many rows of the past;
    some rows at a time. Whether there may be more of them."""
    horizon = connection.execute(sa.select(sa.func.clock_timestamp() - timedelta(hours=hours))).scalar_one()
    for each in WATCHED:
        until = each.past.c.until
        query = sa.select(until).where(until.is_not(None)).order_by(until.desc()).offset(most_rows).limit(1)
        horizon = max(horizon, connection.scalar(query) or horizon)
    connection.execute(sa.delete(looks).where(looks.c.at < horizon))
    more = False
    for each in WATCHED:
        key = sa.tuple_(*each.past.primary_key)
        old = sa.select(*each.past.primary_key).where(each.past.c.until <= horizon).limit(FORGOTTEN_AT_ONCE)
        gone = connection.execute(sa.delete(each.past).where(key.in_(old))).rowcount
        more = more or gone == FORGOTTEN_AT_ONCE
    return more


# --- what was seen


def holds(past: Table, look: Look) -> ColumnElement[bool]:
    """The WHERE clause for what a look saw."""
    return sa.and_(past.c.since <= look.at, sa.or_(past.c.until.is_(None), past.c.until > look.at))


def look_before(connection: Connection, moment: datetime | None) -> Look | None:
    """The newest look that was not after a moment; None if it is not kept, or there was none."""
    if moment is None:
        return None
    query = sa.select(looks.c.at).where(looks.c.at <= moment).order_by(looks.c.at.desc()).limit(1)
    at = connection.execute(query).scalar_one_or_none()
    return None if at is None else Look(at=at, moment=moment)


def oldest_look(connection: Connection) -> datetime | None:
    """From when on is known what was seen."""
    oldest: datetime | None = connection.execute(sa.select(sa.func.min(looks.c.at))).scalar_one()
    return oldest
