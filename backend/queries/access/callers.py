"""The caller that a token or a session belongs to: one statement for every request.

Nothing is cached between requests, so what is revoked, disabled or withdrawn takes effect with the next request to
any process (docs/decisions/0024-access.md has the cost of it, and what registries cache nevertheless). Times are
the database's. The statements are built once: building them costs several times as much as running them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Select

from backend.domain.access.access import ADMIN, ADMIN_NAME, Caller, Membership, Role
from backend.projections.temporal import as_of
from backend.projections.users import api_tokens, memberships, users
from backend.queries.access.login import hash_of, sessions
from backend.queries.access.secrets import token_hashes


def caller_of_token(connection: Connection, secret: str) -> Caller | None:
    """Return the caller that presents a token; None if it is unknown, revoked, expired, or its user disabled."""
    row = connection.execute(_OF_TOKEN, {"hash": hash_of(secret)}).one_or_none()
    return None if row is None else _caller(*row)


def caller_of_session(connection: Connection, session: str) -> Caller | None:
    """Return a session's caller; None if it is unknown or over, by its time or with the token it came from."""
    row = connection.execute(_OF_SESSION, {"hash": hash_of(session)}).one_or_none()
    if row is None or (row.actor != ADMIN_NAME and row.role is None):
        return None
    *who, means = row
    found = ADMIN if row.actor == ADMIN_NAME else _caller(*who)
    return replace(found, session=means)


def _caller(name: str, role: str, tenants: dict[str, str] | None, token: str | None, issued: int | None) -> Caller:
    found = {tenant: Membership(membership) for tenant, membership in (tenants or {}).items()}
    return Caller(name=name, role=Role(role), tenants=found, token=token, issued=issued)


def _is_live(
    user: ColumnElement[str], token: ColumnElement[Any], issued: ColumnElement[Any]
) -> ColumnElement[bool]:
    t = api_tokens.c
    in_time = sa.or_(t.expires_at.is_(None), t.expires_at > sa.func.now())
    same = sa.and_(t.user == user, t.name == token, t.issued == issued, as_of(api_tokens, None))
    return sa.exists().where(same, in_time)


def _of_token() -> Select[Any]:
    h = token_hashes.c
    of_user = token_hashes.join(users, sa.and_(users.c.name == h.user, as_of(users, None)))
    return (
        sa.select(users.c.name, users.c.role, _TENANTS, h.token, h.issued)
        .select_from(of_user)
        .where(h.hash == sa.bindparam("hash"), users.c.disabled.is_(False), _is_live(h.user, h.token, h.issued))
    )


def _of_session() -> Select[Any]:
    s = sessions.c
    of_user = sa.and_(users.c.name == s.actor, as_of(users, None), users.c.disabled.is_(False))
    return (
        sa.select(s.actor, users.c.role, _TENANTS, s.token, s.issued, s.means)
        .select_from(sessions.outerjoin(users, of_user))
        .where(s.session_hash == sa.bindparam("hash"), s.expires_at > sa.func.now())
        .where(sa.or_(s.token.is_(None), _is_live(s.actor, s.token, s.issued)))
    )


_TENANTS = (
    sa.select(sa.func.jsonb_object_agg(memberships.c.tenant, memberships.c.membership))
    .where(memberships.c.user == users.c.name, as_of(memberships, None))
    .scalar_subquery()
)
_OF_TOKEN, _OF_SESSION = _of_token(), _of_session()
