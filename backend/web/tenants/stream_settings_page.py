"""`/tenants/{t}/{i}/{e}/{stream}/-settings`: a stream's declared settings, and their values on every cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import Response

from backend.domain.access.access import Action
from backend.domain.topics.topic_drift import Drift, InForce, TopicSeen, drifts
from backend.queries.tenants.streams import find_stream
from backend.queries.topics.stream_replication import stream_replication
from backend.queries.topics.topic_drift import declared_config, topics_seen
from backend.web.forms.effect import listed
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.tenants.stream_page import STREAM, Named
from backend.web.tenants.stream_tabs import SETTINGS, stream_address, stream_top
from backend.web.tenants.stream_view import view
from backend.web.words.figures import counted

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@dataclass(frozen=True, kw_only=True)
class DeclaredLine:
    """A declared setting, and the clusters whose topic has another value."""

    setting: str
    value: str
    differing: Mapping[str, InForce]
    said: str
    """Sentence on the clusters that have the declared value."""


@router.get(STREAM + "/-settings")
def settings_page(name: Named, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show the settings, now or at an earlier position, then without observations."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        row = find_stream(connection, name, position)
        seen = topics_seen(connection, row) if past is None else {}
        replication = stream_replication(connection, row) if past is None else {}
    declared = declared_config(row)
    found = drifts(declared, seen)
    context = {
        "past": past,
        "top": stream_top(caller, name, SETTINGS),
        "here": stream_address(name),
        "settings": view(row).settings,
        "declared": declared_lines(declared, found, seen),
        "drift": [each for each in found if each.declared is None],
        "replication": replication,
        "is_observed": bool(seen),
    }
    return templates.page("stream_settings.html", {**frame(request, caller), **context})


def declared_lines(
    declared: Mapping[str, str], found: Sequence[Drift], seen: Mapping[str, TopicSeen]
) -> list[DeclaredLine]:
    """Return a line for each declared setting, by name."""
    drifted = {each.setting: each.clusters for each in found if each.declared is not None}
    lines = []
    for setting, value in sorted(declared.items()):
        differing = {
            cluster: each for cluster, each in drifted.get(setting, {}).items() if each.source != "declared"
        }
        same = [cluster for cluster in seen if cluster not in differing]
        lines.append(DeclaredLine(setting=setting, value=value, differing=differing, said=_said(same, len(seen))))
    return lines


def _said(same: Sequence[str], observed: int) -> str:
    if not observed:
        return "not observed yet"
    if len(same) == observed:
        return f"as declared on {counted(observed, 'cluster')}"
    return f"as declared on {listed(list(same))}" if same else "as declared on no cluster"
