"""Forms of streams: declare, change; each follows the steps of `form_page.py`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes import streams as changes
from backend.changes.tenants import TenantChange
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.base.limits import refuse
from backend.domain.names.names import LONGEST_STREAM, StreamName
from backend.domain.topics.stream_settings import CLEANUP_POLICIES, CLUSTER_DEFAULT, StreamSettings
from backend.queries.base.naming import leaf_formats
from backend.queries.tenants.streams import StreamRow, find_stream
from backend.queries.tenants.tenants import find_environment, get_instance
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, NameOn, fields_of, listed
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import api_path, curl, declared
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.tenants.stream_page import STREAM, Named
from backend.web.tenants.stream_view import names_on, settings_shown
from backend.web.tenants.tenant_forms import TENANTS
from backend.web.tenants.tenants_page import ENVIRONMENT
from backend.web.words.figures import counted
from backend.web.words.units import duration_ms, duration_shown, size_bytes, size_shown, whole_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_USUAL = StreamSettings()
_CHOICES = {"policies": CLEANUP_POLICIES, "longest": LONGEST_STREAM}
_REPLICAS = ("replication_factor", "min_insync_replicas")


def trail_of(tenant: str, instance: str, environment: str) -> list[tuple[str, str]]:
    """Return the pages down to an environment's page, which lists its streams."""
    here = f"/tenants/{tenant}"
    return [
        TENANTS,
        (tenant, here),
        (instance, f"{here}#{instance}"),
        (environment, f"{here}/{instance}/{environment}"),
    ]


def _as_given(settings: StreamSettings) -> Fields:
    """Return settings as the form's fields."""
    return {
        "partitions": str(settings.partitions),
        **{name: str(getattr(settings, name) or "") for name in _REPLICAS},
        "retention_ms": duration_shown(settings.retention_ms),
        "cleanup_policy": settings.cleanup_policy,
        "max_message_bytes": size_shown(settings.max_message_bytes),
        "distributed": "yes" if settings.distributed else "no",
        "config": "\n".join(f"{name}={value}" for name, value in settings.config.items()),
    }


def _settings(given: Fields) -> StreamSettings:
    """Parse the form. Raises ValueInvalid naming each field that is no number, duration or size."""
    readers = {
        "partitions": whole_number,
        **dict.fromkeys((name for name in _REPLICAS if given.get(name, "").strip()), whole_number),
        "retention_ms": duration_ms,
        "max_message_bytes": size_bytes,
    }
    found: dict[str, Any] = {}
    errors: list[FieldError] = []
    for name, read in readers.items():
        try:
            found[name] = read(given.get(name, ""), f"/{name}")
        except ValueInvalid as error:
            errors += error.errors
    try:
        found["config"] = _config(given.get("config", ""))
    except ValueInvalid as error:
        errors += error.errors
    refuse(errors)
    distributed = given.get("distributed") == "yes"
    return StreamSettings(**found, cleanup_policy=given.get("cleanup_policy", ""), distributed=distributed)


def _config(text: str) -> dict[str, str]:
    """Read `name=value`, a line each. Raises ValueInvalid that names the line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, is_pair, value = (part.strip() for part in line.partition("="))
        if not line.strip():
            continue
        if not is_pair or not name or name in found:
            problem = "repeats a setting of an earlier line" if name in found else "is not name=value"
            detail = f"line {number}, {line.strip()[:100]!r}, {problem}"
            raise ValueInvalid(detail, (FieldError("/config", detail),))
        found[name] = value
    return found


def _replicas(row: StreamRow) -> str:
    """Describe the replicas of new topics:

    `3 (min.insync.replicas 2) on c1 and c2; 1 (min.insync.replicas 1) on c3`.
    """
    clusters: dict[tuple[int, int], list[str]] = {}
    for cluster, expected in row.expected.items():
        clusters.setdefault(expected, []).append(cluster)
    said = [f"{factor} (min.insync.replicas {least}) on {listed(on)}" for (factor, least), on in clusters.items()]
    return "; ".join(said) or "the defaults of the clusters that join the tree"


def _wished(given: Fields) -> dict[str, Any]:
    """Return what a changed form declares; an empty number of replicas goes back to the clusters' defaults."""
    wished = asdict(_settings(given))
    return {**wished, **{name: wished[name] or CLUSTER_DEFAULT for name in _REPLICAS}}


def _notes(row: StreamRow) -> tuple[str, ...]:
    notes = []
    if row.under_provisioned:
        notes.append(
            f"{listed(row.under_provisioned)}: fewer brokers than requested replicas; the topic there has one "
            "replica per broker."
        )
    if not row.technical_names:
        notes.append(f"The tree {row.tree} has no clusters yet: topics are created as clusters join it.")
    return tuple(notes)


# --- declare


def _new_stream(tenant: str, instance: str, environment: str) -> FormPage:
    here = f"/tenants/{tenant}/{instance}/{environment}"

    def named(given: Fields) -> StreamName:
        return StreamName(tenant, instance, environment, given.get("name", ""))

    def change(given: Fields) -> TenantChange:
        return changes.declare_stream(named(given), _settings(given))

    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        row = find_stream(connection, named(given))
        settings = row.settings
        body = {name: value for name, value in asdict(settings).items() if value != getattr(_USUAL, name)}
        body = {"partitions": settings.partitions, **body}
        replicas = f"Replicas of its topics: {_replicas(row)}."
        place = [tenant, instance, environment, row.name]
        call = curl("POST", api_path(place, collection=True), {"name": row.name, **body})
        clusters = counted(len(row.technical_names), "cluster")
        return Effect(
            sentence=f"{row.stream} can be declared; a topic of {counted(row.partitions, 'partition')} follows on "
            f"{clusters}.",
            same=declared(place, body, call),
            fields=fields_of(settings_shown(settings)),
            names=names_on(named(given), leaf_formats(connection, row.tree)),
            notes=(replicas, *_notes(row)),
        )

    def names(connection: Connection, given: Fields) -> tuple[NameOn, ...]:
        row = get_instance(connection, tenant, instance)
        formats = leaf_formats(connection, row.tree) if row and given.get("name") else ()
        return names_on(named(given), formats)

    return FormPage(
        template="stream_form.html",
        address=f"{here}/-new",
        heading="Declare stream",
        trail=trail_of(tenant, instance, environment),
        verb="Declare stream",
        act=Command(
            lambda given: changes.declare_stream(named(given), _settings(given)),
            effect,
            lambda given: f"{here}/{given['name']}",
        ),
        usual=lambda _: _as_given(_USUAL),
        choices={**_CHOICES, "is_new": True},
        names=names,
        empty="Enter a name to see its technical name on each cluster, and whether it is available.",
    )


@router.get(ENVIRONMENT + "/-new")
def new_stream(
    tenant: str, instance: str, environment: str, request: Request, services: Shared, viewer: Viewer
) -> Response:
    """Show the form that declares a stream."""
    caller = enter(viewer, Action.DECLARE_STREAMS, tenant)
    with services.reading() as connection:
        find_environment(connection, tenant, instance, environment)
    return show_form(request, services, caller, _new_stream(tenant, instance, environment))


@router.post(ENVIRONMENT + "/-new")
def declare_stream(
    tenant: str, instance: str, environment: str, request: Request, services: Shared, viewer: Viewer, fields: Form
) -> Response:
    """Preview a stream, or declare it."""
    caller = enter(viewer, Action.DECLARE_STREAMS, tenant)
    return answer_form(request, services, caller, _new_stream(tenant, instance, environment), fields)


# --- change


@dataclass(frozen=True)
class Changing:
    """Act of changing a stream. If Kafka would remove records, the stream's full name must be typed to confirm."""

    before: StreamRow
    timeout_seconds: float
    """Seconds for each cluster to answer whether there are records."""

    @property
    def _place(self) -> tuple[str, str, str, str]:
        return self.before.tenant, self.before.instance, self.before.environment, self.before.name

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview the change by a dry run; the clusters are not asked while somebody types."""
        name, wished = StreamName(*self._place), _wished(given)
        change = changes.change_stream(name, wished, version_seen(given), clusters_with_records=())
        return change_request.dry_run(change, self._effect)

    def _effect(self, connection: Connection, outcome: Outcome) -> Effect:
        before, place = self.before, self._place
        row = find_stream(connection, StreamName(*place))
        after, present = asdict(row.settings), asdict(before.settings)
        changed = {
            field: CLUSTER_DEFAULT if value is None else value
            for field, value in after.items()
            if value != present[field]
        }
        clusters = counted(len(row.technical_names), "cluster")
        removed = changes.records_removed_by(before, after)
        loss = (
            f"Kafka will remove {removed} on every cluster. If there are any, only an owner of the tenant may do "
            "this, and it cannot be undone."
        )
        notes = [loss] if removed else []
        if set(_REPLICAS) & set(changed):
            notes.append(f"Replicas of new topics: {_replicas(row)}.")
        if "replication_factor" in changed:
            notes.append(
                "Existing topics keep their replicas until a placement of their cluster is applied: "
                "treeline placement plan --cluster CLUSTER --replication-factor declared."
            )
        path = f"{api_path(place)}?confirm={row.stream}" if removed else api_path(place)
        option = f" --confirm {row.stream}" if removed else ""
        return Effect(
            sentence=f"{row.stream} will have these settings; its topics on {clusters} are altered."
            if outcome.events
            else "Nothing would change: these are the present settings.",
            same=declared(place, changed, curl("PATCH", path, changed, version=before.version), option),
            fields=fields_of(settings_shown(row.settings), settings_shown(before.settings)),
            notes=(*notes, *_notes(row)),
            nothing=not outcome.events,
            confirm=row.stream if removed else "",
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Change the stream as the REST API does."""
        name, wished = StreamName(*self._place), _wished(given)
        confirm, held = given.get("confirm", "").strip() or None, None
        if changes.records_removed_by(self.before, wished):
            reading = change_request.services.reading
            held = changes.find_clusters_with_records(
                reading, change_request.viewer, name, confirm, self.timeout_seconds
            )
        match = version_seen(given)
        change = changes.change_stream(name, wished, match, confirm=confirm, clusters_with_records=held)
        change_request.carry_out_once(change, once, given)
        return RedirectResponse("/tenants/" + "/".join(self._place), 303)


def _stream_form(before: StreamRow, timeout_seconds: float) -> FormPage:
    name = StreamName(before.tenant, before.instance, before.environment, before.name)
    place = (before.tenant, before.instance, before.environment, before.name)
    here = "/tenants/" + "/".join(place)

    def usual(connection: Connection) -> Fields:
        row = find_stream(connection, name)
        return {"version": str(row.version), **_as_given(row.settings)}

    return FormPage(
        template="stream_form.html",
        address=f"{here}/-change",
        heading=f"Change {before.name}",
        trail=[*trail_of(*place[:3]), (before.name, here)],
        verb="Change stream",
        act=Changing(before, timeout_seconds),
        usual=usual,
        choices={**_CHOICES, "is_new": False},
    )


def existing_stream(services: ConsoleServices, name: StreamName) -> StreamRow:
    """Return the stream as it is now. Raises NotFound."""
    with services.reading() as connection:
        return find_stream(connection, name)


@router.get(STREAM + "/-change")
def stream_form(name: Named, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that changes a stream."""
    caller = enter(viewer, Action.DECLARE_STREAMS, name.tenant)
    page = _stream_form(existing_stream(services, name), services.config.probe_timeout_seconds)
    return show_form(request, services, caller, page)


@router.post(STREAM + "/-change")
def change_stream(name: Named, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the change of a stream, or carry it out."""
    caller = enter(viewer, Action.DECLARE_STREAMS, name.tenant)
    page = _stream_form(existing_stream(services, name), services.config.probe_timeout_seconds)
    return answer_form(request, services, caller, page, fields)
