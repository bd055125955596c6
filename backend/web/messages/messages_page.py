"""`/tenants/{t}/{i}/{e}/{stream}/-messages`: what a stream holds on one cluster, decoded and filtered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.callers import STATUS
from backend.csv_lines import csv_lines
from backend.domain.access.access import Action
from backend.domain.base.errors import DomainError
from backend.domain.names.names import StreamName
from backend.messages import facts as message_facts
from backend.messages.facts import MessageFacts
from backend.messages.page_read import MessagePage
from backend.messages.reader import MessageReader
from backend.messages.request import MOST_LIMIT, MOST_PARTITIONS, USUAL_LIMIT, MessageRequest, parse
from backend.messages.visible_schemas import schemas_of
from backend.queries.tenants.streams import find_stream
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.messages.message_view import message_view
from backend.web.tenants.stream_page import STREAM, Named
from backend.web.tenants.stream_tabs import MESSAGES as MESSAGES_TAB
from backend.web.tenants.stream_tabs import stream_address, stream_top

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MESSAGES = STREAM + "/-messages"
TEMPLATE = "messages.html"
LIMITS = (20, USUAL_LIMIT, 100, MOST_LIMIT)
_COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value", "headers", "copy_flags", "origin", "problem")
Text = Annotated[str, Query(max_length=2000)]
Short = Annotated[str, Query(max_length=60)]


@dataclass(frozen=True)
class Asked:
    """The fields of the form, as they were sent; `page` is the place where an earlier page ended."""

    cluster: Text = ""
    partition: Short = ""
    begin: Short = "latest"
    time: Short = ""
    offset: Short = ""
    limit: Short = ""
    key: Text = ""
    text: Text = ""
    header: Text = ""
    json: Text = ""
    page: Annotated[str, Query(max_length=12_000)] = ""

    @property
    def start(self) -> str:
        """Return the start in the words of the REST API."""
        if self.page:
            return self.page
        match self.begin:
            case "time":
                return f"time:{self.time.strip()}"
            case "offset":
                return self.offset.strip() or "offset"  # which is refused, with what to give
        return self.begin

    @property
    def filters(self) -> list[str]:
        """Return the filters in the words of the REST API."""
        fields = (("key", self.key), ("text", self.text), ("header", self.header), ("json", self.json))
        return [f"{name}:{value}" for name, value in fields if value]

    @property
    def parsed(self) -> MessageRequest:
        """Return the request. Raises ValueInvalid."""
        return parse(
            start=self.start, partition=self.partition.strip(), limit=self.limit.strip(), filters=self.filters
        )

    def query(self, cluster: str, **changes: str) -> str:
        """Return the query of an address that asks for the same, with changes."""
        fields = {**vars(self), "cluster": cluster, **changes}
        return urlencode({name: value for name, value in fields.items() if value})


Form = Annotated[Asked, Depends(Asked)]


@router.get(MESSAGES)
def messages_page(name: Named, request: Request, services: Shared, viewer: Viewer, asked: Form) -> Response:
    """Show the form and the messages; a refusal stands beside the form, which keeps what was typed."""
    caller = enter(viewer, Action.READ_MESSAGES, name.tenant)
    row, found, facts, refused, status = None, None, None, "", 200
    try:
        with services.reading() as connection:
            row = find_stream(connection, name)
            facts = _facts(connection, services, name, asked.cluster)
    except DomainError as error:
        if row is None:
            raise
        refused, status = error.detail, STATUS[error.kind]
    if facts is not None:
        try:
            found = _read(request, caller.name, facts, asked)
        except DomainError as error:
            refused, status = error.detail, STATUS[error.kind]
    cluster = facts.cluster if facts is not None else asked.cluster
    here = f"{stream_address(name)}/-messages"
    following = {} if found is None or found.next_start is None else {"page": found.next_start}
    context = {
        "top": stream_top(caller, name, MESSAGES_TAB, urlencode({"cluster": cluster})),
        "here": here,
        "asked": asked,
        "cluster": cluster,
        "clusters": sorted(row.technical_names),
        "partitions": range(row.partitions),
        "is_choosing": row.partitions > MOST_PARTITIONS,
        "limits": LIMITS,
        "limit": asked.limit or str(USUAL_LIMIT),
        "refused": refused,
        "found": found,
        "items": () if facts is None or found is None else [message_view(facts, each) for each in found.items],
        "further": f"{here}?{asked.query(cluster, **following)}" if following else None,
        "further_said": "Older" if following.get("page", "").startswith("before:") else "Continue",
        "first": f"{here}?{asked.query(cluster, page='')}" if asked.page else None,
        "live": f"{here}/-live?{asked.query(cluster, begin='', page='', time='', offset='', limit='')}",
        "exports": [(form, f"{here}/-export?{asked.query(cluster)}&form={form}") for form in ("json", "csv")],
    }
    return templates.page(TEMPLATE, {**frame(request, caller), **context}, status)


@router.get(MESSAGES + "/-export")
def messages_export(
    name: Named,
    request: Request,
    services: Shared,
    viewer: Viewer,
    asked: Form,
    form: Literal["json", "csv"] = "json",
) -> Response:
    """Return the messages of the page as a file."""
    caller = enter(viewer, Action.READ_MESSAGES, name.tenant)
    found = _read(request, caller.name, stream_facts(services, name, asked.cluster), asked)
    file_name = f"messages-{name.stream}-{found.cluster}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{file_name}"'}
    if form == "json":
        return Response(found.json(), media_type="application/json", headers=headers)
    return Response(_csv(found.items), media_type="text/csv; charset=utf-8", headers=headers)


def stream_facts(services: ConsoleServices, name: StreamName, cluster: str) -> MessageFacts:
    """Read what is known of the stream and the cluster; empty: the one that its clients use."""
    with services.reading() as connection:
        return _facts(connection, services, name, cluster)


def _facts(connection: Connection, services: ConsoleServices, name: StreamName, cluster: str) -> MessageFacts:
    return message_facts.read(connection, services.config, str(name), cluster or None)


def _read(request: Request, user: str, facts: MessageFacts, asked: Asked) -> MessagePage:
    reader: MessageReader = request.app.state.messages
    return reader.read(user, facts, asked.parsed, schemas_of(request.app, facts))


def _csv(items: Sequence[Mapping[str, Any]]) -> bytes:
    rows = ([each.get(column) for column in _COLUMNS] for each in items)
    return csv_lines([_COLUMNS, *rows]).encode("utf-8", "replace")
