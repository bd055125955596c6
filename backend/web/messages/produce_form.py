"""`…/-messages/-produce`: produce one message to a stream; `-produced` says where it is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from backend.domain.access.access import Action, may
from backend.domain.base import json_text
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.names.names import StreamName
from backend.domain.tenants.produced_messages import MessageProduced
from backend.eventlog.held_lock import HeldLock
from backend.eventlog.recorded import RecordedEvent
from backend.messages import production, production_run
from backend.messages.production import Content, Production, Wanted
from backend.messages.request import HIGHEST
from backend.queries.base.names_of_events import name_switches
from backend.queries.tenants.streams import find_stream
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame import templates
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.messages.messages_page import MESSAGES
from backend.web.tenants.stream_page import Named
from backend.web.words.figures import counted
from backend.web.words.units import whole_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)

NONE = "none"
KEY = "message_key"
"""Field of the key: `key` is the form's own, against requests from other sites."""
_FORMATS = (("text", "Text"), ("json", "JSON"), ("base64", "Bytes in Base64"))
_OPTIONS = {"text": "", "base64": " --base64"}


@dataclass(frozen=True)
class Producing:
    """Production of a message to one stream."""

    stream: StreamName

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Check the message, without asking the cluster."""
        found = self._production(change_request, given)
        change_request.dry_run(production_run.recorded(found), lambda connection, outcome: None)
        facts, message = found.facts, found.message
        return Effect(
            sentence=f"A message will be produced to {facts.stream} on {facts.cluster}.",
            same=self._same(given, facts.cluster),
            fields=fields_of(
                {
                    "Cluster": facts.cluster,
                    "Technical name": facts.topic,
                    "Partition": "by key" if message.partition is None else message.partition,
                    "Key": _size(message.key, "none"),
                    "Value": _size(message.value, "null (tombstone)"),
                    "Headers": len(message.headers),
                }
            ),
            notes=(
                "Consumers read the message as any other. It cannot be taken back.",
                "Distributors copy it to the other clusters of the tree. The event log has its place and sizes.",
            ),
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Produce the message, once for each `once`, and lead to the page that says where it is."""
        services, user = change_request.services, change_request.viewer.name
        with production_run.turn(services.engine, user, f"page {once}") as lock:
            place = change_request.begun_before(once, given)
            if place is None:
                place = self._produced(change_request, given, once, lock)
        return RedirectResponse(f"{_address(self.stream)}/-produced?{place}", 303)

    def _produced(
        self, change_request: ChangeRequest, given: Fields, once: str, lock: HeldLock | None
    ) -> str | None:
        """Produce the message and return the query of the page that says what became of it."""
        found = self._production(change_request, given)
        change_request.dry_run(production_run.recorded(found), lambda connection, outcome: None)
        result = production_run.write(found, lock)

        def place(recorded: RecordedEvent) -> str:
            event = recorded.event
            assert isinstance(event, MessageProduced)
            query = {name: getattr(event, name) for name in ("cluster", "partition", "offset", "switch")}
            return urlencode({name: each for name, each in query.items() if each is not None})

        change = production_run.recorded(found, result)
        return production_run.append(
            found, result, lambda: change_request.begin_once(change, once, given, place), is_keyed=True
        )

    def _production(self, change_request: ChangeRequest, given: Fields) -> Production:
        config, cluster = change_request.services.config, given.get("cluster", "").strip()
        wanted = _wanted(given)
        try:
            with change_request.services.reading() as connection:
                return production.read(connection, config, str(self.stream), cluster or None, wanted)
        except ValueInvalid as error:
            renamed = [
                FieldError(each.pointer.replace("/key", f"/{KEY}", 1), each.detail) for each in error.errors
            ]
            raise ValueInvalid(error.detail, tuple(renamed)) from error

    def _same(self, given: Fields, cluster: str) -> SameChange:
        wanted = _wanted(given)
        body: dict[str, Any] = {"stream": str(self.stream), "cluster": cluster, "value": _shown(wanted.value)}
        if wanted.key is not None:
            body["key"] = _shown(wanted.key)
        if wanted.partition is not None:
            body["partition"] = wanted.partition
        if wanted.headers:
            body["headers"] = [list(each) for each in wanted.headers]
        return SameChange(None, _command(self.stream, wanted, cluster), curl("POST", "/api/v1/messages", body))


def _address(stream: StreamName) -> str:
    return f"/tenants/{stream.tenant}/{stream.instance}/{stream.environment}/{stream.stream}/-messages"


def _size(data: bytes | None, absent: str) -> str:
    return absent if data is None else counted(len(data), "byte")


def _wanted(given: Fields) -> Wanted:
    """Read the form. Raises ValueInvalid."""
    partition = given.get("partition", "").strip()
    number = whole_number(partition, "/partition") if partition else None
    if number is not None and number < 0:
        raise ValueInvalid("a partition must be 0 or more", (FieldError("/partition", "must be 0 or more"),))
    lines = [line for line in given.get("headers", "").splitlines() if line.strip()]
    return Wanted(
        partition=number,
        key=_content(given, KEY, "key_format"),
        value=_content(given, "value", "value_format"),
        headers=[_header(number, line) for number, line in enumerate(lines)],
        timestamp_ms=None,
    )


def _content(given: Fields, name: str, format_name: str) -> Content | None:
    form, text = given.get(format_name, NONE), given.get(name, "").replace("\r\n", "\n")
    if form == NONE:
        if text:
            raise _wrong(f"/{name}", "it is not empty: choose its format, or clear it")
        return None
    if name == KEY and not text.strip() and form in production.FORMATS:
        raise _wrong(f"/{name}", "it is empty: write a key, or choose No key")
    if form == "json":
        try:
            return Content("text", json_text.checked(text))
        except ValueError as error:
            raise _wrong(f"/{name}", f"it is not JSON: {error}") from None
    if form not in production.FORMATS:
        raise _wrong(f"/{name}", f"its format must be one of {', '.join(production.FORMATS)}")
    return Content(form, text.strip() if form == "base64" else text)


def _header(number: int, line: str) -> tuple[str, str | None]:
    name, separator, value = line.partition("=")
    if not separator or not name.strip():
        raise _wrong(f"/headers/{number}", f"line {number + 1} must be NAME=VALUE")
    return name.strip(), value


def _wrong(pointer: str, detail: str) -> ValueInvalid:
    return ValueInvalid(f"{pointer[1:]} {detail}", (FieldError(pointer, detail),))


def _shown(content: Content | None) -> dict[str, Any] | None:
    return None if content is None else {content.format: content.given}


def _command(stream: StreamName, wanted: Wanted, cluster: str) -> str | None:
    """Return the command; None for a key that it cannot express."""
    if wanted.key is not None and wanted.key.format != "text":
        return None
    words = ["treeline", "produce", str(stream), "--cluster", cluster]
    words += [] if wanted.key is None else ["--key", wanted.key.given]
    words += [] if wanted.partition is None else ["--partition", str(wanted.partition)]
    for name, said in wanted.headers:
        words += ["--header", f"{name}={said}"]
    if wanted.value is None:
        return shlex.join([*words, "--tombstone"])
    value = wanted.value
    return shlex.join([*words, "--value", value.given]) + _OPTIONS[value.format]


def _page(services: ConsoleServices, name: StreamName, cluster: str) -> FormPage:
    with services.reading() as connection:
        row = find_stream(connection, name)
    here = _address(name)
    return FormPage(
        template="produce_form.html",
        address=f"{here}/-produce",
        heading=f"Produce a message to {name.stream}",
        trail=[("Tenants", "/tenants"), (str(name), here.removesuffix("/-messages")), ("Messages", here)],
        verb="Produce message",
        act=Producing(name),
        usual=lambda _: {"cluster": cluster, "key_format": NONE, "value_format": "json"},
        choices={
            "clusters": [("", "active cluster"), *((each, each) for each in sorted(row.incarnations))],
            "partitions": [("", "by key"), *((str(each), str(each)) for each in range(row.partitions))],
            "key_formats": [(NONE, "No key"), *_FORMATS],
            "value_formats": [*_FORMATS, (NONE, "Null (tombstone)")],
        },
        empty="Fill in the form to see where the message will be written.",
    )


@router.get(MESSAGES + "/-produce")
def produce_form(
    name: Named,
    request: Request,
    services: Shared,
    viewer: Viewer,
    cluster: Annotated[str, Query(max_length=300)] = "",
) -> Response:
    """Show the form."""
    caller = enter(viewer, Action.PRODUCE_MESSAGES, name.tenant)
    return show_form(request, services, caller, _page(services, name, cluster))


@router.post(MESSAGES + "/-produce")
def produce_message(name: Named, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the message, or produce it."""
    caller = enter(viewer, Action.PRODUCE_MESSAGES, name.tenant)
    return answer_form(request, services, caller, _page(services, name, fields.get("cluster", "")), fields)


@router.get(MESSAGES + "/-produced")
def message_produced(
    name: Named,
    request: Request,
    services: Shared,
    viewer: Viewer,
    cluster: Annotated[str, Query(max_length=300)] = "",
    partition: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    offset: Annotated[int | None, Query(ge=0, le=HIGHEST)] = None,
    switch: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Say where the message is, or that it is not confirmed; without a cluster, lead to the messages."""
    caller = enter(viewer, Action.PRODUCE_MESSAGES, name.tenant)
    with services.reading() as connection:
        find_stream(connection, name)
        named = name_switches(connection, [switch] if switch else [])
    here = _address(name)
    if not cluster:
        return RedirectResponse(here, 303)
    is_confirmed = partition is not None and offset is not None
    place = {"cluster": cluster, "partition": partition, "offset": offset}
    newest = {"cluster": cluster}
    context = {
        "name": name,
        "above": here.removesuffix("/-messages"),
        "here": here,
        **place,
        "is_confirmed": is_confirmed,
        "switch": switch,
        # Its number would tell others how many switches there were.
        "switch_named": named.get(switch) if may(caller, Action.READ_ESTATE) else None,
        "message": f"{here}?{urlencode({**place, 'begin': 'offset'} if is_confirmed else newest)}",
        "trace": f"/trace?{urlencode({'stream': str(name), **place})}",
        "another": f"{here}/-produce?{urlencode({'cluster': cluster})}",
    }
    return templates.page("message_produced.html", {**frame(request, caller), **context})
