"""Position marks: what a distributor's position on a partition stands for, stored in the offset metadata.

A mark is written in the transaction of the records that it covers (decision 3). A broker accepts
4,096 characters; the entries are variable-length integers so that some 250 origins fit.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass

from backend.domain.records.origin import Vector

METADATA_LIMIT = 4096
"""Maximum length of offset metadata that a broker accepts by default (`offset.metadata.max.bytes`)."""

_PREFIX = "treeline:2;"
_OLD_PREFIX = "treeline:1;"
_OLD_ENTRY = struct.Struct(">HIq")
_OLD_COUNT = struct.Struct(">H")
_OLD_INCARNATION = struct.Struct(">I")
_LONGEST_INTEGER = 10


class MetadataInvalid(ValueError):
    """Offset metadata that Treeline did not write, or that is too long."""


@dataclass(frozen=True)
class Mark:
    """The knowledge that a position stands for.

    `incarnation` is that of the source topic at the position and `target_incarnation` that of the target topic, 0
    if unknown; `seen` is the source's vector at the position, `covered` what the target has from all edges, as far
    as this edge knew.
    """

    incarnation: int
    target_incarnation: int
    seen: Vector
    covered: Vector


@dataclass(frozen=True)
class Position:
    """A task's position on one partition: the next offset to read on the source, and its mark."""

    offset: int
    mark: Mark
    leader_epoch: int | None = None
    """Leader epoch under which the preceding record was written on the source."""


def encode_metadata(mark: Mark) -> str:
    """Encode a mark as offset metadata. Raises MetadataInvalid beyond 4,096 characters."""
    packed = bytearray()
    for number in (mark.incarnation, mark.target_incarnation):
        _append(packed, number)
    for vector in (mark.seen, mark.covered):
        _append(packed, len(vector))
        before = 0
        for cluster, (incarnation, offset) in sorted(vector.items()):
            _append(packed, cluster - before)
            _append(packed, incarnation)
            _append(packed, offset)
            before = cluster
    text = _PREFIX + base64.b64encode(packed).decode()
    if len(text) > METADATA_LIMIT:
        raise MetadataInvalid(
            f"vectors of {len(mark.seen)} and {len(mark.covered)} origins need {len(text)} characters, and Kafka "
            f"keeps {METADATA_LIMIT} with a position; a partition can hold records of about 250 clusters"
        )
    return text


def decode_metadata(text: str | None) -> Mark:
    """Decode the mark of a position. Raises MetadataInvalid if Treeline did not write it."""
    if text is None or not text.startswith((_PREFIX, _OLD_PREFIX)):
        raise MetadataInvalid(f"position metadata {(text or '')[:40]!r} is not Treeline's")
    try:
        packed = base64.b64decode(text[len(_PREFIX) :], validate=True)
        mark, at = _unpack_old(packed) if text.startswith(_OLD_PREFIX) else _unpack(packed)
    except (binascii.Error, struct.error, IndexError) as error:
        raise MetadataInvalid(f"position metadata {text[:40]!r} is cut or altered") from error
    if at != len(packed):
        raise MetadataInvalid(f"position metadata {text[:40]!r} is longer than it says")
    return mark


def _append(packed: bytearray, number: int) -> None:
    """Append a number in little-endian base 128; the high bit means that more bytes follow."""
    while number > 0x7F:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)


def _integer(packed: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = packed[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift >= 7 * _LONGEST_INTEGER:
            raise IndexError("an integer that never ends")


def _unpack(packed: bytes) -> tuple[Mark, int]:
    incarnation, at = _integer(packed, 0)
    target_incarnation, at = _integer(packed, at)
    vectors: list[Vector] = []
    for _ in range(2):
        count, at = _integer(packed, at)
        vector: Vector = {}
        cluster = 0
        for _ in range(count):
            step, at = _integer(packed, at)
            cluster += step
            its_incarnation, at = _integer(packed, at)
            offset, at = _integer(packed, at)
            vector[cluster] = (its_incarnation, offset)
        vectors.append(vector)
    return Mark(incarnation, target_incarnation, *vectors), at


def _unpack_old(packed: bytes) -> tuple[Mark, int]:
    """Unpack version 1, which lacks the target's incarnation; its `passed` vector is part of what is covered."""
    (incarnation,) = _OLD_INCARNATION.unpack_from(packed)
    at = _OLD_INCARNATION.size
    vectors: list[Vector] = []
    for _ in range(2):
        (count,) = _OLD_COUNT.unpack_from(packed, at)
        at += _OLD_COUNT.size
        vector: Vector = {}
        for _ in range(count):
            cluster, its_incarnation, offset = _OLD_ENTRY.unpack_from(packed, at)
            vector[cluster] = (its_incarnation, offset)
            at += _OLD_ENTRY.size
        vectors.append(vector)
    return Mark(incarnation, 0, *vectors), at
