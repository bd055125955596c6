"""Origins: where a record was first produced, how far a log prefix has come, and what an edge does with a record.

Every copy carries `copy-origin`. Together with the tree it decides an edge's work: the record is copied iff the
edge lies on its origin's route and the target does not have it yet (design, "Routes by origin"). Flags alone
lose and double records when targets change.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from backend.domain import copy_flags

Header = tuple[str, bytes | None]
Vector = dict[int, tuple[int, int]]
"""Per origin's cluster number: (incarnation of its topic, highest offset)."""

_LAYOUT = struct.Struct(">BH8siqI")
_VERSION = 1
HEADER_BYTES = _LAYOUT.size
STREAM_ID_BYTES = 8

_ENTRY = struct.Struct(">HIq")
_COUNT = struct.Struct(">H")
_INCARNATION = struct.Struct(">I")
_METADATA_PREFIX = "treeline:1;"
METADATA_LIMIT = 4096
"""Longest position metadata that a broker accepts by default (`offset.metadata.max.bytes`)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record was first produced: contract, "Kafka", header `copy-origin`."""

    cluster: int
    """Number of the cluster."""
    stream_id: bytes
    partition: int
    offset: int
    incarnation: int


def stream_id(stream: str) -> bytes:
    """First 8 bytes of SHA-256 of the stream's full name."""
    return hashlib.sha256(stream.encode()).digest()[:STREAM_ID_BYTES]


def encode(origin: Origin) -> bytes:
    """Header value, 27 bytes."""
    return _LAYOUT.pack(
        _VERSION, origin.cluster, origin.stream_id, origin.partition, origin.offset, origin.incarnation
    )


def decode(values: Sequence[bytes | None]) -> Origin | None:
    """The origin in all values of the header on one record; None if absent, doubled or unreadable."""
    if len(values) != 1:
        return None
    value = values[0]
    if value is None or len(value) != HEADER_BYTES or value[0] != _VERSION:
        return None
    _, cluster, stream, partition, offset, incarnation = _LAYOUT.unpack(value)
    return Origin(cluster, stream, partition, offset, incarnation)


def merge(vectors: Iterable[Mapping[int, tuple[int, int]]]) -> Vector:
    """The highest of several vectors, origin by origin."""
    highest: Vector = {}
    for vector in vectors:
        for cluster, reached in vector.items():
            if reached > highest.get(cluster, (-1, -1)):
                highest[cluster] = reached
    return highest


class MetadataInvalid(ValueError):
    """Position metadata that Treeline did not write, or that does not fit."""


@dataclass(frozen=True)
class Mark:
    """What an edge's position on a partition stands for; kept in the position's metadata on the target.

    `incarnation` is that of the source's topic, `seen` the source's vector at the position, `passed` what this
    edge has copied.
    """

    incarnation: int
    seen: Vector
    passed: Vector


def encode_metadata(mark: Mark) -> str:
    """Position metadata. Raises MetadataInvalid beyond 4,096 characters (about 105 origins in both vectors)."""
    packed = _INCARNATION.pack(mark.incarnation) + _pack(mark.seen) + _pack(mark.passed)
    text = _METADATA_PREFIX + base64.b64encode(packed).decode()
    if len(text) > METADATA_LIMIT:
        raise MetadataInvalid(
            f"vectors of {len(mark.seen)} and {len(mark.passed)} origins need {len(text)} characters"
        )
    return text


def decode_metadata(text: str | None) -> Mark:
    """The mark of a position. Raises MetadataInvalid if Treeline did not write it."""
    if not text or not text.startswith(_METADATA_PREFIX):
        raise MetadataInvalid(f"position metadata {(text or '')[:40]!r} is not Treeline's")
    try:
        packed = base64.b64decode(text[len(_METADATA_PREFIX) :], validate=True)
        (incarnation,) = _INCARNATION.unpack_from(packed)
        seen, at = _unpack(packed, _INCARNATION.size)
        passed, at = _unpack(packed, at)
    except (binascii.Error, struct.error) as error:
        raise MetadataInvalid(f"position metadata {text[:40]!r} is cut or altered") from error
    if at != len(packed):
        raise MetadataInvalid(f"position metadata {text[:40]!r} is longer than it says")
    return Mark(incarnation, seen, passed)


def _pack(vector: Mapping[int, tuple[int, int]]) -> bytes:
    entries = (_ENTRY.pack(cluster, *reached) for cluster, reached in sorted(vector.items()))
    return _COUNT.pack(len(vector)) + b"".join(entries)


def _unpack(packed: bytes, at: int) -> tuple[Vector, int]:
    (count,) = _COUNT.unpack_from(packed, at)
    at += _COUNT.size
    vector: Vector = {}
    for _ in range(count):
        cluster, incarnation, offset = _ENTRY.unpack_from(packed, at)
        vector[cluster] = (incarnation, offset)
        at += _ENTRY.size
    return vector, at


@dataclass(frozen=True, kw_only=True)
class EdgeRule:
    """What one edge does, the same for all partitions of all streams."""

    source_number: int
    level: int
    route_flags: Mapping[int, int]
    """Origin's cluster number -> flags on the copy, for the origins whose route has this edge."""
    known_origins: frozenset[int]
    """Numbers of all clusters of the tree."""
    flags_header: str = "copy-flags"
    origin_header: str = "copy-origin"
    write_origin: bool = True


class PartitionEdge:
    """One edge's decisions on one partition, in log order; holds the vectors that they need and make.

    `seen` is the source's log prefix, `passed` what this edge copied, `covered` what the target has from all
    edges. After an aborted transaction the object is out of step and must be made anew from the target's
    position.
    """

    __slots__ = (
        "covered", "incarnation", "partition", "passed", "rule", "seen", "stream_id", "unreadable_flags",
    )  # fmt: skip

    def __init__(
        self,
        rule: EdgeRule,
        *,
        stream: bytes,
        partition: int,
        incarnation: int,
        seen: Vector,
        passed: Vector,
        covered: Vector,
    ) -> None:
        self.rule = rule
        self.stream_id = stream
        self.partition = partition
        self.incarnation = incarnation
        self.seen = seen
        self.passed = passed
        self.covered = merge((covered, passed))
        self.unreadable_flags = 0

    def copy(self, offset: int, headers: Sequence[Header] | None) -> list[Header] | None:
        """Headers of the copy, or None if this edge leaves the record alone.

        Other headers keep their order; ours come last, flags then origin.
        """
        rule = self.rule
        others: list[Header] = []
        flag_values: list[bytes | None] = []
        origin_values: list[bytes | None] = []
        for header in headers or ():
            if header[0] == rule.flags_header:
                flag_values.append(header[1])
            elif header[0] == rule.origin_header:
                origin_values.append(header[1])
            else:
                others.append(header)
        flags, readable = copy_flags.decode(flag_values)
        self.unreadable_flags += not readable
        if not rule.write_origin:
            if copy_flags.skips(flags, rule.level):
                return None
            others.append((rule.flags_header, copy_flags.encode(flags | copy_flags.flag(rule.level))))
            return others
        origin = self._origin(offset, flags, origin_values)
        new_flags = self._flags_on_route(origin, flags)
        if new_flags is None:
            return None
        others.append((rule.flags_header, copy_flags.encode(new_flags)))
        if origin is not None:
            others.append((rule.origin_header, encode(origin)))
        return others

    def _origin(self, offset: int, flags: int, values: Sequence[bytes | None]) -> Origin | None:
        """Where the record was born; None if only its flags can tell that it is a copy.

        Stream processors pass headers on: a record is born here, whatever its headers say, if its origin names
        another stream or partition, or this cluster, or an offset not above the highest seen of that origin.
        """
        found = decode(values)
        if found is None and flags:
            return None
        if (
            found is not None
            and found.stream_id == self.stream_id
            and found.partition == self.partition
            and found.cluster != self.rule.source_number
            and (found.incarnation, found.offset) > self.seen.get(found.cluster, (-1, -1))
        ):
            self.seen[found.cluster] = (found.incarnation, found.offset)
            return found
        self.seen[self.rule.source_number] = (self.incarnation, offset)
        return Origin(self.rule.source_number, self.stream_id, self.partition, offset, self.incarnation)

    def _flags_on_route(self, origin: Origin | None, flags: int) -> int | None:
        rule = self.rule
        if origin is None or origin.cluster not in rule.known_origins:
            if copy_flags.skips(flags, rule.level):
                return None
            new_flags: int | None = flags | copy_flags.flag(rule.level)
        else:
            new_flags = rule.route_flags.get(origin.cluster)
        if new_flags is None or origin is None:
            return new_flags
        reached = (origin.incarnation, origin.offset)
        if reached <= self.covered.get(origin.cluster, (-1, -1)):
            return None
        self.covered[origin.cluster] = self.passed[origin.cluster] = reached
        return new_flags

    def metadata(self) -> str:
        """Position metadata after the records decided so far."""
        return encode_metadata(Mark(self.incarnation, self.seen, self.passed))
