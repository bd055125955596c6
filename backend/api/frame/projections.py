"""`/projections`: rebuilding projections from the event log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from backend.api.frame.access import needs
from backend.api.frame.requests import DryRun, SharedServices
from backend.domain.access.access import Action
from backend.domain.base.errors import NotFound
from backend.eventlog.registry import domain_registry
from backend.projections import rebuilding
from backend.projections.catalogue import PROJECTIONS

router = APIRouter(prefix="/projections", tags=["projections"])


@router.post("/rebuild", openapi_extra=needs(Action.CHANGE_ESTATE))
def rebuild(
    services: SharedServices,
    name: Annotated[str | None, Query(description="Name of one projection; default: all projections.")] = None,
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Rebuild projections from the first event of the log; the answer comes when they are complete.

    A dry run names the projections, without positions.
    """
    chosen = [projection for projection in PROJECTIONS if name in (None, projection.name)]
    if not chosen:
        known = ", ".join(sorted(projection.name for projection in PROJECTIONS))
        raise NotFound(f"there is no projection {name!r}; there are: {known}")
    return {
        "items": [
            {
                "name": projection.name,
                "position": None
                if dry_run
                else rebuilding.rebuild(services.engine, domain_registry(), projection),
            }
            for projection in chosen
        ],
        "next_cursor": None,
    }
