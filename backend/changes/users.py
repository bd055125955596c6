"""Changes of users, and what goes with them: hashes of secrets, and sessions to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy import Connection

from backend.changes.change import Change, Match, any_version
from backend.changes.password_strength import check_not_guessable
from backend.deciders import USER
from backend.dispatch import Outcome
from backend.domain.access.access import no_tenant
from backend.domain.access.passwords import check_password
from backend.domain.access.user import (
    ChangeUser,
    CreateUser,
    EndMembership,
    GiveMembership,
    IssueToken,
    LinkIdentity,
    RevokeToken,
    SetPassword,
    UnlinkIdentity,
    User,
    UserCommand,
)
from backend.domain.names.names import is_name
from backend.queries.access import secrets
from backend.queries.access.login import LoginMethod, end_sessions
from backend.queries.access.users import count_users, find_user, get_user, user_of_identity
from backend.queries.tenants.tenants import known_tenants

UserChange = Change[User | None, UserCommand]
MembershipMatch = Callable[[str | None], None]
"""Raises StaleVersion unless a membership (None: none) may be changed."""


def any_membership(present: str | None) -> None:
    """Accept any membership: a MembershipMatch for callers that change it whatever it is."""


def create_user(user: str, role: str, tenants: Mapping[str, str], *, disabled: bool = False) -> UserChange:
    """Create a user; `tenants`: tenant -> membership."""

    def build(connection: Connection) -> CreateUser:
        return CreateUser(
            user=user,
            role=role,
            disabled=disabled,
            tenants=tenants,
            known_tenants=known_tenants(connection, tenants),
            users=count_users(connection),
        )

    return Change(USER, event_stream(user), build)


def change_user(
    user: str,
    *,
    role: str | None,
    disabled: bool | None,
    tenants: Mapping[str, str] | None = None,
    match: Match = any_version,
) -> UserChange:
    """Change a user's role and memberships, disable or enable the user; None keeps a value.

    A disabled user is logged out.
    """

    def build(connection: Connection) -> ChangeUser:
        match(find_user(connection, user).version)
        known = known_tenants(connection, tenants or {})
        return ChangeUser(role=role, disabled=disabled, tenants=tenants, known_tenants=known)

    def also(connection: Connection, _: Outcome) -> None:
        row = get_user(connection, user)
        if row is not None and row.disabled:
            end_sessions(connection, user)

    return Change(USER, event_stream(user), build, also)


def give_membership(
    tenant: str, user: str, membership: str, match: MembershipMatch = any_membership
) -> UserChange:
    """Add an existing user to the tenant, or change the user's membership."""

    def build(connection: Connection) -> GiveMembership:
        match(_present(connection, tenant, user))
        return GiveMembership(tenant=tenant, membership=membership)

    return Change(USER, event_stream(user), build)


def end_membership(tenant: str, user: str, match: MembershipMatch = any_membership) -> UserChange:
    """Remove a user from the tenant; takes effect at the user's next request."""

    def build(connection: Connection) -> EndMembership:
        match(_present(connection, tenant, user))
        return EndMembership(tenant=tenant)

    return Change(USER, event_stream(user), build)


def _present(connection: Connection, tenant: str, user: str) -> str | None:
    """Return the user's membership in the tenant; None if there is none. Raises NotFound for unknown names."""
    if not is_name(tenant) or tenant not in known_tenants(connection, [tenant]):
        raise no_tenant(tenant)
    return find_user(connection, user).tenants.get(tenant)


def set_password(user: str, password: str) -> UserChange:
    """Set a password, which ends the user's sessions. Raises ValueInvalid for an unacceptable one."""
    check_password(user, password)
    check_not_guessable(user, password)
    hashed = secrets.hash_password(password)

    def also(connection: Connection, _: Outcome) -> None:
        secrets.keep_password(connection, user, hashed)

    return Change(USER, event_stream(user), lambda _: SetPassword(), also)


def password_dry_run(user: str) -> UserChange:
    """Return the change of a password that is not known yet, for a dry run.

    Whoever carries out the change reports another password, where the new one is the old one.
    """
    return Change(USER, event_stream(user), lambda _: SetPassword())


def issue_token(user: str, token: str, secret: str, now: datetime, expires_at: datetime | None) -> UserChange:
    """Issue a token to a user; `secret` is its value, which cannot be shown again afterwards."""
    command = IssueToken(token=token, now=now, expires_at=expires_at)

    def also(connection: Connection, outcome: Outcome) -> None:
        secrets.keep_token(connection, user, token, outcome.version, secret)

    return Change(USER, event_stream(user), lambda _: command, also)


def revoke_token(user: str, token: str) -> UserChange:
    """Revoke a token; its next request is refused, and sessions opened with it end."""

    def also(connection: Connection, _: Outcome) -> None:
        secrets.forget_token(connection, user, token)

    return Change(USER, event_stream(user), lambda _: RevokeToken(token=token), also)


def link_identity(user: str, issuer: str, subject: str) -> UserChange:
    """Link a user to this subject at an OpenID provider; sessions of a subject linked before end."""

    def build(connection: Connection) -> LinkIdentity:
        linked = user_of_identity(connection, issuer, subject)
        return LinkIdentity(issuer=issuer, subject=subject, linked_to=None if linked == user else linked)

    return Change(USER, event_stream(user), build, lambda connection, outcome: _out(connection, user, outcome))


def unlink_identity(user: str) -> UserChange:
    """Remove a user's link to an OpenID provider; sessions opened through it end."""

    def out(connection: Connection, outcome: Outcome) -> None:
        _out(connection, user, outcome)

    return Change(USER, event_stream(user), lambda _: UnlinkIdentity(), out)


def _out(connection: Connection, user: str, outcome: Outcome) -> None:
    if outcome.events:
        end_sessions(connection, user, by=LoginMethod.PROVIDER)


def event_stream(user: str) -> str:
    """Return the name of a user's event stream."""
    return f"user-{user}"
