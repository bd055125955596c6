"""`/history`: measures over time, for charts."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import Paging, Reading, listed
from backend.domain.access.access import Action, Caller, refusal, tenants_read
from backend.domain.base.errors import NotFound
from backend.domain.base.given_times import LATEST_MS, time_ms
from backend.domain.history.metrics import MetricInfo, metric_called
from backend.queries.history import measures

router = APIRouter(prefix="/history", tags=["history"])

HOUR_MS = 3_600_000
LONGEST_SUBJECT = 600
_TEXT = r"^[^\x00-\x1f\x7f]*$"

Metric = Annotated[str, Query(max_length=100, pattern=_TEXT, description="Name of the metric.")]


@router.get("", openapi_extra=needs(Action.READ_TENANT))
def get_history(
    connection: Reading,
    caller: Asking,
    metric: Metric,
    subject: Annotated[
        str,
        Query(max_length=LONGEST_SUBJECT, pattern=_TEXT, description="One of GET /history/subjects."),
    ],
    since: Annotated[
        str,
        Query(
            alias="from",
            max_length=40,
            description="First time, in milliseconds since 1970 or ISO 8601; default: an hour before `to`.",
        ),
    ] = "",
    until: Annotated[
        str, Query(alias="to", max_length=40, description="Time after the last, in the same form; default: now.")
    ] = "",
    step_ms: Annotated[
        int | None,
        Query(ge=0, le=LATEST_MS, description="Milliseconds of a point; default: at most 180 points."),
    ] = None,
) -> dict[str, Any]:
    """Get one series over time: a point for each step, null where nothing was measured, and what happened.

    Times of points are those at which their steps begin.
    """
    tenants = _readable(caller, metric_called(metric))
    to_ms = time_ms(until, "/to") if until else round(time.time() * 1000)
    from_ms = time_ms(since, "/from") if since else max(0, to_ms - HOUR_MS)
    _check(connection, metric, subject, tenants)
    found = measures.read_measure(connection, metric, subject, from_ms, to_ms, step_ms)
    happened = measures.marks(connection, from_ms, to_ms, tenants_read(caller))
    return {
        "metric": metric,
        "subject": subject,
        "step_ms": found.step_ms,
        "points": [list(each) for each in found.points],
        "marks": [
            {
                "position": each.position,
                "time": each.time.isoformat(),
                "text": each.text,
                "name": each.name,
            }
            for each in happened
        ],
    }


@router.get("/subjects", openapi_extra=needs(Action.READ_TENANT))
def list_subjects(connection: Reading, caller: Asking, page: Paging, metric: Metric) -> dict[str, Any]:
    """List the subjects with a history of a metric, sorted.

    `is_full`: there are more series than are kept; the groups with the smallest lag are missing.
    """
    info = metric_called(metric)
    rows = measures.list_subjects(connection, metric, _readable(caller, info))
    found = listed(rows, page, str, lambda subject: {"metric": metric, "subject": subject, "unit": info.unit})
    return {**found, "is_full": measures.is_full(connection)}


def _readable(caller: Caller, info: MetricInfo) -> Collection[str] | None:
    """Return the tenants whose subjects the caller may read; None for all. Raises NotAllowed."""
    if info.action is Action.READ_TENANT:
        return caller.tenants_for(info.action)
    refused = refusal(caller, info.action)
    if refused is not None:
        raise refused
    return None


def _check(connection: Connection, metric: str, subject: str, tenants: Collection[str] | None) -> None:
    if not measures.has_subject(connection, metric, subject, tenants):
        form = metric_called(metric).subject
        raise NotFound(
            f"{metric} has no subject {subject[:60]!r} (form: {form}); GET /history/subjects "
            "lists those of a metric"
        )
