"""A message that a user wants to produce: checked against its stream, encoded, and written.

Everything that can be known without the cluster is checked before it is asked, so that a dry run says the same.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine

from backend.changes.change import Change
from backend.changes.messages import record_produced
from backend.domain.base.errors import ClusterSilent, ClusterUnreachable, FieldError, StateConflict, ValueInvalid
from backend.domain.switch import discovery
from backend.domain.tenants.produced_messages import Produced, RecordProduced
from backend.eventlog import held_lock
from backend.eventlog.held_lock import HeldLock
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search.message_writing import (
    MessageRefused,
    NewMessage,
    OutcomeUncertain,
    Written,
    write_message,
)
from backend.kafka.search.topic_reader import TopicPlace
from backend.messages import facts as message_facts
from backend.messages.facts import MessageFacts
from backend.queries.switch.switches import moving_switches
from backend.queries.tenants.streams import StreamRow, find_stream
from backend.settings import Settings

FORMATS = ("text", "json", "base64")
MOST_HEADERS = 100
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999."""
_WAIT_SECONDS = 15.0
"""Time to wait for the same request, sent twice, while the first one is carried out."""
_NOWHERE = Written(partition=0, offset=0, timestamp_ms=0)
_RECORD_BYTES = 70
"""Bytes of a batch with one record besides key, value and headers, roughly; the broker has the last word."""


@dataclass(frozen=True)
class Content:
    """A key or value as it was given: a text, a JSON value, or bytes in base64."""

    format: str
    given: Any


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A message as it was requested; `value` None is a tombstone."""

    partition: int | None
    key: Content | None
    value: Content | None
    headers: Sequence[tuple[str, str | None]]
    timestamp_ms: int | None


@dataclass(frozen=True)
class Production:
    """A message that can be written, with its stream and cluster."""

    facts: MessageFacts
    message: NewMessage


def read(
    connection: Connection, settings: Settings, stream: str, cluster: str | None, wanted: Wanted
) -> Production:
    """Check and encode a message for a stream; without a cluster, for its environment's active one.

    Raises NotFound as `facts.read` does; StateConflict while a switch holds the environment's clients;
    ValueInvalid with the places in the request. Whether the caller may know of the stream is not checked here.
    """
    found = message_facts.read(connection, settings, stream, cluster)
    _check_not_held(connection, found)
    row = find_stream(connection, found.stream)
    message = NewMessage(
        partition=wanted.partition,
        key=_encoded(wanted.key, "/key"),
        value=_encoded(wanted.value, "/value"),
        headers=_headers(found, wanted.headers),
        timestamp_ms=wanted.timestamp_ms,
    )
    _check(row, message)
    return Production(found, message)


def write(production: Production) -> Written:
    """Write a message, which takes ten seconds at most. Raises StateConflict, ClusterSilent."""
    facts = production.facts
    place = TopicPlace(facts.bootstrap_servers, facts.properties, facts.topic, ())
    with _writing_failures(facts):
        return write_message(place, production.message)


def recorded(production: Production, written: Written = _NOWHERE) -> Change[Produced, RecordProduced]:
    """Return the record of a message that was written; without a place, one to try whether it can be appended."""
    facts, message = production.facts, production.message
    command = RecordProduced(
        stream=str(facts.stream),
        cluster=facts.cluster,
        partition=written.partition,
        offset=written.offset,
        key_bytes=None if message.key is None else len(message.key),
        value_bytes=None if message.value is None else len(message.value),
        header_count=len(message.headers),
    )
    return record_produced(facts.stream.tenant, command)


def one_at_a_time(engine: Engine, actor: str, request: str) -> AbstractContextManager[HeldLock]:
    """Keep a request that is sent twice at once from being carried out twice. Raises LockBusy."""
    return held_lock.hold(engine, f"produce {actor} {request}", wait_seconds=_WAIT_SECONDS)


@contextmanager
def _writing_failures(facts: MessageFacts) -> Iterator[None]:
    try:
        yield
    except MessageRefused as error:
        raise StateConflict(f"{facts.cluster} refuses the message: {error}") from error
    except OutcomeUncertain as error:
        raise ClusterSilent(
            f"{facts.cluster} did not confirm the message in time: {error.reason}. It may have been written: look "
            f"at the newest messages of {facts.stream} before you produce it again"
        ) from error
    except KafkaCallFailed as error:
        does = "refuses the message" if error.is_lasting else "does not answer"
        raise ClusterSilent(f"{facts.cluster} {does}: {error.reason}") from error
    except ClusterUnreachable as error:
        raise ClusterSilent(f"{facts.cluster} cannot be reached: {error.detail}") from error


def _check_not_held(connection: Connection, facts: MessageFacts) -> None:
    """Raise StateConflict while a switch holds clients of the environment, be it in one zone only."""
    name = facts.stream
    place = (name.tenant, name.instance, name.environment)
    for row in moving_switches(connection):
        if discovery.instructed_phase(discovery.ANY, row.state) == discovery.HOLD and any(
            each.place == place for each in row.moves
        ):
            raise StateConflict(
                f"switch {row.id} holds the clients of {'/'.join(place)}: produce the message when it has ended"
            )


def _check(row: StreamRow, message: NewMessage) -> None:
    """Raise ValueInvalid for what the topic would refuse, with an error for each field."""
    errors: list[FieldError] = []
    if message.partition is not None and message.partition >= row.partitions:
        errors.append(FieldError("/partition", f"stream {row.stream} has partitions 0 to {row.partitions - 1}"))
    if "compact" in row.cleanup_policy and message.key is None:
        errors.append(FieldError("/key", f"stream {row.stream} is compacted: give the message a key"))
    size = message.bytes + _RECORD_BYTES
    if size > row.max_message_bytes:
        errors.append(
            FieldError(
                "/value",
                f"the message has {size:,} bytes, and stream {row.stream} takes at most {row.max_message_bytes:,} "
                "(max.message.bytes)",
            )
        )
    _raise(errors)


def _headers(facts: MessageFacts, given: Sequence[tuple[str, str | None]]) -> list[tuple[str, bytes | None]]:
    errors: list[FieldError] = []
    ours = {facts.flags_header, facts.origin_header}
    if len(given) > MOST_HEADERS:
        errors.append(FieldError("/headers", f"there are {len(given)}, and a message has at most {MOST_HEADERS}"))
    found: list[tuple[str, bytes | None]] = []
    for number, (name, value) in enumerate(given[:MOST_HEADERS]):
        place = f"/headers/{number}"
        if not name:
            errors.append(FieldError(place, "a header needs a name"))
        elif name in ours:
            errors.append(FieldError(place, f"{name} is Treeline's own header, which only distributors write"))
        else:
            _utf8(name, place, errors)
            found.append((name, None if value is None else _utf8(value, place, errors)))
    _raise(errors)
    return found


def _encoded(content: Content | None, pointer: str) -> bytes | None:
    """Return the bytes of a key or value. Raises ValueInvalid."""
    if content is None:
        return None
    errors: list[FieldError] = []
    if content.format == "base64":
        try:
            return base64.b64decode(content.given, validate=True)
        except (binascii.Error, ValueError):
            errors.append(FieldError(f"{pointer}/base64", "it is not base64 (RFC 4648, with padding)"))
    text = content.given
    if content.format == "json":
        text = json.dumps(content.given, ensure_ascii=False, separators=(",", ":"))
    data = b"" if errors else _utf8(text, f"{pointer}/{content.format}", errors)
    _raise(errors)
    return data


def _utf8(text: str, pointer: str, errors: list[FieldError]) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        errors.append(FieldError(pointer, "it contains half of a surrogate pair, which UTF-8 cannot encode"))
        return b""


def _raise(errors: Sequence[FieldError]) -> None:
    if errors:
        said = "; ".join(f"{each.pointer[1:]}: {each.detail}" for each in errors)
        raise ValueInvalid(said, tuple(errors))
