"""`/timeline/-rebuild` and `/zones/-forget`: rare maintenance of the control plane and the zone router.

Projections are rebuilt from the event log; an unreachable node of the zone router is no longer waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, NotFound, StateConflict, ValueInvalid
from backend.eventlog.registry import domain_registry
from backend.projections import rebuilding
from backend.projections.catalogue import PROJECTIONS
from backend.projections.framework import Projection
from backend.queries.base import events
from backend.queries.zones.zone_router import forget_node, list_nodes
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import Shared, Viewer
from backend.web.words.figures import counted

router = APIRouter(include_in_schema=False, route_class=PageRoute)

REBUILD, FORGET = "/timeline/-rebuild", "/zones/-forget"
EVERY = ""
Text = Annotated[str, Query(max_length=300)]


@dataclass(frozen=True)
class Rebuilding:
    """Action of the form for projections."""

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Show a preview without rebuilding."""
        name, chosen = given.get("name", EVERY), self._chosen(given)
        with change_request.services.reading() as connection:
            head = events.head(connection).position
        query = f"?name={name}" if name else ""
        what = counted(len(chosen), "projection")
        return Effect(
            sentence=f"{what} will be rebuilt from {counted(head, 'event')}. Nothing is lost: all their data come "
            "from the event log.",
            same=SameChange(
                None,
                f"treeline projections rebuild {name}".strip(),
                curl("POST", f"/api/v1/projections/rebuild{query}"),
            ),
            fields=fields_of({"Projections": ", ".join(each.name for each in chosen)}),
            notes=("Pages show the present rows until the rebuild is complete. A long log takes long.",),
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Rebuild the projections. Rebuilding twice gives the same result, so `once` is ignored."""
        for each in self._chosen(given):
            rebuilding.rebuild(change_request.services.engine, domain_registry(), each)
        return RedirectResponse("/timeline", 303)

    def _chosen(self, given: Fields) -> list[Projection]:
        name = given.get("name", EVERY)
        chosen = [each for each in PROJECTIONS if name in (EVERY, each.name)]
        if not chosen:
            detail = "must be the name of a projection"
            raise ValueInvalid(f"there is no projection {name[:60]!r}", (FieldError("/name", detail),))
        return chosen


@dataclass(frozen=True)
class Forgetting:
    """Action of the form for a node of the zone router."""

    node: str

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview: check that the node is unreachable, and show its open work."""
        with change_request.services.reading() as connection:
            row = next((each for each in list_nodes(connection) if each.report.node == self.node), None)
        if row is None:
            raise NotFound(f"no node {self.node[:60]!r} has reported")
        if not row.is_unreachable:
            raise StateConflict(f"{self.node} still reports: only an unreachable node can be removed")
        streams = counted(row.report.open_streams, "open stream")
        return Effect(
            sentence=f"{self.node} will be removed: the committed epoch no longer waits for it.",
            same=SameChange(
                None,
                f"treeline zones forget {self.node}",
                curl("DELETE", f"/api/v1/route-epochs/reports/{self.node}"),
            ),
            fields=fields_of({"Node": self.node, "Zone": row.report.zone, "Open streams": streams}),
            notes=("If it comes back, it reports again, and the committed epoch waits for it again.",),
            confirm=self.node,
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Forget the node, if its name was typed. One that is gone already is no error."""
        if given.get("confirm", "").strip() != self.node:
            detail = f"type {self.node} to confirm that the node does not come back"
            raise ValueInvalid(detail, (FieldError("/confirm", detail),))
        with change_request.services.engine.begin() as connection:
            forget_node(connection, self.node)
        return RedirectResponse("/zones", 303)


def _rebuild_page() -> FormPage:
    names = sorted(each.name for each in PROJECTIONS)
    return FormPage(
        template="rebuild_form.html",
        address=REBUILD,
        heading="Rebuild projections",
        trail=[("Timeline", "/timeline")],
        verb="Rebuild projections",
        act=Rebuilding(),
        usual=lambda _: {"name": EVERY},
        choices={"models": [(EVERY, "all projections"), *((name, name) for name in names)]},
    )


def _forget_page(node: str) -> FormPage:
    return FormPage(
        template="forget_form.html",
        address=FORGET,
        heading=f"Remove node {node[:60]}",
        trail=[("Zones", "/zones")],
        verb="Remove node",
        act=Forgetting(node),
        usual=lambda _: {"node": node},
    )


@router.get(REBUILD)
def rebuild_form(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form for projections."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _rebuild_page())


@router.post(REBUILD)
def rebuild(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the rebuild, or run it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _rebuild_page(), fields)


@router.get(FORGET)
def forget_form(request: Request, services: Shared, viewer: Viewer, node: Text = "") -> Response:
    """Show the form for one node."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _forget_page(node))


@router.post(FORGET)
def forget(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the removal of the node, or run it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _forget_page(fields.get("node", "")), fields)
