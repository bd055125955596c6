"""A message in the form of an answer, with what its headers say about copies."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from backend.domain.distribution import trace
from backend.domain.records import copy_flags
from backend.kafka.base.message_headers import Message, headers_of
from backend.messages.decoded_fields import DecodedField
from backend.messages.facts import MessageFacts


def shown(facts: MessageFacts, message: Message, key: DecodedField, value: DecodedField) -> dict[str, Any]:
    """Return a message as one item of an answer."""
    headers = headers_of(message)
    marks = trace.read_marks(headers, facts.flags_header, facts.origin_header)
    document: dict[str, Any] = {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": max(0, message.timestamp()[1]),
        "key": key.value,
        "value": value.value,
        "key_format": key.format,
        "value_format": value.format,
        "schema_id": value.schema_id,
        "headers": [[name, _text(found)] for name, found in headers],
        "copy_flags": copy_flags.text(marks.flags),
        "origin": _origin(facts, message, marks),
    }
    if key.schema_id is not None:
        document["key_schema_id"] = key.schema_id
    problems = [f"{name}: {each.problem}" for name, each in (("key", key), ("value", value)) if each.problem]
    if problems:
        document["problem"] = "; ".join(problems)
    return document


def _origin(facts: MessageFacts, message: Message, marks: trace.Marks) -> Mapping[str, Any] | None:
    """Return where a copy was first produced; None for a record that was produced here.

    Stream processors pass headers on, so an origin may be another record's (docs/decisions/0004).
    """
    partition, found = message.partition(), marks.origin
    if found is None or partition is None or not trace.is_copy(marks, facts.stream_id, partition, facts.number):
        return None
    cluster = facts.names.get(found.cluster)
    if cluster is None:
        return None
    return {"cluster": cluster, "offset": found.offset, "incarnation": found.incarnation}


def _text(value: bytes | str | None) -> str | None:
    """Return a header's value as text, or in base64 if it is none."""
    if value is None or isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
