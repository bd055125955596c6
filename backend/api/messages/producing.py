"""`POST /messages`: produce one message to a stream on one cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from backend.api.frame.access import Asking, check, needs
from backend.api.frame.requests import Body, Write, Writing, respond
from backend.cluster_requests.trace_facts import no_stream
from backend.dispatch import Answer
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.messages import production
from backend.messages.production import LATEST_MS, MOST_HEADERS, Content, Production, Wanted

router = APIRouter(tags=["messages"])


class Given(Body):
    """A key or value: one of `text`, `json` and `base64`."""

    text: str | None = Field(None, description="Written as UTF-8.")
    json_value: Any = Field(None, alias="json", description="Written as compact JSON.")
    base64: str | None = Field(None, description="Bytes in base64.")

    def content(self, pointer: str) -> Content:
        """Return the one that is given. Raises ValueInvalid for none, or several."""
        given = {Given.model_fields[name].alias or name: getattr(self, name) for name in self.model_fields_set}
        if len(given) != 1 or (given.keys() != {"json"} and None in given.values()):
            said = f"give one of {', '.join(production.FORMATS)}"
            raise ValueInvalid(f"{pointer[1:]}: {said}", (FieldError(pointer, said),))
        [(form, value)] = given.items()
        return Content(form, value)


class NewMessage(Body):
    """A message to produce."""

    stream: str = Field(max_length=1200, description="tenant/instance/environment/stream")
    cluster: str | None = Field(
        None, max_length=300, description="Cluster to write to; default: the one that the clients use."
    )
    partition: int | None = Field(None, ge=0, le=2**31 - 1, description="Default: the key decides.")
    key: Given | None = None
    value: Given | None = Field(description="Null: a tombstone.")
    headers: list[Annotated[list[str | None], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list, max_length=MOST_HEADERS, description="Pairs of a name and a text, or null."
    )
    timestamp_ms: int | None = Field(None, ge=0, le=LATEST_MS, description="Default: the present time.")

    def wanted(self) -> Wanted:
        """Return the message. Raises ValueInvalid."""
        return Wanted(
            partition=self.partition,
            key=None if self.key is None else self.key.content("/key"),
            value=None if self.value is None else self.value.content("/value"),
            headers=[(name or "", value) for name, value in self.headers],
            timestamp_ms=self.timestamp_ms,
        )


@router.post("/messages", status_code=201, openapi_extra=needs(Action.PRODUCE_MESSAGES))
def produce_message(body: NewMessage, write: Writing, caller: Asking) -> Response:
    """Produce a message to a stream on one cluster; distributors copy it to the others as any other.

    It is confirmed by all in-sync replicas. The event log has who produced it, where, and its sizes
    (`MessageProduced`), never its content. A dry run checks everything that is known without the cluster.
    """
    check(caller, Action.PRODUCE_MESSAGES, body.stream, no_stream(body.stream))
    with _once(write):
        with write.services.reading() as connection:
            found = production.read(connection, write.services.config, body.stream, body.cluster, body.wanted())
        # Nothing is written to the cluster while the event could not be appended.
        first = write.rehearse_change(production.recorded(found))
        if first is not None:
            return first
        if write.dry_run:
            return respond(Answer(200, _preview(found)))
        written = production.write(found)
        shown = {"cluster": found.facts.cluster, **vars(written)}
        return write.carry_out(production.recorded(found, written), lambda *_: Answer(201, shown))


def _once(write: Write) -> AbstractContextManager[object]:
    if write.idempotency is None or write.dry_run:
        return nullcontext()
    return production.one_at_a_time(write.services.engine, write.metadata.actor, write.idempotency.key)


def _preview(found: Production) -> dict[str, Any]:
    message = found.message
    return {
        "cluster": found.facts.cluster,
        "topic": found.facts.topic,
        "partition": message.partition,
        "offset": None,
        "timestamp_ms": message.timestamp_ms,
        "bytes": message.bytes,
    }
