"""`/charts`: the history of measures, one chart of a subject or small charts of many.

Everything that is chosen is in the address: `?metric=&subject=&range=`, and `filter` among the subjects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy import Connection

from backend.csv_lines import csv_lines
from backend.domain.access.access import Action, Caller, may, tenants_read
from backend.domain.base.errors import NotFound, ValueInvalid
from backend.domain.history.metrics import METRICS, Area, MetricInfo, metric_called
from backend.queries.history.largest import largest_since
from backend.queries.history.measures import has_subject, is_full, list_subjects, marks, read_many
from backend.single_flight import CachedAnswers
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter, enter_in_some_tenant
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.history.chart import SMALL, Chart
from backend.web.history.chart_scales import HOUR_MS, utc
from backend.web.history.measure_charts import (
    CHARTS,
    DEFAULT_RANGE,
    RANGES,
    Range,
    Window,
    charts_address,
    measure_title,
    read_charts,
    title_of_many,
    window,
)
from backend.web.words.figures import plain

router = APIRouter(include_in_schema=False, route_class=PageRoute)

TEMPLATE = "charts_page.html"
MOST_CHARTS = 24
"""Charts of a page; a filter finds the others."""
RANKED_SECONDS = 60.0
"""Age up to which an order of subjects is used again: there is a new sample each minute."""
MOST_MARKS = 50
_BEGINS = (
    "No values. The history begins at the first minute after the control plane has started. If it stays "
    "empty, check that a worker with the queue treeline.control runs: it reads and stores all values."
)
_NOTHING = {
    Area.SWITCHES: "No switch has completed in this time. Hold times appear here once switches have completed.",
    Area.GROUPS: f"{_BEGINS} Groups appear once they have committed an offset to a topic of a stream.",
    Area.ZONES: f"{_BEGINS} Traffic between zones is reported by the nodes of the zone router.",
}
"""Empty states: when values appear, and what to check."""
Text = Annotated[str, Query(max_length=600)]


@dataclass(frozen=True)
class Asked:
    """The choice of the page, from the query string."""

    metric: MetricInfo
    subject: str
    range: Range
    filter: str

    def address(self, path: str = CHARTS, **other: str) -> str:
        """Return the address of this choice, with some of it replaced."""
        given = {"metric": self.metric.name, "subject": self.subject, "range": self.range.name}
        given |= {"filter": self.filter} | other
        return f"{path}?{urlencode({name: value for name, value in given.items() if value})}"


class Orders(CachedAnswers[Sequence[str]]):
    """All subjects of each metric by their peaks in the last hour, the largest first; the same for all viewers."""


def _orders(request: Request) -> Orders:
    state = request.app.state
    if not hasattr(state, "chart_orders"):
        state.chart_orders = Orders(RANKED_SECONDS, len(METRICS))
    orders: Orders = state.chart_orders
    return orders


SharedOrders = Annotated[Orders, Depends(_orders)]


def _asked(
    viewer: Viewer,
    metric: Text = "",
    subject: Text = "",
    chosen: Annotated[str, Query(max_length=40, alias="range")] = "",
    wanted: Annotated[str, Query(max_length=600, alias="filter")] = "",
) -> tuple[Caller, Asked]:
    """Return the viewer, who may see this metric, and the choice. Raises as `enter`, and ValueInvalid."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    name = plain(metric) or _offered(caller)[0].name
    if name not in METRICS:
        raise ValueInvalid(f"There is no measure {name[:60]!r}. Open Charts, and choose one from its list.")
    info = metric_called(name)
    if info.action is not Action.READ_TENANT:
        enter(viewer, info.action)
    found = RANGES.get(plain(chosen) or DEFAULT_RANGE.name)
    if found is None:
        raise ValueInvalid(f"There is no range {chosen[:20]!r}. Choose one of {', '.join(RANGES)}.")
    return caller, Asked(info, plain(subject), found, plain(wanted))


Choice = Annotated[tuple[Caller, Asked], Depends(_asked)]


@router.get(CHARTS)
def charts_page(
    request: Request,
    services: Shared,
    orders: SharedOrders,
    choice: Choice,
    before: Annotated[str, Query(max_length=600)] = "",
) -> Response:
    """Show the chart of a subject or, without one, those of the subjects with the largest peaks.

    `before`: the measure before the form was sent. Another one may not have the same subject; then all are shown.
    """
    caller, asked = choice
    if before:
        if before != asked.metric.name and not _is_known(services, caller, asked):
            asked = replace(asked, subject="", filter="")
        return RedirectResponse(asked.address(), 303)
    context = _read(services, caller, asked, orders)
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(CHARTS + "/-live")
def charts_live(services: Shared, orders: SharedOrders, choice: Choice) -> Response:
    """Return the part of the page that is refreshed."""
    caller, asked = choice
    return HTMLResponse(templates.block(TEMPLATE, "cockpit", _read(services, caller, asked, orders)))


@router.get(CHARTS + "/figure/-live")
def figure_live(services: Shared, choice: Choice) -> Response:
    """Return one small chart, for the pages that have some beside other things."""
    caller, asked = choice
    with services.reading() as connection:
        if not may(caller, Action.READ_ESTATE):
            _check_subject(connection, caller, asked)
        (view,) = read_charts(connection, asked.metric.name, [asked.subject], window(asked.range), size=SMALL)
    return HTMLResponse(templates.block(TEMPLATE, "figure", {"figure": view}))


@router.get(CHARTS + "/-export")
def charts_export(services: Shared, choice: Choice) -> Response:
    """Export the points of a chart as CSV: the beginning of each step in UTC, and its value or nothing."""
    caller, asked = choice
    shown = window(asked.range)
    with services.reading() as connection:
        _check_subject(connection, caller, asked)
        found = read_many(connection, asked.metric.name, [asked.subject], shown.from_ms, shown.to_ms)
    points = ([utc(ms).isoformat(), value] for ms, value in found[asked.subject].points)
    text = csv_lines([["time", asked.metric.name], *points])
    name = f"{asked.metric.name}-{asked.range.name}-{utc(shown.to_ms):%Y%m%d-%H%M}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


def _offered(caller: Caller) -> list[MetricInfo]:
    """Return the metrics that the caller may see: those of groups only, for users of tenants."""
    estate = may(caller, Action.READ_ESTATE)
    found = [each for each in METRICS.values() if estate or each.action is Action.READ_TENANT]
    # The lag is what most come for.
    return sorted(found, key=lambda each: not each.name.endswith("lag_records"))


def _read(services: ConsoleServices, caller: Caller, asked: Asked, orders: Orders) -> Mapping[str, Any]:
    tenants, shown = tenants_read(caller), window(asked.range)
    with services.reading() as connection:
        subjects = list_subjects(connection, asked.metric.name, tenants)
        matching = [each for each in subjects if asked.filter.lower() in each.lower()]
        happened = marks(connection, shown.from_ms, shown.to_ms, tenants, MOST_MARKS)
        full = is_full(connection)
        whole, small = None, []
        if asked.subject:
            _check_subject(connection, caller, asked)
            (whole,) = read_charts(connection, asked.metric.name, [asked.subject], shown, marks=happened)
        else:
            small = _largest(connection, asked.metric, matching, shown, orders)
    return {
        "asked": asked,
        "groups": _in_groups(_offered(caller)),
        "ranges": [(each, asked.address(range=each.name)) for each in RANGES.values()],
        "title": measure_title(asked.metric, asked.subject) if asked.subject else title_of_many(asked.metric),
        "total": len(subjects),
        "matching": len(matching),
        "by_last_hour": _is_by_last_hour(asked.metric, matching),
        "is_full": full,
        "whole": whole,
        "small": small,
        "has_values": any(each.figures for each in (whole, *small) if each),
        "nothing": _NOTHING.get(asked.metric.area, _BEGINS),
        "live": asked.address(f"{CHARTS}/-live"),
        "all": charts_address(asked.metric.name, chosen=asked.range),
    }


def _is_known(services: ConsoleServices, caller: Caller, asked: Asked) -> bool:
    with services.looking() as connection:
        return has_subject(connection, asked.metric.name, asked.subject, tenants_read(caller))


def _check_subject(connection: Connection, caller: Caller, asked: Asked) -> None:
    """Raise NotFound if the subject has no history, or none that the caller may see."""
    if not has_subject(connection, asked.metric.name, asked.subject, tenants_read(caller)):
        raise NotFound(
            f"There is no history of {asked.metric.name} for {asked.subject[:120]!r}: it has no values yet or "
            f"does not exist. Subjects are of the form {asked.metric.subject}; open Charts without one to see all."
        )


def _is_by_last_hour(info: MetricInfo, subjects: Sequence[str]) -> bool:
    """Return whether the last hour decides which charts are shown: then the others need not be read."""
    return info.is_sampled and len(subjects) > MOST_CHARTS


def _largest(
    connection: Connection, info: MetricInfo, subjects: Sequence[str], shown: Window, orders: Orders
) -> list[Chart]:
    """Return the small charts of the subjects with the largest peaks, the largest first."""
    if _is_by_last_hour(info, subjects):
        since = utc(shown.to_ms - HOUR_MS)
        order = orders.get(info.name, lambda: largest_since(connection, info.name, since))
        # Those without a value in the last hour come after the others.
        ranked = dict.fromkeys([*filter(set(subjects).__contains__, order), *subjects])
        return read_charts(connection, info.name, [*ranked][:MOST_CHARTS], shown, size=SMALL)
    views = read_charts(connection, info.name, subjects, shown, size=SMALL)
    return sorted(views, key=lambda view: -view.peak)[:MOST_CHARTS]


def _in_groups(metrics: Sequence[MetricInfo]) -> dict[str, list[tuple[MetricInfo, str]]]:
    """Return the metrics with their names in words, by area."""
    groups: dict[str, list[tuple[MetricInfo, str]]] = {}
    for info in METRICS.values():
        if info in metrics:
            groups.setdefault(info.area.value, []).append((info, title_of_many(info)))
    return groups
