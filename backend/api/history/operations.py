"""`/operations/{id}`: the progress of long-running work."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends

from backend.api.frame.access import needs
from backend.api.frame.requests import Reading, plausible_names
from backend.domain.access.access import Action
from backend.domain.base.errors import NotFound
from backend.queries.history import operations as queries

router = APIRouter(prefix="/operations", tags=["operations"], dependencies=[Depends(plausible_names)])


@router.get("/{operation}", openapi_extra=needs(Action.READ_ESTATE))
def get_operation(operation: str, connection: Reading) -> dict[str, Any]:
    """Get an operation: its state (running, succeeded or failed), progress from 0 to 1, and result or problem."""
    found = queries.get_operation(connection, operation)
    if found is None:
        raise NotFound(f"there is no operation {operation!r}")
    return found
