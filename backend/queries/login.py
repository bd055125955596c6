"""Login links and sessions: only hashes are stored, so that a copy of the database opens nothing.

Not projections: nobody needs to know later who clicked which link, and secrets must not outlive their use. All
times are the database's, so that several API processes agree.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.eventlog.tables import METADATA

LINK_LIFE = timedelta(hours=1)
SESSION_LIFE = timedelta(hours=12)

login_links = sa.Table(
    "login_links",
    METADATA,
    sa.Column("code_hash", sa.Text, primary_key=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("used_at", sa.DateTime(timezone=True)),
)
sessions = sa.Table(
    "sessions",
    METADATA,
    sa.Column("session_hash", sa.Text, primary_key=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
)


@dataclass(frozen=True)
class Secret:
    """A code or session token, shown once, and when it ends."""

    value: str
    expires_at: datetime


def create_link(connection: Connection, actor: str) -> Secret:
    """A one-time code for `actor`; also forgets links that ended long ago."""
    connection.execute(sa.delete(login_links).where(login_links.c.expires_at < sa.func.now() - LINK_LIFE))
    code = secrets.token_urlsafe(32)
    expires_at = connection.execute(
        sa.insert(login_links)
        .values(code_hash=_hash(code), actor=actor, expires_at=sa.func.now() + LINK_LIFE)
        .returning(login_links.c.expires_at)
    ).scalar_one()
    return Secret(code, expires_at)


def use_link(connection: Connection, code: str) -> Secret | None:
    """Turn a code into a session; None if it is unknown, used or expired."""
    # One statement: of two who come with the same code at once, the database lets one through.
    actor = connection.execute(
        sa.update(login_links)
        .where(
            login_links.c.code_hash == _hash(code),
            login_links.c.used_at.is_(None),
            login_links.c.expires_at > sa.func.now(),
        )
        .values(used_at=sa.func.now())
        .returning(login_links.c.actor)
    ).scalar_one_or_none()
    if actor is None:
        return None
    connection.execute(sa.delete(sessions).where(sessions.c.expires_at < sa.func.now()))
    session = secrets.token_urlsafe(32)
    expires_at = connection.execute(
        sa.insert(sessions)
        .values(session_hash=_hash(session), actor=actor, expires_at=sa.func.now() + SESSION_LIFE)
        .returning(sessions.c.expires_at)
    ).scalar_one()
    return Secret(session, expires_at)


def session_actor(connection: Connection, session: str) -> str | None:
    """Who a session belongs to; None if it is unknown or expired."""
    query = sa.select(sessions.c.actor).where(
        sessions.c.session_hash == _hash(session), sessions.c.expires_at > sa.func.now()
    )
    return connection.execute(query).scalar_one_or_none()


def end_session(connection: Connection, session: str) -> None:
    """Log out; an unknown session is nothing to complain about."""
    connection.execute(sa.delete(sessions).where(sessions.c.session_hash == _hash(session)))


def _hash(secret: str) -> str:
    # Plain SHA-256 is enough: the secrets are 256 random bits, not words that could be guessed.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
