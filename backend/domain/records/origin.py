"""Origins: where a record was first produced, and how far a log prefix has come for each origin.

Every copy carries `copy-origin`. Together with the tree it determines what an edge copies (`partition_edge.py`).
Vectors are stored with the positions of distributors (`marks.py`).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Vector = dict[int, tuple[int, int]]
"""Origin vector: origin's cluster number -> (incarnation of its topic, highest offset)."""

_LAYOUT = struct.Struct(">BH8siqI")
_VERSION = 1
HEADER_BYTES = _LAYOUT.size
STREAM_ID_BYTES = 8


@dataclass(frozen=True, slots=True)
class Origin:
    """The place where a record was first produced (header `copy-origin` in docs/distribution.md)."""

    cluster: int
    """Number of the cluster."""
    stream_id: bytes
    partition: int
    offset: int
    incarnation: int


def stream_id(stream: str) -> bytes:
    """Return the first 8 bytes of SHA-256 of the stream's full name."""
    return hashlib.sha256(stream.encode()).digest()[:STREAM_ID_BYTES]


def encode(origin: Origin) -> bytes:
    """Encode the header value, 27 bytes."""
    return _LAYOUT.pack(
        _VERSION, origin.cluster, origin.stream_id, origin.partition, origin.offset, origin.incarnation
    )


def decode(values: Sequence[bytes | None]) -> Origin | None:
    """Decode the origin from all values of the header on one record; None if absent, duplicated or unreadable."""
    if len(values) != 1:
        return None
    value = values[0]
    if value is None or len(value) != HEADER_BYTES or value[0] != _VERSION:
        return None
    _, cluster, stream, partition, offset, incarnation = _LAYOUT.unpack(value)
    if offset < 0:
        return None  # no log has such an offset
    return Origin(cluster, stream, partition, offset, incarnation)


def plain(vector: Vector) -> dict[str, list[int]]:
    """Return a vector in its JSON form."""
    return {str(number): list(reached) for number, reached in vector.items()}


def from_plain(found: Mapping[str, Sequence[int]]) -> Vector:
    """Return the vector of a JSON form made by `plain`."""
    return {int(number): (incarnation, offset) for number, (incarnation, offset) in found.items()}


def merge(vectors: Iterable[Mapping[int, tuple[int, int]]]) -> Vector:
    """Return the maximum of several vectors, origin by origin."""
    highest: Vector = {}
    for vector in vectors:
        for cluster, reached in vector.items():
            if reached > highest.get(cluster, (-1, -1)):
                highest[cluster] = reached
    return highest


def covers(
    vector: Mapping[int, tuple[int, int]], other: Mapping[int, tuple[int, int]], origins: Iterable[int]
) -> bool:
    """Return whether `vector` is at least as far as `other` for each of these origins."""
    nothing = (-1, -1)
    return all(vector.get(each, nothing) >= other.get(each, nothing) for each in origins)
