"""`/audit`: who changed what, when, from where and how; logins, cluster probes and reads of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from backend.domain.access.access import Action, may
from backend.domain.base.errors import ValueInvalid
from backend.queries.access.audit import LOGINS, AuditFilter, AuditRow, Place, page, place_after
from backend.queries.access.logins import LoginKind
from backend.queries.base.names_of_events import Names, names_in
from backend.queries.base.settings_before import Settings, settings_before
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.tables.table import Column, Table
from backend.web.tables.table_query import TableParameters
from backend.web.words.figures import day, plain
from backend.web.words.sentences import SENTENCES, TROUBLES, sentence

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_SHOWN = 100
Text = Annotated[str, Query(max_length=300)]
_SAID = {
    LoginKind.IN: "Logged in",
    LoginKind.REFUSED: "Login refused",
    LoginKind.OUT: "Logged out",
    LoginKind.ENDED: "Session ended from another session",
    LoginKind.PROBED: "Cluster probed",
    LoginKind.MESSAGES: "Messages read",
}


@dataclass(frozen=True)
class AuditItem:
    """A row of the page. `position`: the event's; None for a login."""

    key: str
    position: int | None
    day: str
    at: datetime
    actor: str
    sentence: str
    kind: str
    tenant: str
    means: str
    address: str
    agent: str
    trouble: bool


_TABLE = Table[AuditItem](
    "audit",
    "entries",
    (
        Column("time", "Time", time=True),
        Column("actor", "Actor"),
        Column("action", "Action"),
        Column("event", "Kind"),
        Column("of", "Tenant"),
        Column("means", "Authentication"),
        Column("origin", "Origin"),
    ),
    within="entries",
)


@router.get("/audit")
def audit_page(
    request: Request,
    services: Shared,
    viewer: Viewer,
    parameters: TableParameters,
    actor: Text = "",
    kind: Text = "",
    tenant: Text = "",
    since: Text = "",
    until: Text = "",
    workers: Text = "",
    before: Text = "",
    at: At = None,
) -> Response:
    """Show the newest entries below a place that match the filter, as of an earlier position or now."""
    caller = enter(viewer, Action.READ_ESTATE)
    problem, first, last = "", None, None
    try:
        first, last = _moment(since, "From"), _moment(until, "Until")
    except ValueInvalid as error:
        problem = error.detail
    actor, kind, tenant = map(plain, (actor, kind, tenant))
    asked = AuditFilter(actor=actor, kind=kind, tenant=tenant, since=first, until=last, workers=workers == "yes")
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        below = Place.of(before) or Place()
        if position is not None:
            below = below.or_lower(place_after(connection, position))
        found = page(connection, asked, below, MOST_SHOWN)
        events = [row.event for row in found.rows if row.event is not None]
        replaced, names = settings_before(connection, events), names_in(connection, events)
    times = {"since": _said(asked.since), "until": _said(asked.until)}
    query = {"actor": actor, "kind": kind, "tenant": tenant, **times}
    query = {name: value for name, value in query.items() if value}
    more = {**query, **({"workers": "yes"} if asked.workers else {})}
    exported = {**query, **({"workers": "true"} if asked.workers else {})}
    sees = may(caller, Action.MANAGE_USERS)
    table = _TABLE if sees else _TABLE.without("origin")
    view = table.listed([_item(row, sees, replaced, names) for row in found.rows], parameters)
    onward = {**more, **({"columns": view.chosen} if view.chosen else {})}
    context = {
        "table": view,
        "asked": asked,
        **times,
        "problem": problem,
        "kinds": [LOGINS, *LoginKind, *sorted(SENTENCES)],
        "earlier": None if found.further is None else urlencode({**onward, "before": str(found.further)}),
        "newest": urlencode(onward) if before else None,
        "filtered": bool(more),
        "exports": [(form, urlencode({**exported, "form": form})) for form in ("csv", "jsonl")],
        "sees": sees,
        "past": past,
    }
    return templates.page("audit.html", {**frame(request, caller), **context}, 422 if problem else 200)


def _item(row: AuditRow, sees: bool, replaced: Mapping[int, Settings], names: Names) -> AuditItem:
    event, login, provenance = row.event, row.login, row.provenance
    if event is not None:
        key = f"event-{event.position}"
        said = sentence(event.name, event.stream, event.data, replaced.get(event.position), names)
    else:
        assert login is not None
        key, said = f"login-{login.id}", _SAID[LoginKind(login.kind)]
        said = f"{said}: {login.reason}" if login.reason else said
    return AuditItem(
        key=key,
        position=None if event is None else event.position,
        day=day(row.time),
        at=row.time,
        actor=row.actor or "unknown",
        sentence=said,
        kind=row.kind,
        tenant=row.tenant or "",
        means="" if provenance is None else provenance.means,
        address=provenance.address if provenance is not None and sees else "",
        agent=provenance.agent if provenance is not None and sees else "",
        trouble=row.kind in TROUBLES or row.kind == LoginKind.REFUSED,
    )


def _moment(text: str, what: str) -> datetime | None:
    if not text.strip():
        return None
    try:
        found = datetime.fromisoformat(text.strip())
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except ValueError:
        raise ValueInvalid(f"{what} must be a time in UTC, such as 2026-11-26 or 2026-11-26T14:30.") from None


def _said(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).replace(tzinfo=None).isoformat()
