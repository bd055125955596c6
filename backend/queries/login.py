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

from backend.domain.access import Caller
from backend.eventlog.tables import METADATA

SESSION_COOKIE = "treeline_session"
LINK_LIFE = timedelta(hours=1)
SESSION_LIFE = timedelta(hours=12)

login_links = sa.Table(
    "login_links",
    METADATA,
    sa.Column("code_hash", sa.Text, primary_key=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("used_at", sa.DateTime(timezone=True)),
    # The token that it was asked for with, if it was one: it works no longer than that.
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
)


@dataclass(frozen=True)
class Secret:
    """A code or session token, shown once, and when it ends."""

    value: str
    expires_at: datetime


def create_link(connection: Connection, caller: Caller) -> Secret:
    """A one-time code for the caller; also forgets links that ended long ago."""
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


def use_link(connection: Connection, code: str) -> Secret | None:
    """Turn a code into a session; None if it is unknown, used or expired."""
    # One statement: of two who come with the same code at once, the database lets one through.
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
    return None if link is None else open_session(connection, *link)


def open_session(
    connection: Connection, actor: str, token: str | None = None, issued: int | None = None
) -> Secret:
    """A session for who was found to be `actor`; also forgets sessions that are over."""
    connection.execute(sa.delete(sessions).where(sessions.c.expires_at < sa.func.now()))
    session = secrets.token_urlsafe(32)
    expires_at = connection.execute(
        sa.insert(sessions)
        .values(
            session_hash=hash_of(session),
            actor=actor,
            expires_at=sa.func.now() + SESSION_LIFE,
            token=token,
            issued=issued,
        )
        .returning(sessions.c.expires_at)
    ).scalar_one()
    return Secret(session, expires_at)


def end_session(connection: Connection, session: str) -> None:
    """Log out; an unknown session is nothing to complain about."""
    connection.execute(sa.delete(sessions).where(sessions.c.session_hash == hash_of(session)))


def end_sessions(connection: Connection, actor: str) -> None:
    """End all that somebody has: sessions, and links that could open more."""
    for table in (sessions, login_links):
        connection.execute(sa.delete(table).where(table.c.actor == actor))


def hash_of(secret: str) -> str:
    """What is stored of a secret that is 256 random bits."""
    # Plain SHA-256 is enough: the secrets are 256 random bits, not words that could be guessed.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
