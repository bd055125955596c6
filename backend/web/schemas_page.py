"""`/schemas`: the subjects of a cluster, and one subject with its versions and what differs between two."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.domain.access import Action, Caller
from backend.domain.errors import ClusterSilent, NotAllowed, NotFound, ValueInvalid
from backend.queries.schemas import list_schema_targets, wanted_schemas
from backend.web import templates
from backend.web.pages import PageRoute, enter_somewhere
from backend.web.schema_view import Sight, list_subjects, mirror_of, subject_view, targets_seen
from backend.web.services import Registries, Shared, Viewer, frame

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_SHOWN = 200
_HIGHEST = 2**31 - 1
Text = Annotated[str, Query(max_length=500)]


def sight_of(connection: Connection, caller: Caller) -> Sight | None:
    """What the caller may see; None while there is no tree."""
    wanted = wanted_schemas(connection)
    return None if wanted is None or not wanted.leaves else Sight(caller, wanted)


@router.get("/schemas")
def schemas_page(
    request: Request,
    services: Shared,
    registries: Registries,
    viewer: Viewer,
    cluster: Text = "",
    find: Text = "",
    after: Text = "",
) -> Response:
    """The subjects of a cluster: of the primary, if none is named."""
    caller = enter_somewhere(viewer, Action.READ_TENANT)
    with services.reading() as connection:
        sight = sight_of(connection, caller)
        targets = list_schema_targets(connection)
    if sight is None:
        text = "Schemas are kept by the clusters of a tree, and there is no tree yet. See the Tree page."
        message = {"title": "No schemas yet", "message": text, "way": ("/tenants", "Tenants")}
        return templates.page("message.html", {**frame(request, caller), **message})
    primary = sight.wanted.primary
    chosen = cluster or primary
    _check_leaf(sight, chosen)
    subjects, silent = [], ""
    try:
        subjects = list_subjects(mirror_of(registries, chosen), sight, find.strip(), after, MOST_SHOWN + 1)
    except ClusterSilent as error:
        silent = error.detail
    context = {
        "clusters": list(sight.wanted.leaves),
        "cluster": chosen,
        "primary": primary,
        "moving": sight.wanted.move.cluster if sight.wanted.move else None,
        "find": find.strip(),
        "subjects": subjects[:MOST_SHOWN],
        "following": subjects[MOST_SHOWN - 1].name if len(subjects) > MOST_SHOWN else None,
        "silent": silent,
        "targets": targets_seen(targets, sight),
        "may_register": bool(caller.tenants_for(Action.DECLARE_STREAMS) is None or caller.tenants),
    }
    return templates.page("schemas.html", {**frame(request, caller), **context})


@router.get("/schemas/{cluster}/{subject:path}")
def subject_page(
    cluster: str,
    subject: str,
    request: Request,
    services: Shared,
    registries: Registries,
    viewer: Viewer,
    version: Text = "",
    against: Text = "",
) -> Response:
    """One subject: its latest version, or another one, against the one before, or against any."""
    caller = enter_somewhere(viewer, Action.READ_TENANT)
    with services.reading() as connection:
        sight = sight_of(connection, caller)
    if sight is None:
        raise NotFound(f"there is no cluster {cluster[:60]!a}")
    _check_leaf(sight, cluster)
    view = subject_view(registries, sight, cluster, subject, _number(version), _number(against))
    primary = sight.wanted.primary
    on_primary = sight.translated(cluster, subject)[primary]
    context = {
        "subject": view,
        "primary": primary,
        "on_primary": on_primary,
        "may_register": _may_register(sight, on_primary),
    }
    return templates.page("subject.html", {**frame(request, caller), **context})


def _check_leaf(sight: Sight, cluster: str) -> None:
    if cluster not in sight.wanted.leaves:
        raise NotFound(f"there is no cluster {cluster[:60]!a} in the tree")


def _number(text: str) -> int | None:
    plain = text.strip()
    if not plain:
        return None
    if not (plain.isascii() and plain.isdigit() and 0 < int(plain[:12]) <= _HIGHEST):
        raise ValueInvalid(f"{plain[:20]!a} is no version: a number from 1 on")
    return int(plain)


def _may_register(sight: Sight, subject: str) -> bool:
    try:
        sight.check_writing(subject)
    except (NotFound, NotAllowed):
        return False
    return True
