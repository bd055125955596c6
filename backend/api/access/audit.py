"""`/audit`: who did what, when, from where and by what; logins and refused ones beside the events."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import MOST_ITEMS, Reading, SharedServices
from backend.api.frame.services import Services
from backend.domain.access.access import Action, Caller, may
from backend.domain.base.errors import ValueInvalid
from backend.queries.access.audit import Asked, AuditRow, Place, page

router = APIRouter(prefix="/audit", tags=["audit"])

EXPORTED_AT_ONCE = 1000
COLUMNS = (
    *("time", "kind", "actor", "tenant", "means", "address", "agent", "reason"),
    *("position", "stream", "request_id", "causation", "data"),
)
# With which a spreadsheet takes a text for a formula, which may ask for addresses and start programs.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Form(StrEnum):
    """How an export is written."""

    CSV = "csv"
    JSONL = "jsonl"


Text = Annotated[str, Query(max_length=300)]


def _asked(
    actor: Annotated[str, Query(max_length=300, description="Who.")] = "",
    kind: Annotated[
        str,
        Query(
            max_length=300,
            description="An event's name; LoggedIn, LoginRefused, LoggedOut, SessionEnded, ClusterProbed; Logins "
            "for all that is no event.",
        ),
    ] = "",
    tenant: Annotated[str, Query(max_length=300, description="Only what was done in this tenant.")] = "",
    since: Annotated[datetime | None, Query(description="From this time on; without a zone it is UTC.")] = None,
    until: Annotated[datetime | None, Query(description="Before this time.")] = None,
    workers: Annotated[bool, Query(description="Also what workers did by themselves.")] = False,
) -> Asked:
    for text in (actor, kind, tenant):
        if not text.isprintable():
            raise ValueInvalid("actor, kind and tenant have no characters that cannot be printed")
    return Asked(actor=actor, kind=kind, tenant=tenant, since=in_utc(since), until=in_utc(until), workers=workers)


AskedFor = Annotated[Asked, Depends(_asked)]


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def list_audit(
    connection: Reading,
    caller: Asking,
    asked: AskedFor,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items in the answer.")] = 100,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the answer before.")] = None,
) -> dict[str, Any]:
    """The newest first. An answer may have fewer items, or none, and more behind it. Addresses, and what programs
    call themselves, are shown to who manages users."""
    place = Place() if cursor is None else Place.of(cursor)
    if place is None:
        raise ValueInvalid("this cursor was not given by a list of ours")
    found = page(connection, asked, place, limit)
    further = None if found.further is None else str(found.further)
    return {"items": [shown(row, caller) for row in found.rows], "next_cursor": further}


@router.get("/export", response_class=StreamingResponse, openapi_extra=needs(Action.READ_ESTATE))
def export(
    request: Request,
    services: SharedServices,
    asked: AskedFor,
    form: Annotated[Form, Query(description="CSV, or a JSON object a line.")] = Form.JSONL,
) -> StreamingResponse:
    """All of it, as a file that is written while it is read. Ends early for who may no longer read."""
    media_type = "text/csv; charset=utf-8" if form is Form.CSV else "application/x-ndjson"
    headers = {"Content-Disposition": f'attachment; filename="treeline-audit.{form}"'}
    return StreamingResponse(_lines(services, request, asked, form), media_type=media_type, headers=headers)


def _lines(services: Services, request: Request, asked: Asked, form: Form) -> Iterator[str]:
    if form is Form.CSV:
        yield _csv(COLUMNS)
    place: Place | None = Place()
    while place is not None and not services.closing.is_set():
        # A connection for each page: who reads slowly holds none, and no old moment of the database.
        caller: Caller | None = request.state.find_caller()
        if caller is None or not may(caller, Action.READ_ESTATE):
            return
        with services.reading() as connection:
            found = page(connection, asked, place, EXPORTED_AT_ONCE)
        items = [shown(row, caller) for row in found.rows]
        if form is Form.CSV:
            yield "".join(_csv([_cell(item[column]) for column in COLUMNS]) for item in items)
        else:
            yield "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
        place = found.further


def shown(row: AuditRow, caller: Caller) -> dict[str, Any]:
    """A row as answers show it."""
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
    """The moment with a zone."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(cells: Any) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()
