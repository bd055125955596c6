"""`/schemas`: the subjects of a cluster, and one subject with its versions and the differences between two.

As of an earlier position: schemas that had been registered by then, of those that clusters hold now.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from backend.domain.access.access import Action, may_somewhere
from backend.domain.base.errors import ClusterSilent, NotFound, ValueInvalid
from backend.queries.schemas.schemas import list_schema_targets
from backend.registry import permitted
from backend.registry.refusals import RegistryError
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.requested_position import At
from backend.web.frame.services import Shared, SharedRegistries, Viewer, frame
from backend.web.schemas.caller_schemas import Schemas, schemas_then
from backend.web.schemas.schema_view import list_subjects, subject_view, targets_seen
from backend.web.schemas.subject_index import SUBJECTS_TABLE
from backend.web.tables.table_query import TableParameters

router = APIRouter(include_in_schema=False, route_class=PageRoute)

SCHEMAS = ("Schemas", "/schemas")
_SHOWN_THEN = "schemas that had been registered then, of those that clusters hold now"
_HIGHEST = 2**31 - 1
Text = Annotated[str, Query(max_length=500)]


@router.get("/schemas")
def schemas_page(
    request: Request,
    services: Shared,
    registries: SharedRegistries,
    viewer: Viewer,
    query: TableParameters,
    cluster: Text = "",
    at: At = None,
) -> Response:
    """Show the subjects of a cluster, of the primary by default."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    schemas, past = schemas_then(services, registries, caller, at)
    around = {**frame(request, caller), "past": past, "shown_then": _SHOWN_THEN}
    if schemas is None:
        text = (
            "Schemas are stored on the clusters of a tree, and there is no tree yet. Create one on the Tree page."
        )
        message = {"title": "No schemas yet", "message": text, "way": ("/tenants", "Tenants")}
        return templates.page("message.html", {**around, **message})
    chosen = cluster or schemas.primary
    table = SUBJECTS_TABLE if past is None else SUBJECTS_TABLE.without("level")
    asked = query.with_old_name("find", "filter")
    subjects, silent = table.view((), asked), ""
    try:
        subjects = list_subjects(schemas, chosen, table, asked)
    except ClusterSilent as error:
        silent = error.detail
    except NotFound:
        if past is None or chosen not in schemas.wanted.leaves:
            raise
        silent = f"{chosen} is no longer in the tree: its earlier schemas are unknown"
    with services.looking() as connection:
        targets = [] if past else list_schema_targets(connection)
    context = {
        "clusters": list(schemas.wanted.leaves),
        "cluster": chosen,
        "primary": schemas.primary,
        "moving": schemas.wanted.move.cluster if schemas.wanted.move else None,
        "table": subjects,
        "silent": silent,
        "targets": targets_seen(targets, schemas),
        "may_register": past is None and may_somewhere(caller, Action.DECLARE_STREAMS),
    }
    return templates.page("schemas.html", {**around, **context})


@router.get("/schemas/{cluster}/{subject:path}")
def subject_page(
    cluster: str,
    subject: str,
    request: Request,
    services: Shared,
    registries: SharedRegistries,
    viewer: Viewer,
    version: Text = "",
    against: Text = "",
    at: At = None,
) -> Response:
    """Show one subject: its latest or another version, compared with the one before or with any."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    schemas, past = schemas_then(services, registries, caller, at)
    if schemas is None:
        raise NotFound(f"there is no cluster {cluster[:60]!r} in the tree")
    view = subject_view(schemas, cluster, subject, version_number(version), version_number(against))
    on_primary = schemas.translated(cluster, subject)[schemas.primary]
    context = {
        "subject": view,
        "primary": schemas.primary,
        "on_primary": on_primary,
        "may_register": past is None and _may_register(schemas, on_primary),
        "may_set_level": past is None and _may_set_level(schemas, on_primary),
        "past": past,
        "shown_then": _SHOWN_THEN,
    }
    return templates.page("subject.html", {**frame(request, caller), **context})


def address_of(cluster: str, subject: str) -> str:
    """Return the address of a subject's page."""
    return f"/schemas/{cluster}/{quote(subject, safe='')}"


def version_number(text: str) -> int | None:
    """Return the version that a text names; None if it is empty. Raises ValueInvalid."""
    plain = text.strip()
    if not plain:
        return None
    if not (plain.isascii() and plain.isdigit() and 0 < int(plain[:12]) <= _HIGHEST):
        raise ValueInvalid(f"{plain[:20]!r} is not a version: use a number from 1")
    return int(plain)


def _may_register(schemas: Schemas, subject: str) -> bool:
    try:
        schemas.scope(schemas.primary).check_register(subject, ())
    except RegistryError:
        return False
    return True


def _may_set_level(schemas: Schemas, subject: str) -> bool:
    try:
        permitted.check_settings(schemas.call(schemas.primary), subject)
    except (RegistryError, ClusterSilent):
        return False
    return True
