"""`/schemas/targets`: the schema distributor's progress on each cluster that is not the primary."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from backend.api.frame.access import needs
from backend.api.frame.requests import Paging, Reading, listed
from backend.domain.access.access import Action
from backend.queries.schemas.schemas import SchemaTargetRow, list_schema_targets

router = APIRouter(prefix="/schemas", tags=["schemas"])


@router.get("/targets", openapi_extra=needs(Action.READ_ESTATE))
def list_targets(connection: Reading, page: Paging) -> dict[str, Any]:
    """List the targets with state, number of records behind the primary, and the first hundred conflicts."""
    return listed(list_schema_targets(connection), page, lambda row: row.cluster, _shown)


def _shown(row: SchemaTargetRow) -> dict[str, Any]:
    return {**asdict(row), "written_at": row.written_at.isoformat()}
