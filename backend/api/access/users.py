"""`/users`, their tokens and passwords, and `/me`: users and their permissions (docs/access.md)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field, SecretStr
from sqlalchemy import Connection

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import (
    At,
    Body,
    Paging,
    Reading,
    Writing,
    etag,
    listed,
    plausible_names,
    shown_at,
)
from backend.changes import users as changes
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action, Role
from backend.domain.access.user import LONGEST_SUBJECT, MOST_TENANTS
from backend.domain.base.errors import StateConflict, ValueInvalid
from backend.queries.access import secrets
from backend.queries.access import users as queries
from backend.queries.access.users import TokenRow, UserRow, find_user

router = APIRouter(tags=["users"], dependencies=[Depends(plausible_names)])
USER_PATH = "/users/{user}"
TOKENS = USER_PATH + "/tokens"
_ROLES = " | ".join(Role)
_TENANTS: Any = Field(None, max_length=MOST_TENANTS, description="Tenant -> member | owner.")


class NewUser(Body):
    """A user to create."""

    name: str
    role: str = Field(Role.TENANT.value, description=_ROLES)
    disabled: bool = False
    tenants: dict[str, str] | None = _TENANTS


class UserChanges(Body):
    """Changes of a user; fields left out, or null, stay. `tenants` replaces all memberships."""

    role: str | None = Field(None, description=_ROLES)
    disabled: bool | None = None
    tenants: dict[str, str] | None = _TENANTS


class NewToken(Body):
    """A token to issue."""

    name: str
    expires_in_days: int | None = Field(None, description="Left out: valid until it is revoked.", ge=1, le=3650)


class NewPassword(Body):
    """A password to set."""

    password: SecretStr = Field(max_length=1000)


@router.get("/me", openapi_extra=needs(Action.OWN_ACCOUNT))
def get_me(caller: Asking) -> dict[str, Any]:
    """Show the caller: name, role, memberships and token."""
    return {"name": caller.name, "role": caller.role, "tenants": dict(caller.tenants), "token": caller.token}


@router.get("/users", openapi_extra=needs(Action.READ_ESTATE))
def list_users(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List all users, by name."""
    after = None if page.after is None else str(page.after)
    rows = queries.list_users(connection, at, after=after, limit=page.limit + 1)
    return listed(rows, page, lambda row: row.name, shown)


@router.post("/users", status_code=201, openapi_extra=needs(Action.MANAGE_USERS))
def create_user(body: NewUser, write: Writing) -> Response:
    """Create a user; it can log in once it has a token or a password."""

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_user(connection, body.name)
        return Answer(201, shown(row), {"Location": f"/api/v1/users/{row.name}", "ETag": etag(row.version)})

    change = changes.create_user(body.name, body.role, body.tenants or {}, disabled=body.disabled)
    return write.carry_out(change, answer)


@router.get(USER_PATH, openapi_extra=needs(Action.READ_ESTATE, or_itself=True))
def get_user(user: str, connection: Reading, at: At) -> Response:
    """Show one user."""
    row = find_user(connection, user, at)
    return shown_at(row.version, shown(row))


@router.patch(USER_PATH, openapi_extra=needs(Action.MANAGE_USERS))
def change_user(user: str, body: UserChanges, write: Writing) -> Response:
    """Change a user's role and memberships, disable or enable the user; takes effect with the next request."""

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_user(connection, user)
        return Answer(200, shown(row), {"ETag": etag(row.version)})

    return write.carry_out(changes.change_user(user, **body.model_dump(), match=write.match), answer)


@router.put(USER_PATH + "/password", status_code=204, openapi_extra=needs(Action.MANAGE_USERS))
def set_password(user: str, body: NewPassword, write: Writing) -> Response:
    """Set a user's password for the console, and end the user's sessions. Takes no Idempotency-Key."""
    if write.idempotency is not None:
        # The key is stored with a digest of the body, against which passwords could be tried far too quickly.
        raise ValueInvalid(
            "setting a password takes no Idempotency-Key: leave it out; repeating the request is safe"
        )
    change = changes.set_password(user, body.password.get_secret_value())
    return write.carry_out(change, lambda connection, _: Answer(204, None))


@router.get(TOKENS, openapi_extra=needs(Action.MANAGE_USERS, or_itself=True))
def list_tokens(user: str, connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List a user's tokens, by name; their secrets were shown once."""
    find_user(connection, user, at)
    return listed(queries.list_tokens(connection, user, at), page, lambda row: row.name, shown_token)


# Not for users themselves: a token that a token issued would outlive it. Users have the console's Account page.
@router.post(TOKENS, status_code=201, openapi_extra=needs(Action.MANAGE_USERS))
def issue_token(user: str, body: NewToken, write: Writing) -> Response:
    """Issue a token. `secret` is in this response only; a repeat by Idempotency-Key has null there."""
    secret = secrets.new_token()
    end = None if body.expires_in_days is None else write.time + timedelta(days=body.expires_in_days)

    def answer(connection: Connection, _: Outcome) -> Answer:
        [row] = [row for row in queries.list_tokens(connection, user) if row.name == body.name]
        headers = {"Location": f"/api/v1/users/{user}/tokens/{body.name}"}
        shown_once = {} if write.dry_run else {"secret": secret}
        return Answer(201, {**shown_token(row), "secret": None}, headers, shown_once)

    return write.carry_out(changes.issue_token(user, body.name, secret, write.time, end), answer)


@router.delete(TOKENS + "/{token}", status_code=204, openapi_extra=needs(Action.MANAGE_USERS, or_itself=True))
def revoke_token(user: str, token: str, write: Writing) -> Response:
    """Revoke a token: its next request is refused, and the sessions that it opened end."""
    return write.carry_out(changes.revoke_token(user, token), lambda connection, _: Answer(204, None))


class Identity(Body):
    """Identity of a user at the OpenID provider of the settings."""

    subject: str = Field(max_length=LONGEST_SUBJECT, description="The provider's `sub`; a refused login shows it.")


@router.put(USER_PATH + "/identity", openapi_extra=needs(Action.MANAGE_USERS))
def link_identity(user: str, body: Identity, write: Writing) -> Response:
    """Let the person with this subject at the provider log in as the user."""
    issuer = write.services.config.oidc_issuer
    if issuer is None:
        raise StateConflict("no OpenID provider is configured: set TREELINE_OIDC_ISSUER")

    def answer(connection: Connection, _: Outcome) -> Answer:
        return Answer(200, {"issuer": issuer, "subject": body.subject})

    return write.carry_out(changes.link_identity(user, issuer, body.subject), answer)


@router.delete(USER_PATH + "/identity", status_code=204, openapi_extra=needs(Action.MANAGE_USERS))
def unlink_identity(user: str, write: Writing) -> Response:
    """Unlink the user's identity at the provider; sessions that were opened through it end."""
    return write.carry_out(changes.unlink_identity(user), lambda connection, _: Answer(204, None))


def shown(row: UserRow) -> dict[str, Any]:
    """Return a user as responses show it."""
    return {
        "name": row.name,
        "role": row.role,
        "disabled": row.disabled,
        "has_password": row.has_password,
        "tenants": dict(row.tenants),
    }


def shown_token(row: TokenRow) -> dict[str, Any]:
    """Return a token as responses show it, without its secret."""
    return {
        "name": row.name,
        "issued_at": row.issued_at.isoformat(),
        "expires_at": row.expires_at and row.expires_at.isoformat(),
    }
