"""Messages of any kind and version, drawn and encoded by Kafka's own definitions from its jar."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st

from backend.estate.programs.jars import KAFKA_VERSION, ensure_jars
from backend.settings import settings

NUMBERS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q"}
STRANGE_TAG = 60
"""Tag higher than any definition has; readers skip it."""

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
"""Suppressed health checks of Hypothesis: messages are large and slow to draw."""
TEXT = st.text(st.characters(codec="utf-8"), max_size=160)
"""Texts up to the longest host name, whose size takes two bytes in the compact form."""
INT16, INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))


@cache
def definitions(kind: str) -> dict[int, dict[str, Any]]:
    """Return the definitions by api key; `kind` is "request" or "response"."""
    jar = ensure_jars(settings().cache, print) / f"kafka-clients-{KAFKA_VERSION}.jar"
    found = {}
    with zipfile.ZipFile(jar) as files:
        for name in files.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = re.sub(r"(?m)^\s*//.*$", "", files.read(name).decode())
                read = json.loads(text)
                if read["type"] == kind and read["validVersions"] != "none":
                    found[read["apiKey"]] = read
    return found


def within(versions: str, version: int) -> bool:
    if versions == "none":
        return False
    first, dash, last = versions.removesuffix("+").partition("-")
    return int(first) <= version and (versions.endswith("+") or version <= int(last if dash else first))


@dataclass(frozen=True)
class Field:
    """One field of a message, in the order of the wire; `value` is bytes, a list of structures, or a structure."""

    name: str
    value: Any
    tag: int | None = None
    compact: bool = False
    is_array: bool = False


Structure = list[Field]


@dataclass(frozen=True)
class Message:
    """A message of one version, without header."""

    fields: Structure
    flexible: bool
    common: dict[str, Any] = field(default_factory=dict)


def messages(api_key: int, version: int, kind: str = "response") -> st.SearchStrategy[Message]:
    described = definitions(kind)[api_key]
    flexible = within(described["flexibleVersions"], version)
    common = {each["name"]: each["fields"] for each in described.get("commonStructs", ())}
    drawn = _structures(described["fields"], version, flexible, common)
    return drawn.map(lambda fields: Message(fields, flexible))


def _structures(
    described: list[dict[str, Any]], version: int, flexible: bool, common: dict[str, Any]
) -> st.SearchStrategy[Structure]:
    @st.composite
    def structure(draw: Callable[..., Any]) -> Structure:
        found = []
        for each in described:
            if not within(each["versions"], version):
                continue
            tag = each["tag"] if within(each.get("taggedVersions", "none"), version) else None
            if tag is not None and draw(st.booleans()):
                continue
            value = draw(_values(each, each["type"], version, flexible, common))
            found.append(Field(each["name"], value, tag, flexible, each["type"].startswith("[]")))
        if flexible and draw(st.integers(0, 5)) == 0:
            found.append(Field("Strange", draw(st.binary(max_size=200)), STRANGE_TAG))
        return found

    return structure()


def _values(
    each: dict[str, Any], kind: str, version: int, flexible: bool, common: dict[str, Any]
) -> st.SearchStrategy[Any]:
    nullable = within(each.get("nullableVersions", "none"), version)
    if kind.startswith("[]"):
        inner = _values(each | {"nullableVersions": "none"}, kind[2:], version, flexible, common)
        return _or_null(st.lists(inner, max_size=3), nullable)
    if kind == "string":
        return _or_null(TEXT.map(str.encode), nullable).map(lambda text: _sized(text, flexible, ">h"))
    if kind in ("bytes", "records"):
        return _or_null(st.binary(max_size=300), nullable).map(lambda data: _sized(data, flexible, ">i"))
    if kind == "bool":
        return st.booleans().map(lambda value: bytes([value]))
    if kind == "uuid":
        return st.uuids().map(lambda value: value.bytes)
    if kind in NUMBERS:
        low, high = _range(NUMBERS[kind])
        return st.integers(low, high).map(lambda value: struct.pack(NUMBERS[kind], value))
    return _structures(each.get("fields") or common[kind], version, flexible, common)


def _or_null(values: st.SearchStrategy[Any], nullable: bool) -> st.SearchStrategy[Any]:
    return st.none() | values if nullable else values


def _range(form: str) -> tuple[int, int]:
    bits = 8 * struct.calcsize(form)
    return (0, 2**bits - 1) if form[1].isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value % 128 + 128]), value // 128
    return found + bytes([value])


def _sized(data: bytes | None, compact: bool, form: str) -> bytes:
    if compact:
        return varint(0 if data is None else len(data) + 1) + (data or b"")
    return struct.pack(form, -1 if data is None else len(data)) + (data or b"")


def written(message: Message, correlation: int, header_is_flexible: bool | None = None) -> bytes:
    """Encode a message with the header of a response, without the size prefix."""
    with_tags = message.flexible if header_is_flexible is None else header_is_flexible
    return (
        struct.pack(">i", correlation) + (b"\0" if with_tags else b"") + _written(message.fields, message.flexible)
    )


def _written(fields: Structure, flexible: bool) -> bytes:
    found = b"".join(_value(each, flexible) for each in fields if each.tag is None)
    if not flexible:
        return found
    tagged = sorted((each for each in fields if each.tag is not None), key=lambda each: each.tag or 0)
    found += varint(len(tagged))
    for each in tagged:
        value = _value(each, flexible)
        found += varint(each.tag or 0) + varint(len(value)) + value
    return found


def _value(each: Field, flexible: bool) -> bytes:
    if isinstance(each.value, bytes):
        return each.value
    if not each.is_array:
        return _written(each.value, flexible)
    if each.value is None:
        return _count(-1, flexible)
    inner = [one if isinstance(one, bytes) else _written(one, flexible) for one in each.value]
    return _count(len(inner), flexible) + b"".join(inner)


def _count(number: int, compact: bool) -> bytes:
    return varint(number + 1) if compact else struct.pack(">i", number)


def joined(pieces: Iterable[Any]) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def by_topic(partitions: list[Any]) -> list[Any]:
    """Return the partitions in wire order, those of a topic together."""
    order = list(dict.fromkeys(each.topic for each in partitions))
    return sorted(partitions, key=lambda each: order.index(each.topic))


def without_strange(message: Message) -> Message:
    """Return the message without unknown tagged fields, which kafka-python does not read everywhere."""
    return replace(message, fields=_known(message.fields))


def _known(value: Any) -> Any:
    if isinstance(value, Field):
        return replace(value, value=_known(value.value))
    if isinstance(value, list):
        return [_known(each) for each in value if not (isinstance(each, Field) and each.tag == STRANGE_TAG)]
    return value


def body(message: Message) -> bytes:
    """Encode a message without a header."""
    return _written(message.fields, message.flexible)


Moving = Callable[[int, str, int], tuple[str, int] | None]


def with_addresses(message: Message, move: Moving) -> Message:
    """Return the message with every node's host and port rewritten by (node id, host, port) -> address."""
    return replace(message, fields=_moved(message.fields, move, message.flexible))


def _moved(fields: Structure, move: Moving, flexible: bool) -> Structure:
    named = {each.name: each for each in fields}
    if {"Host", "Port"} <= named.keys():
        node = struct.unpack(">i", named["NodeId" if "NodeId" in named else "BrokerId"].value)[0]
        host = named["Host"].value[_length_of_size(named["Host"].value, flexible) :].decode()
        there = move(node, host, struct.unpack(">i", named["Port"].value)[0])
        if there is not None:
            changed = {"Host": _sized(there[0].encode(), flexible, ">h"), "Port": struct.pack(">i", there[1])}
            fields = [replace(each, value=changed.get(each.name, each.value)) for each in fields]
    return [replace(each, value=_moved_value(each.value, move, flexible)) for each in fields]


def _moved_value(value: Any, move: Moving, flexible: bool) -> Any:
    if not isinstance(value, list) or not value:
        return value
    if isinstance(value[0], Field):
        return _moved(value, move, flexible)
    return [_moved(one, move, flexible) if isinstance(one, list) else one for one in value]


def _length_of_size(data: bytes, flexible: bool) -> int:
    if not flexible:
        return 2
    return next(at for at, byte in enumerate(data, start=1) if byte < 128)


def names(described: Any) -> Iterator[str]:
    """Yield the names of all fields within a definition."""
    for each in described.get("fields", ()):
        yield each["name"]
        yield from names(each)
    for each in described.get("commonStructs", ()):
        yield from names(each)
