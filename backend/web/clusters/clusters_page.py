"""`/clusters`: all clusters, and one with its place in the tree, its environments, and its failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.broker_exits import broker_exits
from backend.domain.access.access import Action, Caller
from backend.domain.clusters.client_properties import masked
from backend.domain.tree import tree_shape
from backend.queries.clusters.clusters import ClusterRow, find_cluster, list_clusters
from backend.queries.distribution.distributors import DistributorRow, read_distributors
from backend.queries.switch.active_clusters import ActiveRow, list_active
from backend.queries.tenants.streams import Topics, topics_of_clusters
from backend.queries.topics.at_risk import records_at_risk
from backend.queries.tree.trees import get_tree
from backend.web.clusters.cluster_examples import defaults_shown
from backend.web.frame import templates
from backend.web.frame.page_cache import cached
from backend.web.frame.pages import PageRoute, enter, offer, reasons
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.history.chart import SMALL, Chart
from backend.web.history.measure_charts import DEFAULT_RANGE, read_charts, read_sparklines, window
from backend.web.tables.table import Column, Table
from backend.web.tables.table_query import TableParameters, TableQuery
from backend.web.tree.distributor import Distributor

router = APIRouter(include_in_schema=False, route_class=PageRoute)

CLUSTERS = "/clusters"
CLUSTER = CLUSTERS + "/{cluster}"
MOST_SHOWN = 200
BYTES_IN = "cluster.bytes_in_per_second"
UNDER_REPLICATED = "cluster.under_replicated_partitions"


@dataclass(frozen=True)
class ClusterView:
    """A cluster as pages show it."""

    row: ClusterRow
    is_primary: bool
    is_leaf: bool
    environments: int
    """Number of environments whose active cluster it is."""
    topics: Topics
    unreplicated_records: int | None
    """Upper bound of its unreplicated records, which no other leaf has yet; None if unknown."""

    @property
    def in_tree(self) -> str:
        """Return its part in the tree, in words."""
        return "the primary" if self.is_primary else "a leaf" if self.is_leaf else "no"


_NOW_ONLY = ("bytes", "topics", "unreplicated")
_TABLE = Table[ClusterView](
    "clusters",
    "clusters",
    (
        Column("name", "Name", lambda each: each.row.name),
        Column("number", "Number", lambda each: each.row.number, number=True),
        Column(
            "state", "State", lambda each: each.row.state, lambda each: f"{each.row.state} {each.row.reason or ''}"
        ),
        Column("zone", "Zone", lambda each: each.row.zone),
        Column("bootstrap", "Bootstrap servers", lambda each: each.row.bootstrap_servers, hidden=True),
        Column("brokers", "Brokers", lambda each: each.row.brokers, number=True),
        Column("tree", "In the tree", lambda each: each.in_tree),
        Column("environments", "Active for environments", lambda each: each.environments, number=True),
        Column("bytes", "Bytes in, last hour"),
        Column("topics", "Topics applied", lambda each: each.topics.applied, number=True),
        Column("unreplicated", "Unreplicated records", lambda each: each.unreplicated_records, number=True),
    ),
    sort="number",
    within="cockpit",
)


@router.get(CLUSTERS)
def clusters_page(
    request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
    """Show the list of clusters, now or at an earlier position."""
    caller = enter(viewer, Action.READ_ESTATE)
    offers = [offer(caller, Action.CHANGE_ESTATE, None, "Add cluster", f"{CLUSTERS}/-new")]
    listed = _with_table(_listed(services, caller, at), query)
    context = {**listed, "offers": offers, "reasons": reasons(offers)}
    return templates.page("clusters.html", {**frame(request, caller), **context})


@router.get(CLUSTERS + "/-live")
def clusters_live(request: Request, services: Shared, viewer: Viewer, query: TableParameters) -> Response:
    """Return the list's live part."""
    caller = enter(viewer, Action.READ_ESTATE)
    listed = cached(request, "clusters", lambda: _listed(services, caller, None))
    context = _with_table(listed, query.of(CLUSTERS))
    return HTMLResponse(templates.block("clusters.html", "cockpit", context))


@router.get(CLUSTER)
def cluster_page(cluster: str, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show one cluster."""
    caller = enter(viewer, Action.READ_ESTATE)
    context = _one(services, caller, cluster, at)
    ways = (
        *(("Change", "-change"), ("Set replica defaults", "-defaults")),
        *(("Adopt topics", "-adopt"), ("Remove", "-remove")),
    )
    offers = [
        offer(caller, Action.CHANGE_ESTATE, None, label, f"{CLUSTERS}/{cluster}/{way}") for label, way in ways
    ]
    charts = _charts(services, cluster) if context["past"] is None else []
    context = {**context, "offers": offers, "reasons": reasons(offers), "figures": charts}
    return templates.page("cluster.html", {**frame(request, caller), **context})


@router.get(CLUSTER + "/-live")
def cluster_live(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Return the live part of a cluster's page."""
    caller = enter(viewer, Action.READ_ESTATE)
    context = cached(request, f"cluster {cluster}", lambda: _one(services, caller, cluster, None))
    return HTMLResponse(templates.block("cluster.html", "cockpit", context))


def _with_table(listed: Mapping[str, Any], query: TableQuery) -> dict[str, Any]:
    """Return what is the same for all viewers, with the part of the table that one asks for."""
    table = _TABLE if listed["past"] is None else _TABLE.without(*_NOW_ONLY)
    return {**listed, "table": table.view(listed["clusters"], query)}


def _listed(services: ConsoleServices, caller: Caller, at: str | None) -> dict[str, Any]:
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        active = list_active(connection, position)
        views = _views(connection, list_clusters(connection, position), active, position)
        names = [each.row.name for each in views] if position is None else []
        trends = read_sparklines(connection, BYTES_IN, names)
    offline = sum(each.row.state == "offline" for each in views)
    return {"clusters": views, "past": past, "offline": offline, "trends": trends}


def _one(services: ConsoleServices, caller: Caller, cluster: str, at: str | None) -> dict[str, object]:
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        row = find_cluster(connection, cluster, position)
        active = list_active(connection, position)
        (view,) = _views(connection, [row], active, position)
        found = read_distributors(connection, position)
    places = sorted({each.place for each in active if each.cluster == row.name})
    return {
        "view": view,
        "past": past,
        "properties": sorted(masked(row.properties).items()),
        "defaults": defaults_shown(row.defaults, row.brokers),
        "reading": _shown(each for each in found if each.cluster == row.name),
        "writing": _shown(each for each in found if each.target == row.name),
        "places": ["/".join(place) for place in places[:MOST_SHOWN]],
        "more_places": max(0, len(places) - MOST_SHOWN),
        "broker_exits": broker_exits(row.name) if position is None else [],
    }


def _charts(services: ConsoleServices, cluster: str) -> list[Chart]:
    shown = window(DEFAULT_RANGE)
    with services.reading() as connection:
        return [
            view
            for metric in (BYTES_IN, UNDER_REPLICATED)
            for view in read_charts(connection, metric, [cluster], shown, size=SMALL)
        ]


def _views(
    connection: Connection, rows: Sequence[ClusterRow], active: Sequence[ActiveRow], at: int | None
) -> list[ClusterView]:
    tree = get_tree(connection, at)
    leaves = tree_shape.leaves(tree.shape) if tree else ()
    environments = Counter(cluster for cluster, _ in {(each.cluster, each.place) for each in active})
    # At an earlier position there may be a million rows to count.
    topics = topics_of_clusters(connection, rows[0].name if len(rows) == 1 else None) if at is None else {}
    unreplicated_records = records_at_risk(connection) if at is None else {}
    return [
        ClusterView(
            row=row,
            is_primary=tree is not None and row.name == tree.primary_cluster,
            is_leaf=row.name in leaves,
            environments=environments[row.name],
            topics=topics.get(row.name, Topics()),
            unreplicated_records=unreplicated_records.get(row.name),
        )
        for row in rows
    ]


def _shown(rows: Iterable[DistributorRow]) -> list[Distributor]:
    return [Distributor(row) for row in rows]
