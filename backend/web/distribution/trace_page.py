"""`/trace`: one record on all clusters: its origin, the routes of its copies, and where it is missing.

At an earlier position it shows which of the copies that exist now had arrived by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from backend.callers import STATUS
from backend.cluster_requests import trace_facts, tracing
from backend.cluster_requests.tracing import Trace, TracedCopy
from backend.domain.access.access import Action, Caller, refusal
from backend.domain.base.errors import DomainError, ValueInvalid
from backend.domain.distribution.trace import hops
from backend.domain.records import copy_flags
from backend.queries.clusters.clusters import leaves
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.past_observation import milliseconds_of, requested_observation
from backend.web.frame.requested_position import At
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.words.figures import NOTHING

router = APIRouter(include_in_schema=False, route_class=PageRoute)

TRACE = "/trace"
_HIGHEST_PARTITION, _HIGHEST_OFFSET = 2**31 - 1, 2**63 - 1
Text = Annotated[str, Query(max_length=1200)]


@dataclass(frozen=True)
class Asked:
    """Search fields that name a record."""

    stream: str
    cluster: str
    partition: str
    offset: str

    @property
    def is_whole(self) -> bool:
        return bool(self.stream and self.cluster and self.partition and self.offset)


@dataclass(frozen=True)
class TraceView:
    """A trace as the page shows it: now, or as of an earlier moment."""

    found: Trace
    until_ms: float = inf

    @property
    def home(self) -> str:
        origin = self.found.origin
        return origin.cluster or f"cluster number {origin.number}, which has left the tree"

    @property
    def presence(self) -> str:
        said = {
            True: "still there",
            False: "no longer there",
            None: "could not be checked",
        }
        return said[self.found.origin.present]

    @property
    def copies(self) -> list[TracedCopy]:
        """Return the copies that had arrived by then, as far as known."""
        return [each for each in self.found.copies if not self._is_later(each)]

    @property
    def later(self) -> list[TracedCopy]:
        """Return the copies that arrived later."""
        return [each for each in self.found.copies if self._is_later(each)]

    def _is_later(self, copy: TracedCopy) -> bool:
        return (copy.arrived_at_ms or 0) > self.until_ms

    @property
    def is_produced(self) -> bool:
        return self.found.origin.timestamp_ms <= self.until_ms

    @property
    def is_whole(self) -> bool:
        return not self.found.missing and not self.later

    @property
    def is_past(self) -> bool:
        return self.until_ms != inf

    def flags(self, copy: TracedCopy) -> str:
        return copy_flags.text(copy.flags)

    def hops(self, copy: TracedCopy) -> int:
        return hops(copy.flags)

    def took(self, copy: TracedCopy) -> str:
        """Return the time from the record's production to its arrival on the cluster."""
        if copy.arrived_at_ms is None or copy.arrived_at_ms < self.found.origin.timestamp_ms:
            return NOTHING
        milliseconds = copy.arrived_at_ms - self.found.origin.timestamp_ms
        return f"{milliseconds:,} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:,.0f} s"


@router.get(TRACE)
def trace_page(
    request: Request,
    services: Shared,
    viewer: Viewer,
    stream: Text = "",
    cluster: Text = "",
    partition: Annotated[str, Query(max_length=20)] = "",
    offset: Annotated[str, Query(max_length=20)] = "",
    at: At = None,
) -> Response:
    """Show the search form, and the trace of the record; clusters that did not answer in time are marked."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    asked = Asked(*(text.strip() for text in (stream, cluster, partition, offset)))
    with services.reading() as connection:
        position, past = requested_observation(connection, caller, at)
        clusters = leaves(connection, position)
        until_ms = inf if position is None else milliseconds_of(connection, position)
    trace, refused, status = None, "", 200
    if asked.is_whole:
        try:
            trace = TraceView(_traced(services, caller, asked), until_ms)
        except DomainError as error:
            refused, status = error.detail, STATUS[error.kind]
    elif any((asked.stream, asked.partition, asked.offset)):
        refused, status = "give the record's stream, partition and offset, and a cluster that has it", 422
    context = {"asked": asked, "trace": trace, "refused": refused, "clusters": clusters, "past": past}
    context["shown_then"] = "which of the current copies had arrived by then"
    return templates.page("trace.html", {**frame(request, caller), **context}, status)


def _traced(services: ConsoleServices, caller: Caller, asked: Asked) -> Trace:
    partition = _number(asked.partition, "partition", _HIGHEST_PARTITION)
    offset = _number(asked.offset, "offset", _HIGHEST_OFFSET)
    refused = refusal(caller, Action.READ_TENANT, asked.stream.partition("/")[0])
    if refused is not None or not asked.stream.isprintable() or not asked.cluster.isprintable():
        raise trace_facts.no_stream(asked.stream)
    with services.reading() as connection:
        known = trace_facts.read(connection, services.config, asked.cluster, asked.stream, partition)
    return tracing.run(known, asked.cluster, offset)


def _number(text: str, what: str, highest: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= number <= highest:
        raise ValueInvalid(f"{text!r} is not a valid {what}: give a whole number from 0 on")
    return number
