"""Read users, their memberships and tokens, now or as of a position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from backend.domain.base.errors import NotFound
from backend.projections.temporal import as_of
from backend.projections.users import api_tokens, identities, memberships, users


@dataclass(frozen=True)
class UserRow:
    """A user; `tenants`: tenant -> membership. `version`: the newest version of the user and its memberships."""

    name: str
    role: str
    disabled: bool
    has_password: bool
    tenants: Mapping[str, str]
    version: int


@dataclass(frozen=True)
class TokenRow:
    """A token that is not revoked; it may have expired."""

    user: str
    name: str
    issued: int
    issued_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True)
class MemberRow:
    """A member of a tenant."""

    user: str
    membership: str
    disabled: bool


def list_users(
    connection: Connection, at: int | None = None, *, after: str | None = None, limit: int | None = None
) -> list[UserRow]:
    """Return users by name, at most `limit` after `after`."""
    wanted = sa.true() if after is None else users.c.name > after
    return _users(connection, at, wanted, limit)


def get_user(connection: Connection, name: str, at: int | None = None) -> UserRow | None:
    """Return one user, or None."""
    return next(iter(_users(connection, at, users.c.name == name, None)), None)


def find_user(connection: Connection, user: str, at: int | None = None) -> UserRow:
    """Return the user, or raise NotFound."""
    row = get_user(connection, user, at)
    if row is None:
        raise NotFound(f"there is no user {user!r}")
    return row


def count_users(connection: Connection) -> int:
    """Count the users."""
    query = sa.select(sa.func.count()).select_from(users).where(as_of(users, None))
    return int(connection.execute(query).scalar_one())


def list_tokens(connection: Connection, user: str, at: int | None = None) -> list[TokenRow]:
    """Return a user's tokens, by name."""
    t = api_tokens.c
    query = sa.select(t.user, t.name, t.issued, t.issued_at, t.expires_at).where(t.user == user)
    rows = connection.execute(query.where(as_of(api_tokens, at)).order_by(t.name))
    return [TokenRow(*row) for row in rows]


def user_of_identity(connection: Connection, issuer: str, subject: str) -> str | None:
    """Return the user that this subject of an OpenID provider logs in as; None if there is none."""
    i = identities.c
    query = sa.select(i.user).where(i.issuer == issuer, i.subject == subject, as_of(identities, None))
    return connection.execute(query).scalar_one_or_none()


def identity_of(connection: Connection, user: str, at: int | None = None) -> tuple[str, str] | None:
    """Return the issuer and subject that log in as the user."""
    i = identities.c
    row = connection.execute(sa.select(i.issuer, i.subject).where(i.user == user, as_of(identities, at))).first()
    return None if row is None else (row.issuer, row.subject)


def list_members(connection: Connection, tenant: str, at: int | None = None) -> list[MemberRow]:
    """Return the members of a tenant, by name."""
    of, who = memberships.c, users.c
    query = sa.select(of.user, of.membership, who.disabled).join(users, who.name == of.user)
    query = query.where(of.tenant == tenant, as_of(memberships, at), as_of(users, at))
    return [MemberRow(*row) for row in connection.execute(query.order_by(of.user))]


def _users(
    connection: Connection, at: int | None, wanted: ColumnElement[bool], limit: int | None
) -> list[UserRow]:
    u = users.c
    query = sa.select(u.name, u.role, u.disabled, u.has_password, u.version).where(as_of(users, at), wanted)
    rows = connection.execute(query.order_by(u.name).limit(limit)).all()
    tenants = _tenants(connection, at, [row.name for row in rows])
    return [UserRow(*row[:4], tenants.get(row.name, {}), row.version) for row in rows]


def _tenants(connection: Connection, at: int | None, names: Sequence[str]) -> dict[str, dict[str, str]]:
    m = memberships.c
    query = sa.select(m.user, m.tenant, m.membership).where(m.user.in_(names), as_of(memberships, at))
    found: dict[str, dict[str, Any]] = {}
    for user, tenant, membership in connection.execute(query.order_by(m.user, m.tenant)):
        found.setdefault(user, {})[tenant] = membership
    return found
