"""`/tenants/{t}/{i}/{e}/{stream}/-schema`: the subjects of a stream, where they are, and two versions compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from backend.domain.access.access import Action, may
from backend.domain.base.errors import ClusterSilent, NotFound
from backend.domain.names.names import StreamName
from backend.queries.tenants.streams import find_stream
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At
from backend.web.frame.services import Shared, SharedRegistries, Viewer, frame
from backend.web.schemas.caller_schemas import Schemas, schemas_then
from backend.web.schemas.schema_view import SubjectView, subject_view
from backend.web.schemas.schemas_page import address_of, version_number
from backend.web.tenants.stream_page import STREAM, Named
from backend.web.tenants.stream_tabs import SCHEMA, stream_address, stream_top

router = APIRouter(include_in_schema=False, route_class=PageRoute)

Text = Annotated[str, Query(max_length=500)]
MOST_SUBJECTS = 50
_SHOWN_THEN = "schemas that had been registered then, of those that clusters hold now"


@dataclass(frozen=True, kw_only=True)
class SubjectLine:
    """A subject of the stream with its latest version, and the clusters that have all versions."""

    view: SubjectView
    part: str
    """`key` or `value` for a subject that is named so; else empty."""
    address: str
    complete: Sequence[str]
    behind: Sequence[str]
    """Clusters that lack versions, or whose versions are not read yet, each with how many it has."""


@router.get(STREAM + "/-schema")
def schema_page(
    name: Named,
    request: Request,
    services: Shared,
    registries: SharedRegistries,
    viewer: Viewer,
    subject: Text = "",
    version: Text = "",
    against: Text = "",
    at: At = None,
) -> Response:
    """Show the subjects, and two versions of one of them compared: by default the latest with the one before."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    schemas, past = schemas_then(services, registries, caller, at)
    with services.reading() as connection:
        find_stream(connection, name, None if past is None else past.position)
    silent, lines = "", []
    compared: SubjectView | None = None
    if schemas is not None:
        try:
            lines = _lines(schemas, name)
            chosen = next((each.view.name for each in lines if each.view.name == subject), None)
            if subject and chosen is None:
                raise NotFound(f"stream {name} has no subject {subject[:300]!r} on {schemas.primary}")
            if lines:
                shown = chosen or _first(lines)
                numbers = version_number(version), version_number(against)
                compared = subject_view(schemas, schemas.primary, shown, *numbers)
        except ClusterSilent as error:
            silent = error.detail
    context = {
        "past": past,
        "shown_then": _SHOWN_THEN,
        "top": stream_top(caller, name, SCHEMA),
        "here": f"{stream_address(name)}/-schema",
        "lines": lines,
        "compared": compared,
        "silent": silent,
        "primary": None if schemas is None else schemas.primary,
        "prefix": None if schemas is None else _prefix(schemas, name),
        "may_register": past is None and may(caller, Action.DECLARE_STREAMS, name.tenant),
    }
    return templates.page("stream_schema.html", {**frame(request, caller), **context})


def _prefix(schemas: Schemas, name: StreamName) -> str:
    return schemas.technical_name(schemas.primary, name)


def _lines(schemas: Schemas, name: StreamName) -> list[SubjectLine]:
    """Return the subjects that follow the stream on the primary, value and key first. Raises ClusterSilent."""
    prefix = _prefix(schemas, name)
    call = schemas.call(schemas.primary)
    with call.registry.mirror.lock.reading():
        named = [each for each in call.catalog.subjects if each.startswith(prefix)]
    found = sorted(each for each in named if schemas.stream_of(schemas.primary, each)[0] == name)
    lines = []
    for each in found[:MOST_SUBJECTS]:
        try:
            lines.append(_line(schemas, each, prefix))
        except NotFound:
            continue  # all its versions were deleted, or none existed at the earlier position
    return sorted(lines, key=lambda line: (line.part == "", line.part != "value", line.view.name))


def _line(schemas: Schemas, subject: str, prefix: str) -> SubjectLine:
    view = subject_view(schemas, schemas.primary, subject, None, None)
    total = len(view.versions)
    complete = [schemas.primary, *(each.cluster for each in view.elsewhere if each.versions == total)]
    behind = [
        f"{each.cluster} ({'not read yet' if each.versions is None else f'{each.versions} of {total}'})"
        for each in view.elsewhere
        if each.versions != total
    ]
    ending = subject.removeprefix(f"{prefix}-")
    return SubjectLine(
        view=view,
        part=ending if ending in ("key", "value") else "",
        address=address_of(schemas.primary, subject),
        complete=complete,
        behind=behind,
    )


def _first(lines: Sequence[SubjectLine]) -> str:
    """Return the subject to compare if none is chosen: the first that has two versions, or else the first."""
    return next((each.view.name for each in lines if len(each.view.versions) > 1), lines[0].view.name)
