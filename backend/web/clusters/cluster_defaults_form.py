"""`/clusters/{name}/-defaults`: a cluster's replica defaults, for streams that declare none.

An empty field is automatic. The preview counts the existing topics: their `min.insync.replicas` is altered at
once, their replicas only move by a placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes.clusters import ClusterChange, change_cluster
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.base.limits import refuse
from backend.domain.topics.replica_defaults import ReplicaDefaults
from backend.queries.clusters.clusters import ClusterRow, find_cluster
from backend.queries.clusters.default_replicas import Affected, affected_topics
from backend.web.clusters.cluster_examples import DEFAULTS_CALLED, defaults_shown
from backend.web.clusters.clusters_page import CLUSTER, CLUSTERS
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import curl, file_of
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.words.figures import counted
from backend.web.words.units import whole_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)

FORM = CLUSTER + "/-defaults"
WITHIN = "defaults"
"""Field of the REST API that contains the form's fields."""


def _wanted(given: Fields) -> ReplicaDefaults:
    """Read the form's fields. Raises ValueInvalid that names each field that is not a number."""
    found: dict[str, int] = {}
    errors: list[FieldError] = []
    for name in DEFAULTS_CALLED:
        text = given.get(name, "").strip()
        try:
            found |= {name: whole_number(text, f"/{WITHIN}/{name}")} if text else {}
        except ValueInvalid as error:
            errors += error.errors
    refuse(errors)
    return ReplicaDefaults(**found)


def _sentence(row: ClusterRow) -> str:
    factor, minimum = row.defaults.shown(row.brokers).values()
    which = "these defaults"
    if factor is not None and minimum is not None:
        which = f"{counted(factor, 'replica')} and min.insync.replicas {minimum}"
    return f"New topics on {row.name} will have {which}, unless their stream declares its own."


def _notes(row: ClusterRow, affected: Affected) -> tuple[str, ...]:
    notes, wanted = [], row.defaults.replication_factor
    if row.brokers is not None and wanted is not None and wanted > row.brokers:
        notes.append(
            f"{row.name} has {counted(row.brokers, 'broker')}: a topic there has one replica per broker, and its "
            "stream is shown as under-provisioned."
        )
    if affected.minimum:
        notes.append(
            f"{counted(affected.minimum, 'topic')} already on {row.name} will be altered at once, to another "
            "min.insync.replicas."
        )
    if affected.factor:
        notes.append(
            f"{counted(affected.factor, 'topic')} already on {row.name} will keep their present replicas "
            "until a placement is applied: "
            f"treeline placement plan --cluster {row.name} --replication-factor declared."
        )
    return tuple(notes)


@dataclass(frozen=True)
class _Setting:
    """Act that sets the defaults of one cluster. `before`: the cluster as it is now."""

    before: ClusterRow

    def change(self, given: Fields) -> ClusterChange:
        return change_cluster(self.before.name, {"defaults": _wanted(given)}, match=version_seen(given))

    def effect(self, connection: Connection, outcome: Outcome, _: Fields) -> Effect:
        before, row = self.before, find_cluster(connection, self.before.name)
        body = {WITHIN: asdict(row.defaults)}
        call = curl("PATCH", f"/api/v1/clusters/{row.name}", body, version=before.version)
        return Effect(
            sentence=_sentence(row) if outcome.events else "Nothing would change: these are the present defaults.",
            same=file_of("clusters", row.name, body, call),
            fields=fields_of(
                defaults_shown(row.defaults, row.brokers), defaults_shown(before.defaults, before.brokers)
            ),
            notes=_notes(row, affected_topics(connection, row, before.defaults)) if outcome.events else (),
            nothing=not outcome.events,
        )


def _usual(row: ClusterRow) -> Mapping[str, str]:
    given = {name: "" if value is None else str(value) for name, value in asdict(row.defaults).items()}
    return {**given, "version": str(row.version)}


def _page(services: ConsoleServices, cluster: str) -> FormPage:
    """Build the form. Raises NotFound."""
    with services.reading() as connection:
        row = find_cluster(connection, cluster)
    here, setting = f"{CLUSTERS}/{row.name}", _Setting(row)
    return FormPage(
        template="cluster_defaults_form.html",
        address=f"{here}/-defaults",
        heading=f"Replica defaults of {row.name}",
        trail=[("Clusters", CLUSTERS), (row.name, here)],
        verb="Set defaults",
        act=Command(setting.change, setting.effect, lambda _: here),
        usual=lambda connection: dict(_usual(find_cluster(connection, cluster))),
        choices={"automatic": ReplicaDefaults().shown(row.brokers)},
        within=WITHIN,
        empty="Change a number to see which topics it affects.",
    )


@router.get(FORM)
def defaults_form(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that sets the defaults."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _page(services, cluster))


@router.post(FORM)
def set_defaults(cluster: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the defaults, or set them."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _page(services, cluster), fields)
