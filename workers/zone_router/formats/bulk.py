"""Format of bulks, the objects of the router channel: requests of many clients, grouped by main.

An object is a head (4 magic bytes, the node's id, the sequence, and its process's number), then entries. An entry
is its place (stream, turn, number), a length, and a request as the client sent it. Source: the zone router's
document, "Write"; its RouterChannel#get(channelOffset).

A **stream** carries the requests of one client to one main. Its entries are numbered from 0, and a main accepts
each only after the previous one, whatever happened to bulks and requests on their way. When entries have to be
rewritten, a new **turn** of the stream begins, with numbers from 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from backend.kafka.wire.encoding import Buffer

Main = tuple[str, int]
"""A broker, as cluster and broker id."""

MAGIC = b"TRC\1"
_HEAD = struct.Struct(">4sIQQ")
_ENTRY = struct.Struct(">QIII")
_OFFSET = struct.Struct(">BIQQII")
_VERSION = 1


class BulkMalformed(ValueError):
    """The bytes are not entries of a bulk, or not a channel offset."""


class ChannelOffset(NamedTuple):
    """Position in a node's channel, valid for all nodes."""

    node: int
    epoch: int
    sequence: int
    start: int
    length: int

    @property
    def name(self) -> str:
        """Return the name of the object."""
        return object_name(self.node, self.sequence)

    def encoded(self) -> bytes:
        return _OFFSET.pack(_VERSION, *self)


def decoded(data: Buffer) -> ChannelOffset:
    """Decode a channel offset. Raises BulkMalformed."""
    if len(data) != _OFFSET.size:
        raise BulkMalformed(f"{len(data)} bytes are not a channel offset, which has {_OFFSET.size}")
    version, *fields = _OFFSET.unpack(data)
    if version != _VERSION:
        raise BulkMalformed(f"a channel offset has version {version}; only {_VERSION} is supported")
    return ChannelOffset(*fields)


def object_name(node: int, sequence: int) -> str:
    """Return the name of an object. Names sort in the order of writing.

    They do not contain the epoch: two processes that claim to be the same node must arrive at the same name,
    whatever epochs they know.
    """
    return f"{node_prefix(node)}{sequence:020d}"


def is_object_name(name: str) -> bool:
    """Return whether a name is one of ours; folders may hold other files."""
    return name.rpartition("/")[2].isdecimal()


def sequence_of(name: str) -> int:
    return int(name.rpartition("/")[2])


def node_prefix(node: int) -> str:
    return f"channel/{node:010d}/"


def process_name(node: int, number: int) -> str:
    """Return the name of the object that registers the number-th process of this node."""
    return f"{process_prefix(node)}{number:020d}"


def process_prefix(node: int) -> str:
    return f"processes/{node:010d}/"


class Place(NamedTuple):
    """Position of an entry in its stream."""

    stream: int
    turn: int
    number: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A request for a main."""

    main: Main
    place: Place
    pieces: Sequence[Buffer]
    """Pieces of the message, without its size prefix."""
    size: int

    @property
    def stored_bytes(self) -> int:
        return _ENTRY.size + self.size


class ReadEntry(NamedTuple):
    """An entry that was read from a bulk."""

    place: Place
    message: memoryview
    start: int
    """Position of its first byte in the part that was read."""


class Head(NamedTuple):
    """Head of an object, which identifies its writer.

    `process` is the number of the process among all of this node, followed by 32 random bits; in objects that
    register a number, the random bits alone.
    """

    node: int
    sequence: int
    process: int


HEAD_BYTES = _HEAD.size


def read_head(data: Buffer) -> Head:
    """Decode a head. Raises BulkMalformed."""
    if len(data) < _HEAD.size:
        raise BulkMalformed(f"{len(data)} bytes are too few for a bulk")
    magic, *fields = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise BulkMalformed(f"not a bulk: it begins with {magic!r}")
    return Head(*fields)


class Bulk(NamedTuple):
    """An object's bytes, and the part for each main as (first byte, size)."""

    data: bytes
    parts: dict[Main, tuple[int, int]]


def written(head: Head, entries: Sequence[Entry]) -> Bulk:
    """Encode a bulk. Entries of one main are adjacent, in the order of arrival."""
    pieces: list[Buffer] = [_HEAD.pack(MAGIC, *head)]
    parts: dict[Main, tuple[int, int]] = {}
    at = _HEAD.size
    for main in dict.fromkeys(entry.main for entry in entries):
        start = at
        for entry in entries:
            if entry.main == main:
                pieces += [_ENTRY.pack(*entry.place, entry.size), *entry.pieces]
                at += entry.stored_bytes
        parts[main] = (start, at - start)
    return Bulk(b"".join(pieces), parts)


def read(part: memoryview) -> Iterator[ReadEntry]:
    """Yield the entries of one main's part. Raises BulkMalformed."""
    at = 0
    while at < len(part):
        if at + _ENTRY.size > len(part):
            raise BulkMalformed(f"an entry's head at byte {at} goes beyond the part's end")
        *place, size = _ENTRY.unpack_from(part, at)
        at += _ENTRY.size
        if at + size > len(part):
            raise BulkMalformed(f"an entry of {size} bytes at byte {at} goes beyond the part's end")
        yield ReadEntry(Place(*place), part[at : at + size], at)
        at += size
