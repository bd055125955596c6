"""Rewrite the addresses of brokers in responses of Kafka's protocol.

A response is not decoded. A walk, built from Kafka's own message definitions when the first response of a type and
version arrives, skips all fields but addresses; all other bytes stay as they are. Responses with addresses:
Metadata, FindCoordinator, DescribeCluster; Produce and Fetch where they name a new leader (KIP-951); ShareFetch
and ShareAcknowledge (KIP-932).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from kafka.protocol.schemas.load_json import load_json

from backend.kafka.wire.encoding import (
    INT32,
    Buffer,
    MessageMalformed,
    as_string,
    as_unsigned_varint,
    int32,
    length_of_bytes,
    length_of_string,
    past_tagged_fields,
    string,
    unsigned_varint,
)

_RESPONSES: Mapping[int, tuple[str, str | None]] = {
    0: ("ProduceResponse", None),
    1: ("FetchResponse", None),
    3: ("MetadataResponse", None),
    10: ("FindCoordinatorResponse", None),
    60: ("DescribeClusterResponse", None),
    # kafka-python lacks these; their definitions are files beside this module.
    78: ("ShareFetchResponse", __package__),
    79: ("ShareAcknowledgeResponse", __package__),
}
"""Name of the response's definition and the package that has it (None: kafka-python), by api key."""

_SIZES = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip
_NODE = ("NodeId", "BrokerId")
_CORRELATION_BYTES = 4


class Address(NamedTuple):
    """Host and port at which clients reach a broker."""

    host: str
    port: int


Move = Callable[[int, Address], Address | None]
"""Function of (node id, address in the response) that returns the address to substitute, or None to keep it."""

_Edit = tuple[int, int, bytes]
"""Replacement of bytes: (first byte, byte after the last, new bytes)."""
_Walk = Callable[[Buffer, int, Move, list[_Edit]], int]
"""Function that skips a field and returns the position after it; it appends edits in order."""


def has_endpoints(api_key: int, version: int) -> bool:
    """Return whether responses of this type and version may hold addresses of brokers."""
    return api_key in _RESPONSES and _definition(api_key, version).walk is not None


def rewritten(api_key: int, version: int, answer: Buffer, move: Move) -> Sequence[Buffer]:
    """Return the response, without its size prefix, with its addresses rewritten, in pieces that are mostly views.

    Raises MessageMalformed if it is not a response of that type and version.
    """
    flexible, walk = _definition(api_key, version)
    if walk is None:
        return [answer]
    edits: list[_Edit] = []
    try:
        start = past_tagged_fields(answer, _CORRELATION_BYTES) if flexible else _CORRELATION_BYTES
        end = walk(answer, start, move, edits)
    except (IndexError, struct.error):
        raise MessageMalformed("the message ends within a field") from None
    if end > len(answer):
        raise MessageMalformed("the message ends within a field")
    return _edited(answer, edits)


def _edited(answer: Buffer, edits: list[_Edit]) -> Sequence[Buffer]:
    if not edits:
        return [answer]
    view, pieces, done = memoryview(answer), list[Buffer](), 0
    for start, end, instead in edits:
        pieces += [view[done:start], instead]
        done = end
    return [*pieces, view[done:]]


class _Definition(NamedTuple):
    flexible: bool
    walk: _Walk | None
    """Walk over the fields up to the last one with addresses; None if there are none."""


@cache
def _definition(api_key: int, version: int) -> _Definition:
    name, package = _RESPONSES[api_key]
    described = load_json(name, package)
    flexible = _within(described["flexibleVersions"], version)
    fields = _Fields(version, flexible)
    return _Definition(flexible, fields.walk(described["fields"], until_last_endpoint=True))


def _within(versions: str, version: int) -> bool:
    """Return whether a definition's range, such as "3+", "0-2", "7" or "none", includes the version."""
    if versions == "none":
        return False
    first, dash, last = versions.removesuffix("+").partition("-")
    if version < int(first):
        return False
    return versions.endswith("+") or version <= int(last if dash else first)


class _Fields:
    """Builder of walks over the fields of one version of a definition."""

    def __init__(self, version: int, flexible: bool) -> None:
        self._version, self._flexible = version, flexible

    def walk(self, fields: list[dict[str, Any]], until_last_endpoint: bool = False) -> _Walk | None:
        """Build a walk over a structure.

        With `until_last_endpoint`, the walk ends with the last address, and is None if there is no address.
        """
        mine = [field for field in fields if _within(field["versions"], self._version)]
        tagged = {field["tag"]: field for field in mine if self._is_tagged(field)}
        mine = [field for field in mine if not self._is_tagged(field)]
        tags = self._tags(tagged) if self._flexible else None
        if until_last_endpoint and not any(map(self._has_endpoints, tagged.values())):
            tags = None
            while mine and not self._has_endpoints(mine[-1]) and not self._is_endpoint(mine):
                mine.pop()
            if not mine:
                return None
        if self._is_endpoint(mine):
            return _sequence([self._endpoint(mine), *([tags] if tags else [])])
        return _sequence(
            [*_joined([self._value(field, field["type"]) for field in mine]), *([tags] if tags else [])]
        )

    def _is_tagged(self, field: dict[str, Any]) -> bool:
        return "tag" in field and _within(field.get("taggedVersions", "none"), self._version)

    def _has_endpoints(self, field: dict[str, Any]) -> bool:
        inner = [each for each in field.get("fields", ()) if _within(each["versions"], self._version)]
        return self._is_endpoint(inner) or any(map(self._has_endpoints, inner))

    @staticmethod
    def _is_endpoint(fields: Sequence[dict[str, Any]]) -> bool:
        return {"Host", "Port"} <= {field["name"] for field in fields}

    def _value(self, field: dict[str, Any], kind: str) -> _Walk | int:
        """Return a walk over a value, or its size if that is fixed."""
        if kind.startswith("[]"):
            return _array(self._value(field, kind[2:]), self._flexible)
        if kind in _SIZES:
            return _SIZES[kind]
        if kind == "string":
            return _measured(length_of_string, self._flexible)
        if kind in ("bytes", "records"):
            return _measured(length_of_bytes, self._flexible)
        walk = self.walk(field["fields"])
        assert walk is not None
        return walk

    def _tags(self, tagged: Mapping[int, dict[str, Any]]) -> _Walk:
        moving = {
            tag: self._value(field, field["type"]) for tag, field in tagged.items() if self._has_endpoints(field)
        }
        inner = {tag: walk for tag, walk in moving.items() if not isinstance(walk, int)}
        if not inner:
            return lambda data, at, move, edits: past_tagged_fields(data, at)

        def walk(data: Buffer, at: int, move: Move, edits: list[_Edit]) -> int:
            count, at = unsigned_varint(data, at)
            for _ in range(count):
                tag, at = unsigned_varint(data, at)
                size, start = unsigned_varint(data, at)
                if tag in inner:
                    before = len(edits)
                    if inner[tag](data, start, move, edits) != start + size:
                        raise MessageMalformed(f"the tagged field at byte {start} is not as long as it declares")
                    grown = sum(len(instead) - (end - first) for first, end, instead in edits[before:])
                    edits.insert(before, (at, start, as_unsigned_varint(size + grown)))
                at = start + size
            return at

        return walk

    def _endpoint(self, fields: list[dict[str, Any]]) -> _Walk:
        """Build a walk over a structure with a node's id and address."""
        values = [(field["name"], self._value(field, field["type"])) for field in fields]
        flexible = self._flexible

        def walk(data: Buffer, at: int, move: Move, edits: list[_Edit]) -> int:
            node, host, host_at, port_at = -1, b"", (0, 0), 0
            for name, value in values:
                if name in _NODE:
                    node = int32(data, at)
                elif name == "Host":
                    found, end = string(data, at, flexible)
                    host, host_at = found or b"", (at, end)
                elif name == "Port":
                    port_at = at
                at = at + value if isinstance(value, int) else value(data, at, move, edits)
            there = move(node, Address(host.decode(errors="replace"), int32(data, port_at)))
            if there is not None:
                edits.append((*host_at, as_string(there.host.encode(), flexible)))
                edits.append((port_at, port_at + INT32.size, INT32.pack(there.port)))
            return at

        return walk


def _joined(values: list[_Walk | int]) -> list[_Walk]:
    """Return walks for the values; consecutive values of fixed sizes are skipped at once."""
    walks: list[_Walk] = []
    size = 0
    for value in [*values, None]:
        if isinstance(value, int):
            size += value
            continue
        if size:
            walks.append(_fixed(size))
            size = 0
        if value is not None:
            walks.append(value)
    return walks


def _fixed(size: int) -> _Walk:
    return lambda data, at, move, edits: at + size


def _sequence(walks: list[_Walk]) -> _Walk:
    if len(walks) == 1:
        return walks[0]

    def walk(data: Buffer, at: int, move: Move, edits: list[_Edit]) -> int:
        for each in walks:
            at = each(data, at, move, edits)
        return at

    return walk


def _measured(length_of: Callable[[Buffer, int, bool], tuple[int, int]], compact: bool) -> _Walk:
    def walk(data: Buffer, at: int, move: Move, edits: list[_Edit]) -> int:
        length, start = length_of(data, at, compact)
        return start + max(0, length)

    return walk


def _array(value: _Walk | int, compact: bool) -> _Walk:
    def walk(data: Buffer, at: int, move: Move, edits: list[_Edit]) -> int:
        count, at = length_of_bytes(data, at, compact)
        if isinstance(value, int):
            return at + value * max(0, count)
        for _ in range(count):
            if at >= len(data):
                raise MessageMalformed(f"an array of {count} elements goes beyond the message's end")
            at = value(data, at, move, edits)
        return at

    return walk
