"""`/tenants/{t}/audit`: who changed a tenant, and who read its messages; for its owners."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from backend.api.access.audit import AskedOfAll, listed_audit
from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import MOST_ITEMS, Reading, plausible_names
from backend.domain.access.access import Action
from backend.queries.tenants.tenants import find_tenant

router = APIRouter(prefix="/tenants/{tenant}/audit", tags=["audit"], dependencies=[Depends(plausible_names)])


@router.get("", openapi_extra=needs(Action.MANAGE_TENANT))
def list_tenant_audit(
    tenant: str,
    connection: Reading,
    caller: Asking,
    asked: AskedOfAll,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Maximum number of items.")] = 100,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.")] = None,
) -> dict[str, Any]:
    """List the tenant's entries, the newest first: its own events, and `MessagesRead` for reads of its messages.

    The rules of `GET /audit` hold.
    """
    find_tenant(connection, tenant)
    return listed_audit(connection, caller, replace(asked, tenant=tenant, own_streams=True), limit, cursor)
