"""`/groups`: consumer groups on every cluster, each with its lag and one sentence that says why it lags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from markupsafe import Markup
from sqlalchemy import Connection

from backend.csv_lines import csv_lines
from backend.domain.access.access import Action, Caller, may
from backend.domain.offsets.group_diagnosis import CODES
from backend.queries.history.measures import groups_with_history
from backend.queries.offsets.observed_groups import (
    GroupRow,
    GroupSummary,
    GroupsWanted,
    Key,
    ObservationRow,
    list_groups,
    list_observations,
    list_summaries,
)
from backend.queries.switch.switches import held_environments
from backend.queries.tenants.visible_clusters import visible_leaves
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.history.measure_charts import charts_address
from backend.web.history.recent_sparklines import RecentSparklines
from backend.web.offsets.group_words import LABELS, severity
from backend.web.tables.table import Column, Table
from backend.web.tables.table_query import TableParameters, TableQuery
from backend.web.words.figures import plain, span
from backend.web.words.instants import when

router = APIRouter(include_in_schema=False, route_class=PageRoute)

GROUPS = "/groups"
TEMPLATE = "groups.html"
MOST_SHOWN = 100
BY_LAG, BY_NAME = "lag", "name"
LAG = "group.lag_records"
COLUMNS = (
    *("group", "environment", "technical_name", "cluster", "state", "protocol", "diagnosis", "stream", "topic"),
    *("partition", "committed_offset", "end_offset", "lag_records", "records_per_second"),
    *("produced_per_second", "time_lag_ms", "member", "client_id", "host"),
)
_EXPORTED_AT_ONCE = 200
_STALE_SECONDS = 120
_NOT_OBSERVED = Markup("The groups of {} are not observed{}. Last observation: {}.")
_TRENDS = RecentSparklines(LAG)
_TABLE = Table[GroupSummary](
    "groups",
    "groups",
    (
        Column(BY_NAME, "Group", lambda each: each.technical_group, turns=False),
        Column("cluster", "Cluster"),
        Column("state", "State"),
        Column("members", "Members", number=True),
        Column(BY_LAG, "Lag (records)", lambda each: each.lag_records, number=True, turns=False),
        Column("trend", "Last hour"),
        Column("rate", "Reads", number=True),
        Column("time", "Time lag", number=True),
        Column("diagnosis", "Diagnosis"),
    ),
    sort=f"-{BY_LAG}",
    within="cockpit",
)
Text = Annotated[str, Query(max_length=1200)]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Filter and order of the page, from the query string."""

    text: str
    cluster: str
    stream: str
    diagnosis: str
    order: str
    group: str = ""
    """Exact logical or technical name; only the export has it."""

    def wanted(self, caller: Caller, holding: Mapping[Key, str], after: Key | None, most: int) -> GroupsWanted:
        """Return the filter as a query for groups that the caller may see."""
        return GroupsWanted(
            cluster=self.cluster or None,
            group=self.group or None,
            stream=self.stream or None,
            tenants=caller.tenants_for(Action.READ_TENANT),
            code=self.diagnosis or None,
            text=self.text or None,
            by_lag=self.order == BY_LAG,
            after=after,
            limit=most,
            holding=holding,
        )

    def query(self, **more: str) -> str:
        """Return the filter as a query string."""
        order = "" if self.order == BY_LAG else self.order
        given = {"text": self.text, "cluster": self.cluster, "stream": self.stream, "diagnosis": self.diagnosis}
        return urlencode({key: value for key, value in {**given, "sort": order, **more}.items() if value})

    @property
    def filters(self) -> bool:
        """Return whether some groups are filtered out."""
        return bool(self.text or self.cluster or self.stream or self.diagnosis)


def asked(
    query: TableParameters, text: Text = "", cluster: Text = "", stream: Text = "", diagnosis: Text = ""
) -> Asked:
    """Read the filter, and the order as the table reads it; unknown ones count as none."""
    return Asked(
        text=plain(text),
        cluster=plain(cluster),
        stream=plain(stream),
        diagnosis=diagnosis if diagnosis in CODES else "",
        order=_TABLE.order(_of_table(query)).removeprefix("-"),
    )


Filter = Annotated[Asked, Depends(asked)]


def group_address(cluster: str, technical_group: str) -> str:
    """Return the address of a group's page."""
    return f"{GROUPS}/-of?{urlencode({'cluster': cluster, 'group': technical_group})}"


def _listed(
    services: ConsoleServices, caller: Caller, wish: Asked, query: TableQuery, after: Key | None
) -> Mapping[str, Any]:
    with services.reading() as connection:
        holding = held_environments(connection, numbered=may(caller, Action.READ_ESTATE))
        rows = list_summaries(connection, wish.wanted(caller, holding, after, MOST_SHOWN + 1))
        observations = list_observations(connection)
        clusters = visible_leaves(connection, caller)
        trends = _TRENDS.read(connection, _with_history(connection, caller, rows[:MOST_SHOWN]))
    shown = rows[:MOST_SHOWN]
    further = None
    if len(rows) > MOST_SHOWN:
        cluster, group = shown[-1].key
        further = wish.query(after_cluster=cluster, after_group=group)
    return {
        "table": _TABLE.listed(shown, _of_table(query)),
        "asked": wish,
        "clusters": clusters,
        "labels": LABELS,
        "severity": severity,
        "address": group_address,
        "trends": trends,
        "trend_address": lambda row: charts_address(LAG, subject_of(row)),
        "subject_of": subject_of,
        "span": span,
        "query": wish.query(),
        "is_first": after is None,
        "further": further,
        "not_observed": _problems(observations, clusters, may(caller, Action.READ_ESTATE)),
        "is_observed": any(each.age_seconds is not None for each in observations),
    }


def _of_table(query: TableQuery) -> TableQuery:
    """Return the parameters of its links, which begin at the first page; `order` is the former name of `sort`."""
    return query.of(GROUPS).with_old_name("order", "sort").from_the_first("after_cluster", "after_group")


def subject_of(row: GroupSummary) -> str:
    """Return the subject of a group's measures."""
    return f"{row.cluster}/{row.technical_group}"


def _with_history(connection: Connection, caller: Caller, rows: Sequence[GroupSummary]) -> list[str]:
    """Return the subjects whose lag the caller may see: a sum over more than the caller sees is not shown."""
    tenants, subjects = caller.tenants_for(Action.READ_TENANT), [subject_of(row) for row in rows]
    return subjects if tenants is None else groups_with_history(connection, LAG, subjects, tenants)


def _problems(rows: list[ObservationRow], clusters: list[str], whole: bool) -> list[str]:
    """Return a sentence, as text or HTML, for each cluster whose groups are not observed, or not all of them."""
    found: list[str] = []
    for each in rows:
        if each.cluster not in clusters:
            continue
        if each.reason is not None or (each.age_seconds or 0) > _STALE_SECONDS:
            why = f": {each.reason}" if each.reason and whole else ""
            seen = "never" if each.observed_at is None else when(each.observed_at, zone=True)
            found.append(_NOT_OBSERVED.format(each.cluster, why, seen))
        elif each.truncated and whole:
            found.append(
                f"{each.cluster} has more groups than are observed: see the setting TREELINE_GROUPS_MOST."
            )
    return found


@router.get(GROUPS)
def groups_page(
    request: Request,
    services: Shared,
    viewer: Viewer,
    query: TableParameters,
    wish: Filter,
    after_cluster: Text = "",
    after_group: Text = "",
) -> Response:
    """Show a page of the list."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    after = (after_cluster, after_group) if after_group else None
    context = _listed(services, caller, wish, query, after)
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(GROUPS + "/-live")
def groups_live(services: Shared, viewer: Viewer, query: TableParameters, wish: Filter) -> Response:
    """Return the part of the page that is refreshed."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    context = _listed(services, caller, wish, query, None)
    return HTMLResponse(templates.block(TEMPLATE, "cockpit", context))


@router.get(GROUPS + "/-export")
def groups_export(services: Shared, viewer: Viewer, wish: Filter, group: Text = "") -> Response:
    """Export the groups that match as CSV: one line for each partition. `group`: the exact name of one."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    lines = _exported(services, caller, replace(wish, order=BY_NAME, group=group))
    name = f"groups-{datetime.now(UTC):%Y%m%d-%H%M%S}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


def _exported(services: ConsoleServices, caller: Caller, wish: Asked) -> Iterator[str]:
    """Yield the lines page by page, so that memory stays bounded."""
    yield csv_lines([COLUMNS])
    after: Key | None = None
    while True:
        with services.reading() as connection:
            holding = held_environments(connection, numbered=may(caller, Action.READ_ESTATE))
            rows = list_groups(connection, wish.wanted(caller, holding, after, _EXPORTED_AT_ONCE))
        yield csv_lines(line for row in rows for line in _lines(row))
        if len(rows) < _EXPORTED_AT_ONCE:
            return
        after = rows[-1].key


def _lines(row: GroupRow) -> Iterator[tuple[Any, ...]]:
    members = {each.member_id: each for each in row.members}
    about = (row.group, row.place or "", row.technical_group, row.cluster, row.state, row.protocol)
    for each in row.partitions:
        owner = members.get(each.member or "")
        yield (
            *about,
            row.diagnosis.code,
            each.stream or "",
            each.topic,
            each.partition,
            each.committed_offset,
            each.end_offset,
            each.lag_records,
            each.records_per_second,
            each.produced_per_second,
            each.time_lag_ms,
            each.member,
            owner.client_id if owner else None,
            owner.host if owner else None,
        )
