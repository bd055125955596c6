"""`/operations/{id}`: long-running work that a form started, followed until it is done, or as of a position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import NotFound
from backend.queries.base.events import event_at
from backend.queries.history.operations import get_operation
from backend.web.frame import templates
from backend.web.frame.page_cache import cached
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.words.names import operation_name

router = APIRouter(include_in_schema=False, route_class=PageRoute)

OPERATION = "/operations/{operation}"
_KINDS = {
    "target-switch": ("Change of a distributor's target", "Tree", "/tree"),
    "primary-move": ("Move of the primary", "Tree", "/tree"),
    "adoption": ("Adoption of topics", "Clusters", "/clusters"),
}
_WAITS = {
    "target-switch": "Each of its tasks has to start on the new target.",
    "primary-move": "The new primary needs all schemas of the current one.",
    "adoption": "A worker declares the streams, a few hundred at a time.",
}


@router.get(OPERATION)
def operation_page(operation: str, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show the operation's progress, now or at a position."""
    caller = enter(viewer, Action.READ_ESTATE)
    context = _shown(services, caller, operation, at)
    return templates.page("operation.html", {**frame(request, caller), **context})


@router.get(OPERATION + "/-live")
def operation_live(operation: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Return the page's changing part."""
    caller = enter(viewer, Action.READ_ESTATE)
    context = cached(request, f"operation {operation}", lambda: _shown(services, caller, operation))
    return HTMLResponse(templates.block("operation.html", "cockpit", context))


def _shown(services: ConsoleServices, caller: Caller, identity: str, at: str | None = None) -> Mapping[str, Any]:
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        found = _found(connection, identity, position)
        kind, _, began_at = identity.rpartition("-")
        usual, above, address = _KINDS[kind]
        begun = event_at(connection, int(began_at))
        title = usual if begun is None else operation_name(begun.name, begun.data, usual)
    problem = found["problem"]
    return {
        "operation": found,
        "past": past,
        "shown_then": "progress at that time",
        "running": found["state"] == "running",
        "title": title,
        "trail": [(above, address)],
        "waits": _WAITS[kind],
        "began_at": began_at,
        "percent": round(100 * found["progress"]),
        "problem": None if problem is None else problem.get("detail") or problem.get("title"),
        "result": _result(found["result"]),
    }


def _found(connection: Connection, identity: str, position: int | None) -> dict[str, Any]:
    found = get_operation(connection, identity, position)
    if found is None:
        then = "" if position is None else " at that position"
        raise NotFound(f"there is no operation {identity[:60]!r}{then}")
    return found


def _result(result: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the operation's result by name, each in words."""
    shown = []
    for name, value in (result or {}).items():
        text = value
        if isinstance(value, Mapping):
            text = "; ".join(f"{key}: {why}" for key, why in value.items()) or "none"
        shown.append((name.replace("_", " ").capitalize(), "none" if text is None else str(text)))
    return shown
