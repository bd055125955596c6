"""The audit trail: the event log and the rows beside it (`logins.py`), newest first, with actor, time and origin.

Both are read in the order of their own place, position and id, and continue where the page before ended: a page
costs as much at the beginning of a log of millions as at its end. Where no index leads to the requested rows, at
most WINDOW_EVENTS are scanned for a page; the page may then be empty, and says where to continue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table

from backend.domain.access.access import Provenance
from backend.eventlog.provenance import event_provenance
from backend.eventlog.recorded import StoredEvent
from backend.eventlog.store import stored_of
from backend.eventlog.tables import BY_PEOPLE, actor_of, events
from backend.queries.access.logins import LoginKind, LoginRow, logins

WINDOW_EVENTS = 200_000
FURTHEST = 2**62
# Times are taken before the lock that orders positions: they may be this much out of order.
_ORDER = timedelta(minutes=10)
# No event is outside this range; further out, date arithmetic overflows the calendar.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
LOGINS = "Logins"
"""Kind of all rows that are no events."""


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Filter of the audit; empty or None means no restriction.

    `workers`: include what workers did by themselves. `own_streams`: of a tenant's events only those that its
    members may read, and not those of others that name the tenant. Times outside the range of possible events are
    moved to its nearest end.
    """

    actor: str = ""
    kind: str = ""
    tenant: str = ""
    since: datetime | None = None
    until: datetime | None = None
    workers: bool = False
    own_streams: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "since", _in_reach(self.since))
        object.__setattr__(self, "until", _in_reach(self.until))

    @property
    def of_logins(self) -> bool:
        """Tell whether the filter may match rows that are no events."""
        return not self.kind or self.kind == LOGINS or self.kind in set(LoginKind)

    @property
    def of_events(self) -> bool:
        """Tell whether the filter may match events."""
        return self.kind != LOGINS and self.kind not in set(LoginKind)


def _in_reach(moment: datetime | None) -> datetime | None:
    return None if moment is None else min(max(moment, _EARLIEST), _LATEST)


@dataclass(frozen=True)
class Place:
    """Place to continue from: all rows below it come next, in the log and among logins."""

    position: int = FURTHEST
    login: int = FURTHEST

    def __str__(self) -> str:
        return f"{self.position}.{self.login}"

    def or_lower(self, other: Place) -> Place:
        """Return the place that is below both."""
        return Place(min(self.position, other.position), min(self.login, other.login))

    @classmethod
    def of(cls, text: str) -> Place | None:
        """Parse the text that `str` gives; None if it is invalid."""
        parts = text.split(".")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) <= 19 for part in parts):
            return None
        position, login = map(int, parts)
        return cls(position, login) if max(position, login) <= FURTHEST else None


def place_after(connection: Connection, position: int) -> Place:
    """Return the place below which everything had been done when the event log was at a position."""
    time = connection.execute(sa.select(events.c.time).where(events.c.position == position)).scalar()
    if time is None:
        return Place(position + 1, 0)
    first = sa.select(logins.c.id).where(logins.c.time > time).order_by(logins.c.time, logins.c.id).limit(1)
    return Place(position + 1, connection.execute(first).scalar() or FURTHEST)


@dataclass(frozen=True)
class AuditRow:
    """An event, or a row that is no event. `provenance`: None if it is unknown, or its retention has ended."""

    time: datetime
    kind: str
    actor: str
    provenance: Provenance | None
    event: StoredEvent | None
    login: LoginRow | None

    @property
    def tenant(self) -> str | None:
        """Return the tenant that the row belongs to, by the event's stream or the event itself."""
        if self.login is not None:
            return self.login.tenant or None
        return None if self.event is None else _tenant(self.event)


@dataclass(frozen=True)
class Page:
    """A page of the audit. `further`: place to continue from; None if there is no more."""

    rows: Sequence[AuditRow]
    further: Place | None


def page(connection: Connection, asked: AuditFilter, place: Place, most: int) -> Page:
    """Return up to `most` rows that match the filter, below a place."""
    found, cut = _events(connection, asked, place, most + 1)
    beside = _logins(connection, asked, place, most + 1)
    if cut is not None:
        # Events that the page does not reach come before older logins.
        beside = list(takewhile(lambda row: row.time >= cut.time, beside))
    rows = list(islice(_merged(found, beside), most + 1))
    reached, rows = len(rows) <= most, _with_provenance(connection, rows[:most])
    position = min((row.event.position for row in rows if row.event), default=place.position)
    login = min((row.login.id for row in rows if row.login), default=place.login)
    if reached and cut is not None:
        position = cut.position
    return Page(rows, Place(position, login) if not reached or cut is not None else None)


def _merged(found: Sequence[AuditRow], beside: Sequence[AuditRow]) -> Iterator[AuditRow]:
    """Merge two sequences, always taking the newer of the two next rows.

    Each sequence keeps its own order, though its times may be out of order: so no row above the place where a page
    ends is left out.
    """
    events, logins = deque(found), deque(beside)
    while events or logins:
        login_next = not events or (logins and logins[0].time > events[0].time)
        yield (logins if login_next else events).popleft()


class _Cut(NamedTuple):
    """The lowest event that was scanned, where scanning stopped before the beginning."""

    position: int
    time: datetime


def _events(
    connection: Connection, asked: AuditFilter, place: Place, most: int
) -> tuple[list[AuditRow], _Cut | None]:
    """Return matching events, and where scanning stopped before the beginning, if it did."""
    if not asked.of_events:
        return [], None
    position = events.c.position
    query = sa.select(events).where(position < place.position)
    if not asked.workers:
        query = query.where(BY_PEOPLE)
    if asked.actor:
        query = query.where(actor_of == asked.actor)
    if asked.kind:
        query = query.where(events.c.name == asked.kind)
    query = query.where(*_between(connection, asked, events, position))
    cut = None
    if asked.tenant or (asked.actor and asked.kind):
        query = query.where(_of_tenant(asked)) if asked.tenant else query
        top = connection.execute(sa.select(sa.func.max(position)).where(position < place.position)).scalar()
        lowest = max(0, (top or 0) - WINDOW_EVENTS)
        query, cut = query.where(position > lowest), lowest + 1 if lowest else None
    stored = [stored_of(row) for row in connection.execute(query.order_by(position.desc()).limit(most))]
    rows = [AuditRow(each.time, each.name, each.metadata.actor, None, each, None) for each in stored]
    if cut is None or len(stored) == most:
        return rows, None
    time = connection.execute(sa.select(events.c.time).where(position == cut)).scalar()
    if time is None or (asked.since and time < asked.since - _ORDER):
        return rows, None
    return rows, _Cut(cut, time)


def _logins(connection: Connection, asked: AuditFilter, place: Place, most: int) -> list[AuditRow]:
    if not asked.of_logins:
        return []
    query = sa.select(logins).where(logins.c.id < place.login)
    query = query.where(*_between(connection, asked, logins, logins.c.id))
    if asked.tenant:
        query = query.where(logins.c.tenant == asked.tenant)
    if asked.actor:
        query = query.where(logins.c.user == asked.actor)
    if asked.kind and asked.kind != LOGINS:
        query = query.where(logins.c.kind == asked.kind)
    found = []
    for row in connection.execute(query.order_by(logins.c.id.desc()).limit(most)):
        provenance = Provenance(row.means, row.address, row.agent)
        login = LoginRow(row.id, row.time, row.kind, row.user, row.reason, row.tenant, provenance)
        found.append(AuditRow(row.time, row.kind, row.user, provenance, None, login))
    return found


def _between(
    connection: Connection, asked: AuditFilter, table: Table, place: ColumnElement[Any]
) -> Iterator[ColumnElement[bool]]:
    """Return conditions for the requested time span; its ends are looked up, so that rows outside are not read."""
    time = table.c.time
    if asked.since is not None:
        yield time >= asked.since
        first = sa.select(place).where(time >= asked.since - _ORDER).order_by(time).limit(1)
        yield place >= (connection.execute(first).scalar() or FURTHEST)
    if asked.until is not None:
        yield time < asked.until
        last = sa.select(place).where(time < asked.until + _ORDER).order_by(time.desc()).limit(1)
        yield place <= (connection.execute(last).scalar() or 0)


def _of_tenant(asked: AuditFilter) -> ColumnElement[bool]:
    stream, tenant = events.c.stream, asked.tenant
    own = (
        stream.in_((f"tenant-{tenant}", f"messages-{tenant}")),
        stream.startswith(f"application-{tenant}/", autoescape=True),
    )
    return sa.or_(*own) if asked.own_streams else sa.or_(*own, events.c.data["tenant"].as_string() == tenant)


def _tenant(event: StoredEvent) -> str | None:
    kind, _, name = event.stream.partition("-")
    if kind in ("tenant", "application", "messages"):
        return name.partition("/")[0]
    named = event.data.get("tenant")
    return named if isinstance(named, str) else None


def _with_provenance(connection: Connection, rows: Sequence[AuditRow]) -> list[AuditRow]:
    positions = [row.event.position for row in rows if row.event is not None]
    query = sa.select(event_provenance).where(event_provenance.c.position.in_(positions))
    provenance: Mapping[int, Provenance] = {
        row.position: Provenance(row.means, row.address, row.agent) for row in connection.execute(query)
    }
    return [
        row if row.event is None else replace(row, provenance=provenance.get(row.event.position)) for row in rows
    ]
