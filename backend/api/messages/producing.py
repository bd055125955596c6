"""`POST /messages`: produce one message to a stream on one cluster."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import Asking, check, needs
from backend.api.frame.requests import Body, Write, Writing, respond
from backend.cluster_requests.trace_facts import no_stream
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import ClusterSilent, FieldError, ValueInvalid
from backend.domain.base.given_times import LATEST_MS
from backend.eventlog.held_lock import HeldLock
from backend.messages import production, production_run
from backend.messages.production import MOST_HEADERS, Content, Production, Wanted

router = APIRouter(tags=["messages"])

_NOT_CONFIRMED = 503
"""Status of the stored answer to a message that the cluster did not confirm: a repeat is told the same."""


class Given(Body):
    """A key or value: one of `text`, `json` and `base64`."""

    text: str | None = Field(None, description="Written as UTF-8.")
    json_value: Any = Field(
        None, alias="json", description="Written as compact JSON; fractions become 64-bit floats."
    )
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
    timestamp_ms: int | None = Field(None, ge=1, le=LATEST_MS, description="Default: the present time.")

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

    It is confirmed by all in-sync replicas. 503 `cluster-silent` says whether it was not written, or may have
    been; in the latter case a repeat with the same key is told the same, and does not write. `warning`: what to
    check, or null. The event log has who produced it, where, and its sizes (`MessageProduced`), never its
    content. A dry run checks everything that is known without the cluster.
    """
    check(caller, Action.PRODUCE_MESSAGES, body.stream, no_stream(body.stream))
    if write.dry_run:
        found = _read(write, body)
        write.rehearse_change(production_run.recorded(found))
        return respond(Answer(200, _preview(found)))
    key = None if write.idempotency is None else write.idempotency.key
    with production_run.turn(write.services.engine, write.metadata.actor, key) as lock:
        # A repeated request gets its first answer, whatever has become of the stream meanwhile.
        first = _first_answer(write)
        return _produced(write, _read(write, body), lock) if first is None else first


def _read(write: Write, body: NewMessage) -> Production:
    with write.services.reading() as connection:
        return production.read(connection, write.services.config, body.stream, body.cluster, body.wanted())


def _first_answer(write: Write) -> Response | None:
    """Return the stored answer of this request, if any. Raises ClusterSilent if the cluster did not confirm it."""
    if write.idempotency is None:
        return None
    first = write.services.dispatcher.recall(write.metadata.actor, write.idempotency)
    if first is not None and first.status == _NOT_CONFIRMED:
        raise ClusterSilent(first.body["detail"])
    return None if first is None else respond(first)


def _produced(write: Write, found: Production, lock: HeldLock | None) -> Response:
    # Nothing is written to the cluster while the event could not be appended.
    first = write.rehearse_change(production_run.recorded(found))
    if first is not None:
        return first
    result = production_run.write(found, lock)

    def answer(_: Connection, outcome: Outcome) -> Answer:
        if result.written is None:
            return Answer(_NOT_CONFIRMED, {"detail": result.doubt})
        told = production_run.warning(found, outcome.events[0].event)
        return Answer(201, {"cluster": found.facts.cluster, **vars(result.written), "warning": told})

    change = production_run.recorded(found, result)
    is_keyed = write.idempotency is not None
    response = production_run.append(found, result, lambda: write.carry_out(change, answer), is_keyed=is_keyed)
    if result.written is None:
        raise ClusterSilent(result.doubt)
    return response


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
