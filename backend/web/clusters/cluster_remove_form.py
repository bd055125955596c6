"""`/clusters/{name}/-remove`: the steps that must precede a cluster's removal, and the removal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes import clusters as changes
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.queries.base.names_of_events import name_switches
from backend.queries.clusters.clusters import ClusterRow, find_cluster, trees_with
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.switches import moving_switches
from backend.queries.topics.at_risk import records_at_risk
from backend.web.clusters.clusters_page import CLUSTER, CLUSTERS
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect
from backend.web.forms.form_page import FormPage, answer_form, show_form, version_seen, was_sent_before
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.words.figures import counted

router = APIRouter(include_in_schema=False, route_class=PageRoute)

REMOVE = CLUSTER + "/-remove"


@dataclass(frozen=True)
class Step:
    """A step before a cluster's removal. `ways`: (what to do, address), empty once it is done."""

    done: bool
    sentence: str
    ways: tuple[tuple[str, str], ...] = ()


def steps_of(connection: Connection, row: ClusterRow) -> Sequence[Step]:
    """Return the steps to take before the cluster can be removed: clients first, then records, then the tree."""
    name = row.name
    places = {each.place for each in list_active(connection) if each.cluster == name}
    switches = [each for each in moving_switches(connection) if name in (each.source, each.target)]
    named = name_switches(connection, [each.id for each in switches])
    in_tree = bool(trees_with(connection, name))
    unreplicated_records = records_at_risk(connection).get(name) if in_tree else None
    plan = (("Plan switch", f"/switches/plan?from={quote(name)}"),)
    shown = [Step(True, "It is not the active cluster of any environment.")]
    if places:
        shown = [Step(False, f"It is the active cluster of {counted(len(places), 'environment')}.", plan)]
    shown += [
        Step(
            False,
            f"{named[each.id].short} moves clients from {each.source} to {each.target}: wait for it, or abort it.",
            ((named[each.id].full, f"/switches/{each.id}"),),
        )
        for each in switches
    ]
    if not in_tree:
        return [*shown, Step(True, "It is in no tree: no distributor copies from it or to it.")]
    see = (("View distributors", f"{CLUSTERS}/{name}"),)
    if unreplicated_records:
        records = f"up to {counted(unreplicated_records, 'unreplicated record')}"
        shown.append(Step(False, f"It holds {records}. They are not copied if it leaves the tree now.", see))
    elif unreplicated_records is None:
        unknown = "The number of unreplicated records is unknown: a distributor is not running."
        shown.append(Step(False, unknown, see))
    else:
        shown.append(Step(True, "It has no unreplicated records."))
    return [*shown, Step(False, "It is a leaf of the tree.", (("Edit tree", "/tree/edit"),))]


@dataclass(frozen=True)
class Removing:
    """Act of this form."""

    row: ClusterRow

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview the removal by a dry run."""
        row = self.row
        change_request.dry_run(self._change(given), lambda connection, outcome: None)
        path = f"/api/v1/clusters/{row.name}"
        return Effect(
            sentence=f"{row.name} will be removed from Treeline. Its topics and records stay on it; its number "
            f"{row.number} is never used again.",
            same=SameChange(
                None, f"treeline delete cluster {row.name}", curl("DELETE", path, version=row.version)
            ),
            confirm=row.name,
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Remove the cluster, if its name was typed to confirm."""
        if given.get("confirm", "").strip() != self.row.name:
            detail = f"type {self.row.name} to confirm"
            raise ValueInvalid(detail, (FieldError("/confirm", detail),))
        change_request.carry_out_once(self._change(given), once, given)
        return RedirectResponse(CLUSTERS, 303)

    def _change(self, given: Fields) -> changes.ClusterChange:
        return changes.remove_cluster(self.row.name, version_seen(given))


def _page(services: ConsoleServices, cluster: str) -> FormPage:
    """Build the form. Raises NotFound."""
    with services.reading() as connection:
        row = find_cluster(connection, cluster)
        steps = steps_of(connection, row)
    return FormPage(
        template="cluster_remove.html",
        address=f"{CLUSTERS}/{row.name}/-remove",
        heading=f"Remove {row.name}",
        trail=[("Clusters", CLUSTERS), (row.name, f"{CLUSTERS}/{row.name}")],
        verb="Remove cluster",
        act=Removing(row),
        usual=lambda connection: {"version": str(find_cluster(connection, cluster).version)},
        choices={"steps": steps},
    )


@router.get(REMOVE)
def remove_form(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the remaining steps, and the form."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _page(services, cluster))


@router.post(REMOVE)
def remove_cluster(cluster: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the removal of a cluster, or remove it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    if was_sent_before(ChangeRequest(services, request, caller), fields):
        return RedirectResponse(CLUSTERS, 303)  # The cluster's own page is gone with it.
    return answer_form(request, services, caller, _page(services, cluster), fields)
