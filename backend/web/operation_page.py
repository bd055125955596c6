"""`/operations/{id}`: long work that a form began, followed until it is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access import Action
from backend.domain.errors import NotFound
from backend.queries.operations import get_operation
from backend.web import templates
from backend.web.kept import kept
from backend.web.pages import PageRoute, enter
from backend.web.services import ConsoleServices, Shared, Viewer, frame

router = APIRouter(include_in_schema=False, route_class=PageRoute)

OPERATION = "/operations/{operation}"
_KINDS = {
    "target-switch": ("A distributor gets another target", "The tree", "/tree"),
    "primary-move": ("The primary is moved", "The tree", "/tree"),
    "adoption": ("Topics are taken over", "Clusters", "/clusters"),
}
_WAITS = {
    "target-switch": "Each of its units has to run on the new target.",
    "primary-move": "The new primary has to have all schemas that the present one has.",
    "adoption": "A worker declares the streams, some hundreds at a time.",
}


@router.get(OPERATION)
def operation_page(operation: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """How far it is."""
    caller = enter(viewer, Action.READ_ESTATE)
    return templates.page("operation.html", {**frame(request, caller), **_shown(services, operation)})


@router.get(OPERATION + "/-live")
def operation_live(operation: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """What changes on it."""
    enter(viewer, Action.READ_ESTATE)
    context = kept(request, f"operation {operation}", lambda: _shown(services, operation))
    return HTMLResponse(templates.block("operation.html", "cockpit", context))


def _shown(services: ConsoleServices, identity: str) -> Mapping[str, Any]:
    with services.reading() as connection:
        found = _found(connection, identity)
    kind = identity.rpartition("-")[0]
    title, above, address = _KINDS[kind]
    problem = found["problem"]
    return {
        "operation": found,
        "running": found["state"] == "running",
        "title": title,
        "trail": [(above, address)],
        "waits": _WAITS[kind],
        "began_at": identity.rpartition("-")[2],
        "percent": round(100 * found["progress"]),
        "problem": None if problem is None else problem.get("detail") or problem.get("title"),
        "result": _result(found["result"]),
    }


def _found(connection: Connection, identity: str) -> dict[str, Any]:
    found = get_operation(connection, identity)
    if found is None:
        raise NotFound(f"there is no operation {identity[:60]!a}")
    return found


def _result(result: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What came of it, by name, each in words."""
    shown = []
    for name, value in (result or {}).items():
        text = value
        if isinstance(value, Mapping):
            text = "; ".join(f"{key}: {why}" for key, why in value.items()) or "none"
        shown.append((name.replace("_", " ").capitalize(), "none" if text is None else str(text)))
    return shown
