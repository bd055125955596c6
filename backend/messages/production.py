"""A message that a user wants to produce: checked against its stream, and encoded.

Everything that can be known without the cluster is checked before it is asked, so that a dry run says the same.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from backend.domain.base.errors import FieldError, StateConflict, ValueInvalid
from backend.domain.switch import discovery
from backend.kafka.search.message_writing import NewMessage
from backend.messages import facts as message_facts
from backend.messages.facts import MessageFacts
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.switches import SwitchRow, moving_switches
from backend.queries.tenants.streams import StreamRow, find_stream
from backend.settings import Settings

FORMATS = ("text", "json", "base64")
MOST_HEADERS = 100
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
    generations: Mapping[str | None, int]
    """Generation of the environment's clients, for each zone that has its own; None: all others."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Return the environment: tenant, instance and environment."""
        return _place(self.facts)


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
    generations = {each.zone: each.generation for each in list_active(connection, places=[_place(found)])}
    return Production(found, message, generations)


def switch_since(connection: Connection, production: Production) -> str | None:
    """Return a switch that has held or moved the environment's clients since the production was read, if any."""
    for row in list_active(connection, places=[production.place]):
        if row.switch is not None and production.generations.get(row.zone) != row.generation:
            return row.switch
    holding = _holding(connection, production.place)
    return None if holding is None else holding.id


def _check_not_held(connection: Connection, facts: MessageFacts) -> None:
    """Raise StateConflict while a switch holds clients of the environment, be it in one zone only."""
    place = _place(facts)
    switch = _holding(connection, place)
    if switch is not None:
        raise StateConflict(
            f"the switch from {switch.source} to {switch.target} holds the clients of {'/'.join(place)}: produce "
            "the message when it has ended"
        )


def _holding(connection: Connection, place: tuple[str, str, str]) -> SwitchRow | None:
    """Return the switch that holds clients of an environment."""
    for row in moving_switches(connection):
        if discovery.instructed_phase(discovery.ANY, row.state) == discovery.HOLD and any(
            each.place == place for each in row.moves
        ):
            return row
    return None


def _place(facts: MessageFacts) -> tuple[str, str, str]:
    return facts.stream.tenant, facts.stream.instance, facts.stream.environment


def _check(row: StreamRow, message: NewMessage) -> None:
    """Raise ValueInvalid for what the topic would refuse, with an error for each field."""
    errors: list[FieldError] = []
    if message.partition is not None and message.partition >= row.partitions:
        errors.append(FieldError("/partition", f"stream {row.stream} has partitions 0 to {row.partitions - 1}"))
    if "compact" in row.cleanup_policy and not message.key:
        errors.append(
            FieldError("/key", f"stream {row.stream} is compacted: give the message a key that is not empty")
        )
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
        try:
            text = json.dumps(content.given, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except ValueError:
            said = "it has NaN, Infinity, or a number that is too large for 64 bits: give the JSON as text"
            errors.append(FieldError(f"{pointer}/json", said))
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
