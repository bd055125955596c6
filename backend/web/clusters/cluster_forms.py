"""`/clusters/-new` and `/clusters/{name}/-change`: adding Kafka clusters, and changing their description.

The cluster is contacted for the preview, and again when the change is carried out, as the REST API does; not while
the user types, when addresses are incomplete and properties could be sent to a wrong host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes import clusters as changes
from backend.changes.clusters import NOT_PROBED, ClusterChange, ProbeResult
from backend.changes.probing import Prober
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.clusters.client_properties import MASK, SECRET_KEYS, masked, unmasked
from backend.domain.names import formats
from backend.queries.clusters.clusters import ClusterRow, find_cluster
from backend.web.clusters.cluster_examples import names_in_example, properties_given, properties_shown
from backend.web.clusters.clusters_page import CLUSTER, CLUSTERS
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, curl, yaml_document
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ABOVE = ("Clusters", CLUSTERS)
NEW = CLUSTERS + "/-new"
CHANGE = CLUSTER + "/-change"
EXAMPLE = "For example"
_ASKED_FOR_THE_PREVIEW = "The preview contacts the cluster."
_TEXTS = ("bootstrap_servers", "topic_format", "group_format", "subject_format")


def _described(given: Fields) -> dict[str, Any]:
    """Return the form's fields as the REST API takes them. Raises ValueInvalid."""
    texts = {name: given.get(name, "").strip() for name in _TEXTS}
    zone = given.get("zone", "").strip() or None
    return {**texts, "zone": zone, "properties": properties_given(given.get("properties", ""))}


def _accepts_offline(given: Fields) -> bool:
    return given.get("accept_offline") == "yes"


def _shown(row: ClusterRow, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the description by the form's labels; `properties` are masked."""
    return {
        "Name": row.name,
        "Bootstrap servers": row.bootstrap_servers,
        "Zone": row.zone or "–",
        "Topic format": row.topic_format,
        "Group format": row.group_format,
        "Subject format": row.subject_format,
        "Client properties": "; ".join(f"{key}={value}" for key, value in sorted(properties.items())) or "none",
    }


def _answered(found: ProbeResult) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the facts that the cluster answered with, and a note if it did not answer."""
    facts, unreachable = found
    if facts is not None:
        ids = ", ".join(map(str, facts.brokers))
        return {
            "Kafka cluster id": facts.kafka_cluster_id,
            "Brokers that answered": f"{len(facts.brokers)}: {ids}",
        }, ()
    if unreachable is not None:
        note = (
            f"The cluster does not answer: {unreachable}. It is offline until it does; it is polled periodically."
        )
        return {"Kafka cluster id": "not known yet", "Brokers that answered": "none"}, (note,)
    return {}, ()


@dataclass(frozen=True)
class Adding:
    """Act of the form that adds a cluster."""

    timeout_seconds: float

    def typed(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Show a preview without contacting the cluster."""
        return self._effect(change_request, given, NOT_PROBED, (_ASKED_FOR_THE_PREVIEW,))

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview by a dry run, with the cluster's answer."""
        # First the check that takes no time.
        change_request.dry_run(self._change(given), lambda connection, outcome: None)
        return self._effect(change_request, given, self._ask(change_request, given, dry_run=True))

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Add the cluster as the REST API does: it is contacted again."""
        if not change_request.was_carried_out(once, given):
            change_request.dry_run(self._change(given), lambda connection, outcome: None)
            change_request.carry_out_once(
                self._change(given, self._ask(change_request, given, dry_run=False)), once, given
            )
        return RedirectResponse(f"{CLUSTERS}/{given['name'].strip()}", 303)

    def _ask(self, change_request: ChangeRequest, given: Fields, *, dry_run: bool) -> ProbeResult:
        described = _described(given)
        return changes.probe_cluster(
            described["bootstrap_servers"],
            described["properties"],
            self.timeout_seconds,
            _accepts_offline(given),
            Prober(change_request.services.engine, change_request.viewer.name, dry_run),
        )

    def _change(self, given: Fields, found: ProbeResult = NOT_PROBED) -> ClusterChange:
        return changes.add_cluster({"name": given.get("name", "").strip(), **_described(given)}, found)

    def _effect(
        self, change_request: ChangeRequest, given: Fields, found: ProbeResult, notes: tuple[str, ...] = ()
    ) -> Effect:
        described = _described(given)
        body = {key: value for key, value in described.items() if value}

        def look(connection: Connection, _: Outcome) -> Effect:
            row = find_cluster(connection, given["name"].strip())
            answered, more = _answered(found)
            offline = {"accept_offline": True} if found[1] is not None else {}
            return Effect(
                sentence=f"{row.name} will be added, with number {row.number} in copy origins. Nothing is copied "
                "to it before it is a leaf of the tree.",
                same=SameChange(
                    yaml_document({"clusters": {row.name: {**body, **offline}}}),
                    f"treeline apply -f {row.name}.yaml",
                    curl("POST", "/api/v1/clusters", {"name": row.name, **body, **offline}),
                ),
                fields=fields_of({**_shown(row, masked(row.properties)), **answered}),
                names=names_in_example(connection, row),
                notes=(*notes, *more),
            )

        return change_request.dry_run(self._change(given, found), look)


@dataclass(frozen=True)
class Describing:
    """Act of the form that changes a cluster."""

    row: ClusterRow
    """The cluster as it is now."""
    timeout_seconds: float

    def typed(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Show a preview without contacting the cluster."""
        return self._effect(change_request, given, NOT_PROBED)

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview by a dry run, with the cluster's answer if its connection changes."""
        change_request.dry_run(self._change(given), lambda connection, outcome: None)
        return self._effect(change_request, given, self._ask(change_request, given, dry_run=True))

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Change the cluster as the REST API does: it is contacted again."""
        if not change_request.was_carried_out(once, given):
            change_request.dry_run(self._change(given), lambda connection, outcome: None)
            change_request.carry_out_once(
                self._change(given, self._ask(change_request, given, dry_run=False)), once, given
            )
        return RedirectResponse(f"{CLUSTERS}/{self.row.name}", 303)

    def _ask(self, change_request: ChangeRequest, given: Fields, *, dry_run: bool) -> ProbeResult:
        described = _described(given)
        return changes.probe_if_changed(
            self.row,
            described["bootstrap_servers"],
            described["properties"],
            self.timeout_seconds,
            _accepts_offline(given),
            Prober(change_request.services.engine, change_request.viewer.name, dry_run),
        )

    def _change(self, given: Fields, found: ProbeResult = NOT_PROBED) -> ClusterChange:
        described = _described(given)
        wanted = {**described, "clear_zone": described["zone"] is None}
        return changes.change_cluster(self.row.name, wanted, found, version_seen(given))

    def _effect(self, change_request: ChangeRequest, given: Fields, found: ProbeResult) -> Effect:
        described, before = _described(given), self.row
        present = masked(before.properties)
        wanted = unmasked(described["properties"], before.properties)
        new_secrets = {key for key in wanted if key in SECRET_KEYS and wanted[key] != before.properties.get(key)}
        then = {key: f"{MASK} (another)" if key in new_secrets else value for key, value in masked(wanted).items()}

        def look(connection: Connection, outcome: Outcome) -> Effect:
            row = find_cluster(connection, before.name)
            answered, notes = _answered(found)
            same = _same_change(before, described)
            return Effect(
                sentence=f"{row.name} will have this description; Treeline's connections to it are opened again."
                if outcome.events
                else "Nothing would change: these are the present settings.",
                same=same,
                fields=(*fields_of(_shown(row, then), _shown(before, present)), *fields_of(answered, answered)),
                names=names_in_example(connection, row),
                notes=notes if outcome.events else (),
                nothing=not outcome.events,
            )

        return change_request.dry_run(self._change(given, found), look)


def _same_change(before: ClusterRow, described: Mapping[str, Any]) -> SameChange:
    present = {
        **{name: getattr(before, name) for name in (*_TEXTS, "zone")},
        "properties": masked(before.properties),
    }
    body = {key: value for key, value in described.items() if value != present[key]}
    # A file without a zone leaves the zone unchanged.
    takes_zone = body.get("zone", "") is None
    path = f"/api/v1/clusters/{before.name}"
    return SameChange(
        None if takes_zone else yaml_document({"clusters": {before.name: body}}),
        None if takes_zone else f"treeline diff -f {before.name}.yaml\ntreeline apply -f {before.name}.yaml",
        curl("PATCH", path, body, version=before.version),
    )


def _new(services: ConsoleServices) -> FormPage:
    act = Adding(services.config.probe_timeout_seconds)
    usual = {
        "topic_format": formats.DEFAULT_TOPIC_FORMAT,
        "group_format": formats.DEFAULT_GROUP_FORMAT,
        "subject_format": formats.DEFAULT_SUBJECT_FORMAT,
    }
    return FormPage(
        template="cluster_form.html",
        address=NEW,
        heading="Add cluster",
        trail=[ABOVE],
        verb="Add cluster",
        act=act,
        usual=lambda _: usual,
        choices={"is_new": True, "names_title": EXAMPLE},
        while_typing=act.typed,
        empty="Enter a name and bootstrap servers to see a preview, with technical names on the cluster.",
    )


def _change(services: ConsoleServices, cluster: str) -> FormPage:
    """Build the form. Raises NotFound."""
    with services.reading() as connection:
        row = find_cluster(connection, cluster)
    act = Describing(row, services.config.probe_timeout_seconds)
    return FormPage(
        template="cluster_form.html",
        address=f"{CLUSTERS}/{row.name}/-change",
        heading=f"Change {row.name}",
        trail=[ABOVE, (row.name, f"{CLUSTERS}/{row.name}")],
        verb="Change cluster",
        act=act,
        usual=lambda connection: _usual(find_cluster(connection, cluster)),
        choices={"is_new": False, "names_title": EXAMPLE},
        while_typing=act.typed,
        empty="Change a field to see the preview.",
    )


def _usual(row: ClusterRow) -> Fields:
    texts = {name: str(getattr(row, name)) for name in _TEXTS}
    given = {"zone": row.zone or "", "properties": properties_shown(masked(row.properties))}
    return {**texts, **given, "version": str(row.version)}


@router.get(NEW)
def new_cluster_form(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that adds a cluster."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _new(services))


@router.post(NEW)
def add_cluster(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the new cluster, or add it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _new(services), fields)


@router.get(CHANGE)
def change_cluster_form(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that changes a cluster."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _change(services, cluster))


@router.post(CHANGE)
def change_cluster(cluster: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the change of a cluster, or carry it out."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _change(services, cluster), fields)
