"""Login links and sessions: only hashes are stored, so that a copy of the database grants no access.

They are no projections: nobody needs to know later who clicked which link, and secrets must not outlive their use.
All times are the database's, so that several API processes agree.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from backend.domain.access.access import Caller, Provenance
from backend.eventlog.tables import METADATA

SESSION_COOKIE = "treeline_session"
LINK_LIFE = timedelta(hours=1)
SESSION_LIFE = timedelta(hours=12)
_NOTED_AFTER = timedelta(minutes=1)
MOST_SHOWN = 100

login_links = sa.Table(
    "login_links",
    METADATA,
    sa.Column("code_hash", sa.Text, primary_key=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("used_at", sa.DateTime(timezone=True)),
    # The token that requested the link, if it was one: the link works no longer than that.
    sa.Column("token", sa.Text),
    sa.Column("issued", sa.BigInteger),
)
sessions = sa.Table(
    "sessions",
    METADATA,
    sa.Column("session_hash", sa.Text, primary_key=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("token", sa.Text),
    sa.Column("issued", sa.BigInteger),
    # Name of the session where it is shown; it grants no access.
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("means", sa.Text, nullable=False),
    sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Index("sessions_actor", "actor"),
)


class LoginMethod(StrEnum):
    """Login method that began a session."""

    PASSWORD = "password"
    LINK = "link"
    PROVIDER = "provider"


@dataclass(frozen=True)
class SessionRow:
    """A session as its user sees it. `here`: it is the session of this request."""

    name: str
    means: str
    opened_at: datetime
    expires_at: datetime
    address: str
    agent: str
    here: bool


@dataclass(frozen=True)
class Secret:
    """A code or session token, which is shown once, and its latest expiry."""

    value: str
    expires_at: datetime


def create_link(connection: Connection, caller: Caller) -> Secret:
    """Create a one-time login code for the caller; also delete links that expired long ago."""
    connection.execute(sa.delete(login_links).where(login_links.c.expires_at < sa.func.now() - LINK_LIFE))
    code = secrets.token_urlsafe(32)
    expires_at = connection.execute(
        sa.insert(login_links)
        .values(
            code_hash=hash_of(code),
            actor=caller.name,
            expires_at=sa.func.now() + LINK_LIFE,
            token=caller.token,
            issued=caller.issued,
        )
        .returning(login_links.c.expires_at)
    ).scalar_one()
    return Secret(code, expires_at)


def use_link(
    connection: Connection, code: str, provenance: Provenance, idle: timedelta
) -> tuple[str, Secret] | None:
    """Turn a code into a session; None if it is unknown, used or expired. `idle`: see `open_session`."""
    # One statement: of two concurrent requests with the same code, the database lets one through.
    link = connection.execute(
        sa.update(login_links)
        .where(
            login_links.c.code_hash == hash_of(code),
            login_links.c.used_at.is_(None),
            login_links.c.expires_at > sa.func.now(),
        )
        .values(used_at=sa.func.now())
        .returning(login_links.c.actor, login_links.c.token, login_links.c.issued)
    ).one_or_none()
    if link is None:
        return None
    return link.actor, open_session(
        connection, link.actor, LoginMethod.LINK, provenance, idle, link.token, link.issued
    )


def open_session(
    connection: Connection,
    actor: str,
    means: LoginMethod,
    provenance: Provenance,
    idle: timedelta,
    token: str | None = None,
    issued: int | None = None,
) -> Secret:
    """Open a session for the authenticated `actor`; also delete sessions that are over.

    It ends when it has not been used for `idle`, and after SESSION_LIFE in any case.
    """
    connection.execute(sa.delete(sessions).where(sessions.c.expires_at < sa.func.now()))
    session = secrets.token_urlsafe(32)
    opened_at = connection.execute(
        sa.insert(sessions)
        .values(
            session_hash=hash_of(session),
            actor=actor,
            expires_at=sa.func.now() + min(idle, SESSION_LIFE),
            token=token,
            issued=issued,
            name=secrets.token_hex(8),
            means=means,
            opened_at=sa.func.now(),
            address=provenance.address,
            agent=provenance.agent,
        )
        .returning(sessions.c.opened_at)
    ).scalar_one()
    return Secret(session, opened_at + SESSION_LIFE)


def keep_session(connection: Connection, session: str, idle: timedelta) -> None:
    """Record that a session is used: it ends when unused for `idle`, and after SESSION_LIFE in any case."""
    s = sessions.c
    until = sa.func.least(s.opened_at + SESSION_LIFE, sa.func.now() + idle)
    # Not for each request: a minute more or less is not worth a write.
    differs = sa.or_(s.expires_at < until - _NOTED_AFTER, s.expires_at > until)
    where = (s.session_hash == hash_of(session), s.expires_at > sa.func.now(), differs)
    connection.execute(sa.update(sessions).where(*where).values(expires_at=until))


def end_session(connection: Connection, session: str) -> tuple[str, str] | None:
    """End a session; return its user and how it began. An unknown session is no error."""
    return _ended(connection, sessions.c.session_hash == hash_of(session))


def end_named_session(connection: Connection, actor: str, name: str) -> tuple[str, str] | None:
    """End one of a user's sessions, by its name; None if there is none."""
    return _ended(connection, sa.and_(sessions.c.actor == actor, sessions.c.name == name))


def _ended(connection: Connection, which: ColumnElement[bool]) -> tuple[str, str] | None:
    query = sa.delete(sessions).where(which).returning(sessions.c.actor, sessions.c.means)
    row = connection.execute(query).first()
    return None if row is None else (row.actor, row.means)


def end_sessions(connection: Connection, actor: str, *, by: LoginMethod | None = None) -> None:
    """End a user's sessions, and links that could open more; or only sessions that began in one way."""
    if by is not None:
        connection.execute(sa.delete(sessions).where(sessions.c.actor == actor, sessions.c.means == by))
        return
    for table in (sessions, login_links):
        connection.execute(sa.delete(table).where(table.c.actor == actor))


def list_sessions(connection: Connection, actor: str, session: str) -> list[SessionRow]:
    """Return a user's sessions, the newest first; `session` is the one of this request."""
    s = sessions.c
    here = (s.session_hash == hash_of(session)).label("here")
    query = sa.select(s.name, s.means, s.opened_at, s.expires_at, s.address, s.agent, here)
    query = query.where(s.actor == actor, s.expires_at > sa.func.now()).order_by(s.opened_at.desc(), s.name)
    return [SessionRow(*row) for row in connection.execute(query.limit(MOST_SHOWN))]


def hash_of(secret: str) -> str:
    """Return the hash that is stored of a secret of 256 random bits."""
    # Plain SHA-256 is enough: the secrets are 256 random bits, not words that could be guessed.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
