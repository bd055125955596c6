"""Bulks of the router channel: requests of many clients in one object, those for one main together.

An object is a head (4 bytes that say what it is, the node's id, the sequence, and its process's number), then
entries. An entry is its place (which stream, in which turn, at which number), a length, and so many bytes of a
request as the client sent it. Source: the zone router's document, "Write"; its RouterChannel#get(channelOffset).

A **stream** is what one client asks one main. Its entries have numbers from 0; a main takes each only after the
one before, whatever became of bulks and requests on their way. Where some have to be written again, a new **turn**
of the stream begins, with numbers from 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from backend.kafka.wire.encoding import Buffer

Main = tuple[str, int]
"""A broker: its cluster and its id."""

MAGIC = b"TRC\1"
_HEAD = struct.Struct(">4sIQQ")
_ENTRY = struct.Struct(">QIII")
_OFFSET = struct.Struct(">BIQQII")
_VERSION = 1


class BulkMalformed(ValueError):
    """Bytes that are no entries of a bulk, or no channel offset."""


class ChannelOffset(NamedTuple):
    """Where something stands in a node's channel; any other node finds it there."""

    node: int
    epoch: int
    sequence: int
    start: int
    length: int

    @property
    def name(self) -> str:
        """Of the object."""
        return object_name(self.node, self.sequence)

    def encoded(self) -> bytes:
        return _OFFSET.pack(_VERSION, *self)


def decoded(data: Buffer) -> ChannelOffset:
    """Raises BulkMalformed."""
    if len(data) != _OFFSET.size:
        raise BulkMalformed(f"{len(data)} bytes are no channel offset, which has {_OFFSET.size}")
    version, *fields = _OFFSET.unpack(data)
    if version != _VERSION:
        raise BulkMalformed(f"a channel offset of version {version}; {_VERSION} is known")
    return ChannelOffset(*fields)


def object_name(node: int, sequence: int) -> str:
    """Names in their order are in the order of writing. The epoch is not in them: two processes that call
    themselves the same node have to come to the same name, whatever epochs they know of.
    """
    return f"{node_prefix(node)}{sequence:020d}"


def is_object_name(name: str) -> bool:
    """Whether it is one of ours: folders have other files, too."""
    return name.rpartition("/")[2].isdecimal()


def sequence_of(name: str) -> int:
    return int(name.rpartition("/")[2])


def node_prefix(node: int) -> str:
    return f"channel/{node:010d}/"


def process_name(node: int, number: int) -> str:
    """Of the object that says that a process came as this node, the number-th that did."""
    return f"{process_prefix(node)}{number:020d}"


def process_prefix(node: int) -> str:
    return f"processes/{node:010d}/"


class Place(NamedTuple):
    """Of an entry in its stream."""

    stream: int
    turn: int
    number: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A request on its way."""

    main: Main
    place: Place
    pieces: Sequence[Buffer]
    """Of the message, without its size."""
    size: int

    @property
    def stored_bytes(self) -> int:
        return _ENTRY.size + self.size


class Given(NamedTuple):
    """An entry as it is read."""

    place: Place
    message: memoryview
    start: int
    """Its first byte in the part that it was read from."""


class Head(NamedTuple):
    """Of an object: whose it is. `process`: of all that have called themselves this node, the how manieth, and 32
    bits by chance behind it; where such a number is drawn, these alone.
    """

    node: int
    sequence: int
    process: int


HEAD_BYTES = _HEAD.size


def read_head(data: Buffer) -> Head:
    """Raises BulkMalformed."""
    if len(data) < _HEAD.size:
        raise BulkMalformed(f"{len(data)} bytes are no bulk")
    magic, *fields = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise BulkMalformed(f"no bulk: it begins with {magic!r}")
    return Head(*fields)


class Bulk(NamedTuple):
    """An object's bytes, and the part of it that is for each main: (first byte, bytes)."""

    data: bytes
    parts: dict[Main, tuple[int, int]]


def written(head: Head, entries: Sequence[Entry]) -> Bulk:
    """Entries of one main stand together, in the order in which they came."""
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


def read(part: memoryview) -> Iterator[Given]:
    """The entries of one main. Raises BulkMalformed."""
    at = 0
    while at < len(part):
        if at + _ENTRY.size > len(part):
            raise BulkMalformed(f"an entry's head at byte {at} goes beyond the part's end")
        *place, size = _ENTRY.unpack_from(part, at)
        at += _ENTRY.size
        if at + size > len(part):
            raise BulkMalformed(f"an entry of {size} bytes at byte {at} goes beyond the part's end")
        yield Given(Place(*place), part[at : at + size], at)
        at += size
