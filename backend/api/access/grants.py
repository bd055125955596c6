"""`/tenants/{t}/grants`: grants of applications, of any tenant, on a tenant's streams."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import At, Body, Paging, Reading, Writing, listed, plausible_names
from backend.changes import applications as changes
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.tenants.application import OPERATIONS, GrantState
from backend.domain.tenants.application_commands import DECISIONS
from backend.domain.tenants.application_records import LONGEST_REASON
from backend.queries.tenants.applications import GrantRow, list_grants
from backend.queries.tenants.tenants import find_tenant

router = APIRouter(
    prefix="/tenants/{tenant}/grants", tags=["applications"], dependencies=[Depends(plausible_names)]
)


class Decision(Body):
    """Decision on an application's request or grant."""

    application: str = Field(description="Full name of the application.")
    stream: str = Field(description="tenant/instance/environment/stream, of the tenant of the path.")
    operation: str = Field(description=" | ".join(OPERATIONS))
    decision: str = Field(description=" | ".join(DECISIONS))
    reason: str | None = Field(None, max_length=LONGEST_REASON, description="Shown to the application's tenant.")


@router.get("", openapi_extra=needs(Action.READ_TENANT))
def get_grants(
    tenant: str,
    connection: Reading,
    at: At,
    page: Paging,
    state: Annotated[GrantState | None, Query(description="Only grants in this state.")] = None,
) -> dict[str, Any]:
    """List requests and grants for the tenant's streams, by stream, application and operation."""
    find_tenant(connection, tenant, at)
    rows = list_grants(connection, tenant, at, state=state)
    return listed(rows, page, _place, shown)


@router.post("", openapi_extra=needs(Action.DECIDE_ACCESS))
def decide_access(tenant: str, body: Decision, write: Writing) -> Response:
    """Grant or refuse an application's request, or withdraw its grant; takes effect at once."""
    change = changes.decide_access(
        tenant, body.application, body.stream, body.operation, body.decision, body.reason
    )

    def answer(connection: Connection, _: Outcome) -> Answer:
        wanted = (body.application, body.stream, body.operation)
        rows = list_grants(connection, tenant)
        [row] = [row for row in rows if (row.principal, row.stream, row.operation) == wanted]
        return Answer(200, shown(row))

    return write.carry_out(change, answer)


def shown(row: GrantRow) -> dict[str, Any]:
    """Return a grant as responses show it."""
    return {
        "application": row.principal,
        "stream": row.stream,
        "operation": row.operation,
        "state": row.state,
        "requested_by": row.requested_by,
        "decided_by": row.decided_by,
        "reason": row.reason,
        "position": row.position,
    }


def _place(row: GrantRow) -> str:
    # A blank sorts before all characters of names: the order is that of the three parts.
    return f"{row.stream} {row.principal} {row.operation}"
