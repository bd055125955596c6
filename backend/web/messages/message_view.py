"""A message as the page shows it: one line in the list, and everything below it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from backend.messages.facts import MessageFacts
from backend.web.messages.hex_dump import hex_dump, hex_line
from backend.web.words.figures import counted

_LINE_CHARACTERS = 300
_SHOWN_CHARACTERS = 16_000
"""Longest text of a key or value on the page; exports have all of it."""
_LINE_BYTES, _DUMPED_BYTES = 32, 1024
_LONGEST_HEADER, _MOST_HEADERS = 1_000, 100
_NULL = "null"
_KINDS = {"avro": "Avro", "json": "JSON", "protobuf": "Protobuf", "text": "Text", "bytes": "Bytes"}


@dataclass(frozen=True)
class HeaderView:
    """A header, and what it means if it is one of Treeline's."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class FieldView:
    """A key or a value: in one line, and in full."""

    line: str
    text: str
    kind: str
    """Format in words, with the schema id."""
    is_null: bool = False
    is_dump: bool = False
    """The text is a hex dump, whose rows must not be broken."""
    rest: str = ""
    """Sentence on the part that is not shown; empty if all is shown."""


@dataclass(frozen=True)
class MessageView:
    """A message of the page."""

    partition: int
    offset: int
    timestamp_ms: int
    key: FieldView
    value: FieldView
    headers: tuple[HeaderView, ...]
    more_headers: int
    source: str
    """Where it was produced, in words."""
    problem: str
    trace: str
    """Address of its trace."""

    @property
    def id(self) -> str:
        """Return the id of its element on the page."""
        return f"m-{self.partition}-{self.offset}"


def message_view(facts: MessageFacts, document: Mapping[str, Any]) -> MessageView:
    """Return the view of one item of an answer."""
    partition, offset, headers = document["partition"], document["offset"], document["headers"]
    record = {"stream": str(facts.stream), "cluster": facts.cluster, "partition": partition, "offset": offset}
    return MessageView(
        partition=partition,
        offset=offset,
        timestamp_ms=document["timestamp_ms"],
        key=_field(document["key"], document["key_format"], document.get("key_schema_id")),
        value=_field(document["value"], document["value_format"], document["schema_id"]),
        headers=tuple(_header(facts, document, *each) for each in headers[:_MOST_HEADERS]),
        more_headers=max(0, len(headers) - _MOST_HEADERS),
        source=_source(facts, document),
        problem=document.get("problem", ""),
        trace=f"/trace?{urlencode(record)}",
    )


def _field(value: object, form: str, schema_id: int | None) -> FieldView:
    kind = _KINDS[form] + (f", schema {schema_id}" if schema_id is not None else "")
    if value is None and form in ("bytes", "text"):
        return FieldView(_NULL, "", _NULL, is_null=True)
    if form == "bytes":
        return _bytes(str(value), kind)
    if form == "text":
        text = line = str(value)
    else:
        text = line = json.dumps(value, ensure_ascii=False)
        if len(line) <= _SHOWN_CHARACTERS:  # indenting is slow, and what is cut off needs none
            text = json.dumps(value, ensure_ascii=False, indent=2)
    shown = _storable(text[:_SHOWN_CHARACTERS])
    one_line = " ".join(_storable(line[:_LINE_CHARACTERS]).split())
    cut = max(0, len(text) - _SHOWN_CHARACTERS)
    rest = f"{counted(cut, 'more character')}. The exports have all of them." if cut else ""
    return FieldView(one_line, shown, kind, rest=rest)


def _bytes(encoded: str, kind: str) -> FieldView:
    """Return the view of bytes, which an answer has in Base64."""
    count = len(encoded) // 4 * 3 - encoded[-2:].count("=")
    data = base64.b64decode(encoded[: 4 * _DUMPED_BYTES])  # four characters hold three bytes
    cut = max(0, count - _DUMPED_BYTES)
    rest = f"… {counted(cut, 'more byte')}. The exports have all of them, in Base64." if cut else ""
    return FieldView(hex_line(data, _LINE_BYTES), hex_dump(data[:_DUMPED_BYTES]), kind, is_dump=True, rest=rest)


def _header(facts: MessageFacts, document: Mapping[str, Any], name: str, value: str | None) -> HeaderView:
    said = _NULL if value is None else _readable(_storable(value[:_LONGEST_HEADER]))
    cut = 0 if value is None else len(value) - len(value[:_LONGEST_HEADER])
    more = f" … and {counted(cut, 'character')} more" if cut else ""
    return HeaderView(_storable(name[:_LONGEST_HEADER]), f"{said}{more}", _meaning(facts, document, name))


def _readable(text: str) -> str:
    """Return a text, or its bytes if it has control characters, as the copy flags have."""
    if any(each < " " and not each.isspace() for each in text):
        return text.encode().hex(" ")
    return text


def _meaning(facts: MessageFacts, document: Mapping[str, Any], name: str) -> str:
    if name == facts.flags_header:
        return f"Copy flags: {document['copy_flags'] or 'none'}"
    if name == facts.origin_header:
        origin = document["origin"]
        if origin is None:
            return "Origin of another record, which a program passed on"
        return f"Origin: offset {origin['offset']:,} of {origin['cluster']}, incarnation {origin['incarnation']}"
    return ""


def _source(facts: MessageFacts, document: Mapping[str, Any]) -> str:
    origin = document["origin"]
    if origin is None:
        return f"Produced on {facts.cluster}"
    return f"Copied from {origin['cluster']}, offset {origin['offset']:,} (copy flags {document['copy_flags']})"


def _storable(text: str) -> str:
    """Return a text that can be sent as UTF-8: JSON may have halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()
