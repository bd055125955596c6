"""`/tenants/{t}/members`: the members of a tenant, managed by its owners."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import At, Body, Paging, Reading, Writing, listed, plausible_names
from backend.changes import users as changes
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action, Membership
from backend.queries.access.users import list_members
from backend.queries.tenants.tenants import find_tenant

router = APIRouter(prefix="/tenants/{tenant}/members", tags=["users"], dependencies=[Depends(plausible_names)])


class Belonging(Body):
    """Membership of a user in a tenant."""

    membership: str = Field(description=" | ".join(Membership))


@router.get("", openapi_extra=needs(Action.READ_TENANT))
def get_members(tenant: str, connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List the members of the tenant, by name."""
    find_tenant(connection, tenant, at)
    return listed(list_members(connection, tenant, at), page, lambda row: row.user, asdict)


@router.put("/{user}", openapi_extra=needs(Action.MANAGE_MEMBERS))
def give_membership(tenant: str, user: str, body: Belonging, write: Writing) -> Response:
    """Add an existing user to the tenant, or change its membership."""

    def answer(connection: Connection, _: Outcome) -> Answer:
        [row] = [row for row in list_members(connection, tenant) if row.user == user]
        return Answer(200, asdict(row))

    return write.carry_out(changes.give_membership(tenant, user, body.membership), answer)


@router.delete("/{user}", status_code=204, openapi_extra=needs(Action.MANAGE_MEMBERS))
def end_membership(tenant: str, user: str, write: Writing) -> Response:
    """Remove a user from the tenant; takes effect with the user's next request."""
    return write.carry_out(changes.end_membership(tenant, user), lambda connection, _: Answer(204, None))
