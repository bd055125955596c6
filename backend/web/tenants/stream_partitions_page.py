"""`/tenants/{t}/{i}/{e}/{stream}/-partitions`: leaders, replicas, offsets and sizes of a stream's partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from backend.domain.access.access import Action
from backend.domain.names.names import StreamName
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.tenants.stream_figures_view import FiguresView
from backend.web.tenants.stream_page import STREAM, FiguresFacts, Named, figures_facts, figures_view
from backend.web.tenants.stream_tabs import PARTITIONS, stream_address, stream_top

router = APIRouter(include_in_schema=False, route_class=PageRoute)

TEMPLATE = "stream_partitions.html"
First = Annotated[int, Query(ge=0, le=2**31 - 1, alias="from")]
Cluster = Annotated[str, Query(max_length=300)]


@router.get(STREAM + "/-partitions")
def partitions_page(
    name: Named,
    request: Request,
    services: Shared,
    viewer: Viewer,
    first: First = 0,
    cluster: Cluster = "",
    figures: str = "",
) -> Response:
    """Show the page; `figures`: read them at once, for browsers without JavaScript."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    ask = _facts(services, name)
    seen = figures_view(request, caller, name, ask) if figures else None
    context = {
        **_context(name, first, cluster, seen),
        "top": stream_top(caller, name, PARTITIONS),
        "clusters": [each.cluster for each in ask.places],
    }
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(STREAM + "/-partitions/-figures")
def partitions_figures(
    name: Named, request: Request, services: Shared, viewer: Viewer, first: First = 0, cluster: Cluster = ""
) -> Response:
    """Return the table alone; the page requests it once it is shown."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    seen = figures_view(request, caller, name, _facts(services, name))
    return HTMLResponse(templates.block(TEMPLATE, "figures", _context(name, first, cluster, seen)))


def _facts(services: ConsoleServices, name: StreamName) -> FiguresFacts:
    with services.reading() as connection:
        return figures_facts(connection, name)


def _context(name: StreamName, first: int, cluster: str, figures: FiguresView | None) -> Mapping[str, Any]:
    here = f"{stream_address(name)}/-partitions"
    chosen = {"cluster": cluster} if cluster else {}
    context: dict[str, Any] = {
        "here": here,
        "stream": str(name),
        "cluster": cluster,
        "figures": figures,
        "address": f"{here}/-figures?{urlencode({'from': first, **chosen})}",
        "whole": f"{here}?{urlencode({'from': first, **chosen, 'figures': 1})}",
    }
    if figures is not None:
        following = first + figures.a_page(cluster)
        more = {**chosen, "figures": 1}
        context |= {
            "partitions": figures.partitions(first, cluster),
            "following": f"{here}?{urlencode({'from': following, **more})}" if following < figures.total else None,
            "beginning": f"{here}?{urlencode(more)}" if first else None,
        }
    return context
