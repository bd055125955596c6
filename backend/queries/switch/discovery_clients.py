"""Clients as they report to discovery: identity, generation, and whether they hold.

These rows are observations: written with each request, replaced as they change, and safe to lose. Times are the
database's, so clients' clocks play no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.base.errors import StateConflict
from backend.domain.switch.cluster_switch import ENDED
from backend.domain.switch.discovery import IS_ACTIVE, IS_HELD
from backend.domain.switch.switch_facts import Place
from backend.eventlog.tables import METADATA, events
from backend.projections.switches import switches
from backend.projections.temporal import as_of

FORGOTTEN_AFTER_SECONDS = 24 * 3600.0
MOST_CLIENTS = 10_000
"""Limit per environment: while clients hold, each row is read many times a second."""
_SPARED_SECONDS = 600.0
"""Clients silent for longer may be deleted to make room, unless a switch waits for them."""

discovery_clients = sa.Table(
    "discovery_clients",
    METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("instance", sa.Text, primary_key=True),
    sa.Column("environment", sa.Text, primary_key=True),
    sa.Column("client_id", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("zone", sa.Text, nullable=False),
    # 0 until the client has received an answer.
    sa.Column("generation", sa.BigInteger, nullable=False),
    # An earlier generation on whose cluster the client still reads or writes during its move; NULL: none.
    sa.Column("still_in", sa.BigInteger),
    sa.Column("phase", sa.Text, nullable=False),
    # The client's User-Agent.
    sa.Column("software", sa.Text),
    # The switch that waits for this client, whether or not the client has seen the hold.
    sa.Column("awaited_by", sa.Text),
    # For a client that learned of its move too late: generation in which all its earlier records have arrived.
    sa.Column("arrived_in", sa.BigInteger),
    # Since when the client has held without a break; NULL while it is active.
    sa.Column("still_since", sa.DateTime(timezone=True)),
    # Position of the newest event when the hold began. A switch compares it with its mark; no clock is involved.
    sa.Column("given_at", sa.BigInteger),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
)
sa.Index("discovery_clients_seen", discovery_clients.c.seen_at)
_NOW = sa.func.clock_timestamp()
_SILENT_MS = sa.cast(sa.extract("epoch", _NOW - discovery_clients.c.seen_at) * 1000, sa.BigInteger)
_STILL_MS = sa.cast(sa.extract("epoch", _NOW - discovery_clients.c.still_since) * 1000, sa.BigInteger)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Report of a client about itself."""

    tenant: str
    instance: str
    environment: str
    client_id: str
    role: str
    zone: str | None
    generation: int
    """Generation of the newest answer that the client acts on."""
    phase: str
    still_in: int | None = None
    """Earlier generation on whose cluster it still reads or writes during its move; None: none."""
    software: str | None = None

    @property
    def works_in(self) -> int:
        """Return the generation on whose cluster the client reads or writes, or will."""
        return self.generation if self.still_in is None else min(self.still_in, self.generation)


@dataclass(frozen=True, kw_only=True)
class ClientRow(Report):
    """A client, with its age by the database's clock."""

    silent_ms: int
    still_ms: int | None
    """Milliseconds that the client has held without a break; None while it is active or may continue."""
    still_since: datetime | None
    """Start of the hold, by the database's clock."""
    given_at: int | None
    """Position of the newest event when the hold began; None while the client is active."""
    awaited_by: str | None
    """Switch that waits for the client because it was known when the hold began."""
    arrived_in: int | None
    """Generation in which all its earlier records have arrived, if it learned of its move too late."""
    present_generation: int | None = None
    """Current generation of its environment and zone; None: not read."""

    @property
    def is_of_now(self) -> bool:
        """Return whether the client is in the current generation, or has not learned one yet."""
        return self.present_generation is None or self.generation in (0, self.present_generation)

    @property
    def place(self) -> Place:
        """Return (tenant, instance, environment)."""
        return self.tenant, self.instance, self.environment


@dataclass(frozen=True, kw_only=True)
class StoredHold:
    """A client's confirmation of a hold, as stored."""

    given_at: int | None
    arrived_in: int | None
    still_since: datetime | None
    """Start of the hold; it identifies the confirmation."""


def write(connection: Connection, report: Report, hold_ms: int) -> StoredHold:
    """Replace the client's last report. A hold older than `hold_ms` may have ended, so it begins anew.

    Raises StateConflict if the environment has its maximum of clients: a client that no switch would know of is
    refused.
    """
    told = {"generation": report.generation, "phase": report.phase}
    values = {**vars(report), "zone": report.zone or "", "seen_at": _NOW}
    is_still = report.phase != IS_ACTIVE
    newest = sa.select(sa.func.coalesce(sa.func.max(events.c.position), 0)).scalar_subquery()
    word: dict[str, Any] = {"still_since": _NOW, "given_at": newest} if is_still else {}
    row = insert(discovery_clients).values({"still_since": None, "given_at": None, **values, **word})
    key = [column.name for column in discovery_clients.primary_key]
    t = discovery_clients.c
    fresh: dict[str, Any] = {name: row.excluded[name] for name in values if name not in key}
    same = sa.and_(*(t[name] == value for name, value in told.items()))
    unbroken = sa.and_(
        t.still_since.is_not(None), t.generation == report.generation, sa.literal(hold_ms) >= _SILENT_MS
    )
    kept = sa.and_(same, unbroken) if report.phase == IS_HELD else sa.false()
    fresh["arrived_in"] = sa.case((kept, t.arrived_in), else_=None)
    for name in ("still_since", "given_at"):
        fresh[name] = sa.case((unbroken, t[name]), else_=row.excluded[name]) if is_still else None
    is_new = sa.literal_column("xmax = 0", sa.Boolean)
    statement = row.on_conflict_do_update(index_elements=key, set_=fresh).returning(
        t.given_at, t.arrived_in, t.still_since, is_new
    )
    given_at, arrived_in, still_since, came = connection.execute(statement).one()
    if came:
        _make_room(connection, report)
    return StoredHold(given_at=given_at, arrived_in=arrived_in, still_since=still_since)


def end_hold(connection: Connection, report: Report, hold: StoredHold) -> None:
    """End a client's hold, since the client is about to be told to continue; a hold confirmed anew stays."""
    t = discovery_clients.c
    mine = (
        t.tenant == report.tenant,
        t.instance == report.instance,
        t.environment == report.environment,
        t.client_id == report.client_id,
        t.phase == report.phase,
        t.still_since == hold.still_since,
    )
    ended = {"still_since": None, "given_at": None, "arrived_in": None}
    connection.execute(sa.update(discovery_clients).where(*mine).values(ended))


def _make_room(connection: Connection, report: Report) -> None:
    """Delete silent clients of an environment that has too many, after a new one was inserted.

    Raises StateConflict if too many remain.
    """
    t = discovery_clients.c
    mine = (t.tenant == report.tenant, t.instance == report.instance, t.environment == report.environment)
    count = sa.select(sa.func.count()).select_from(discovery_clients).where(*mine)
    if connection.execute(count).scalar_one() <= MOST_CLIENTS:
        return
    awaited = sa.exists().where(
        switches.c.id == t.awaited_by,
        switches.c.state.not_in(ENDED),
        as_of(switches, None),
    )
    forgotten = (_silent_for(_SPARED_SECONDS), sa.not_(awaited))
    connection.execute(sa.delete(discovery_clients).where(*mine, *forgotten))
    if connection.execute(count).scalar_one() > MOST_CLIENTS:
        raise StateConflict(
            f"{report.tenant}/{report.instance}/{report.environment} has {MOST_CLIENTS} clients seen within "
            f"{_SPARED_SECONDS / 60:.0f} minutes, which is the limit; start fewer clients at once, or remove "
            f"clients that are gone (DELETE /discovery/clients/<client_id>)"
        )


def mark_arrived(connection: Connection, held: Sequence[ClientRow], generation: int) -> None:
    """Mark clients holding in an earlier generation as arrived: all their records are on this one's cluster."""
    t = discovery_clients.c
    # Only the same hold: one that was released and confirmed again also covers records sent in between.
    same = sa.tuple_(t.tenant, t.instance, t.environment, t.client_id, t.generation, t.phase, t.still_since)
    rows = [(*each.place, each.client_id, each.generation, IS_HELD, each.still_since) for each in held]
    connection.execute(sa.update(discovery_clients).where(same.in_(rows)).values(arrived_in=generation))


def forget(connection: Connection, place: Place, client_id: str) -> bool:
    """Delete a client that unregistered; return whether it was known."""
    t = discovery_clients.c
    mine = (t.tenant == place[0], t.instance == place[1], t.environment == place[2], t.client_id == client_id)
    return connection.execute(sa.delete(discovery_clients).where(*mine)).rowcount > 0


def forget_silent(connection: Connection) -> None:
    """Delete clients that have not reported for a day."""
    connection.execute(sa.delete(discovery_clients).where(_silent_for(FORGOTTEN_AFTER_SECONDS)))


def _silent_for(seconds: float) -> sa.ColumnElement[bool]:
    return discovery_clients.c.seen_at < _NOW - sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def await_all(connection: Connection, switch: str, places: Sequence[Place], within_ms: int) -> None:
    """Make a switch wait for all clients of these environments seen within so many milliseconds.

    The switch waits for them even if they never report again.
    """
    t = discovery_clients.c
    place = sa.tuple_(t.tenant, t.instance, t.environment).in_(list(places))
    seen = sa.update(discovery_clients).where(place, within_ms >= _SILENT_MS)
    connection.execute(seen.values(awaited_by=switch))


def list_clients(
    connection: Connection, places: Sequence[Place], *, role: str | None = None, most: int | None = None
) -> list[ClientRow]:
    """Return the clients of these environments, or those with a role, by environment and id; `most`: a limit."""
    t = discovery_clients.c
    place = sa.tuple_(t.tenant, t.instance, t.environment).in_(list(places))
    told = (_SILENT_MS.label("silent_ms"), _STILL_MS.label("still_ms"))
    query = sa.select(discovery_clients, *told).where(place)
    if role is not None:
        query = query.where(t.role == role)
    rows = connection.execute(query.order_by(*discovery_clients.primary_key.columns).limit(most)).mappings()
    return [
        ClientRow(**{**{k: v for k, v in row.items() if k != "seen_at"}, "zone": row["zone"] or None})
        for row in rows
    ]
