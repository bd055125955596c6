"""`/audit`: who changed what, when, from where and how; logins and refused logins beside the events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import Connection

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import MOST_ITEMS, Reading, SharedServices
from backend.api.frame.services import Services
from backend.csv_lines import csv_lines
from backend.domain.access.access import Action, Caller, may
from backend.domain.base.errors import ValueInvalid
from backend.queries.access.audit import AuditFilter, AuditRow, Place, page

router = APIRouter(prefix="/audit", tags=["audit"])

EXPORTED_AT_ONCE = 1000
COLUMNS = (
    *("time", "kind", "actor", "tenant", "means", "address", "agent", "reason"),
    *("position", "stream", "request_id", "causation", "data"),
)


class Form(StrEnum):
    """File format of an export."""

    CSV = "csv"
    JSONL = "jsonl"


Text = Annotated[str, Query(max_length=300)]


def _filter_of_all(
    actor: Annotated[str, Query(max_length=300, description="Who.")] = "",
    kind: Annotated[
        str,
        Query(
            max_length=300,
            description="Name of an event; or LoggedIn, LoginRefused, LoggedOut, SessionEnded, ClusterProbed, "
            "MessagesRead; or Logins for all of these.",
        ),
    ] = "",
    since: Annotated[
        datetime | None, Query(description="From this time on; UTC if there is no time zone.")
    ] = None,
    until: Annotated[datetime | None, Query(description="Before this time.")] = None,
    workers: Annotated[bool, Query(description="Include what workers did by themselves.")] = False,
) -> AuditFilter:
    for text in (actor, kind):
        _check_printable(text)
    return AuditFilter(actor=actor, kind=kind, since=in_utc(since), until=in_utc(until), workers=workers)


AskedOfAll = Annotated[AuditFilter, Depends(_filter_of_all)]


def _filter(
    found: AskedOfAll,
    tenant: Annotated[str, Query(max_length=300, description="Only entries of this tenant.")] = "",
) -> AuditFilter:
    _check_printable(tenant)
    return replace(found, tenant=tenant)


def _check_printable(text: str) -> None:
    if not text.isprintable():
        raise ValueInvalid("actor, kind and tenant must not contain non-printable characters")


AskedFor = Annotated[AuditFilter, Depends(_filter)]


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def list_audit(
    connection: Reading,
    caller: Asking,
    asked: AskedFor,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Maximum number of items.")] = 100,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.")] = None,
) -> dict[str, Any]:
    """List entries, the newest first.

    A page may have fewer items than `limit`, or none, although more follow. Addresses and user agents are shown
    only to callers who may manage users.
    """
    return listed_audit(connection, caller, asked, limit, cursor)


def listed_audit(
    connection: Connection, caller: Caller, asked: AuditFilter, limit: int, cursor: str | None
) -> dict[str, Any]:
    """Return the answer of a list: one page of matching entries. Raises ValueInvalid (cursor)."""
    place = Place() if cursor is None else Place.of(cursor)
    if place is None:
        raise ValueInvalid("this cursor is invalid: use the next_cursor of the page before")
    found = page(connection, asked, place, limit)
    further = None if found.further is None else str(found.further)
    return {"items": [shown(row, caller) for row in found.rows], "next_cursor": further}


@router.get("/export", response_class=StreamingResponse, openapi_extra=needs(Action.READ_ESTATE))
def export(
    request: Request,
    services: SharedServices,
    asked: AskedFor,
    form: Annotated[Form, Query(description="CSV, or one JSON object per line.")] = Form.JSONL,
) -> StreamingResponse:
    """Export all matching entries as a file, which is streamed.

    The file ends early if the caller loses the permission meanwhile.
    """
    media_type = "text/csv; charset=utf-8" if form is Form.CSV else "application/x-ndjson"
    headers = {"Content-Disposition": f'attachment; filename="treeline-audit.{form}"'}
    return StreamingResponse(_lines(services, request, asked, form), media_type=media_type, headers=headers)


def _lines(services: Services, request: Request, asked: AuditFilter, form: Form) -> Iterator[str]:
    if form is Form.CSV:
        yield csv_lines([COLUMNS])
    place: Place | None = Place()
    while place is not None and not services.closing.is_set():
        # A connection for each page: a slow reader holds neither a connection nor an old database snapshot.
        caller: Caller | None = request.state.find_caller()
        if caller is None or not may(caller, Action.READ_ESTATE):
            return
        with services.reading() as connection:
            found = page(connection, asked, place, EXPORTED_AT_ONCE)
        items = [shown(row, caller) for row in found.rows]
        if form is Form.CSV:
            yield csv_lines([item[column] for column in COLUMNS] for item in items)
        else:
            yield "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
        place = found.further


def shown(row: AuditRow, caller: Caller) -> dict[str, Any]:
    """Return a row as responses show it."""
    provenance, event, login = row.provenance, row.event, row.login
    seen = may(caller, Action.MANAGE_USERS)
    return {
        "time": row.time.isoformat(),
        "kind": row.kind,
        "actor": row.actor or None,
        "tenant": row.tenant,
        "means": None if provenance is None else provenance.means,
        "address": provenance.address if provenance is not None and seen else None,
        "agent": provenance.agent if provenance is not None and seen else None,
        "reason": None if login is None else login.reason or None,
        "position": None if event is None else event.position,
        "stream": None if event is None else event.stream,
        "request_id": None if event is None else event.metadata.request_id,
        "causation": None if event is None else event.metadata.causation,
        "data": None if event is None else event.data,
    }


def in_utc(moment: datetime | None) -> datetime | None:
    """Return the moment with a time zone."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)
