"""What proxies and mains say to each other, beside the data itself, which goes through object storage.

Kafka's frames: four bytes of size, then a byte for the kind and its fields. Source: the zone router's document,
ZoneRouteRequest.

    proxy -> main   Hello (once), Route (a part of a bulk is there), Close (a client is gone), Poll (tell what has
                    moved, when it has)
    main -> proxy   Answer (the broker's, to one entry), Refused (a whole Route, its epoch is over), Broken (a
                    stream can't go on), Done (all of a Route is answered), Snapshot (what has moved)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from backend.kafka.wire.encoding import Buffer
from workers.zone_router.formats.bulk import BulkMalformed, ChannelOffset, Place, decoded
from workers.zone_router.formats.wal import Partition

VERSION = 1
_SIZE = struct.Struct(">i")
_HELLO, _ROUTE, _CLOSE, _ANSWER, _REFUSED, _BROKEN, _DONE, _POLL, _SNAPSHOT = range(1, 10)
_NUMBERS = struct.Struct(">BHIi")
_REQUEST = struct.Struct(">BQ")
_REFUSAL = struct.Struct(">BQQ")
_PLACE = struct.Struct(">BQII")
_REACHED = struct.Struct(">BQQQQII")
_STATE = struct.Struct(">16siiqqqqH")
_LEFT = struct.Struct(">16si")


class RouteMessageMalformed(ValueError):
    """Bytes that are none of these messages."""


class Hello(NamedTuple):
    """Who speaks, and which broker it means."""

    version: int
    node: int
    broker: int
    cluster: str


class Route(NamedTuple):
    """Read there, and give it to the broker."""

    request: int
    at: ChannelOffset


class Close(NamedTuple):
    """The client of this stream is gone."""

    stream: int


class Answer(NamedTuple):
    """What the broker said to an entry."""

    place: Place
    message: Buffer


class Refused(NamedTuple):
    """Nothing of this Route was done: epochs up to this one are over."""

    request: int
    fenced: int


class Broken(NamedTuple):
    """The broker, or the storage, does not go on with this stream."""

    stream: int
    why: str


class Done(NamedTuple):
    """Every entry of this Route has been answered, or was given up."""

    request: int


class Poll(NamedTuple):
    """Tell what has moved since the last one, as soon as something has."""


class State(NamedTuple):
    """A partition that the main's broker leads."""

    partition: Partition
    topic: str
    """Its name, or nothing if it was told on this connection."""
    leader_epoch: int
    log_start: int
    end: int
    """Up to where readers find it in the WAL or in blocks."""
    high_watermark: int
    last_stable: int


class Snapshot(NamedTuple):
    """How far a main is, and the partitions that have moved, or are not led by its broker any more."""

    wal_first: int
    """Objects of the WAL before this one are in blocks."""
    wal_end: int
    first_block: int
    end_block: int
    states: Sequence[State]
    left: Sequence[Partition]


Message = Hello | Route | Close | Answer | Refused | Broken | Done | Poll | Snapshot


def encoded(message: Message) -> Sequence[Buffer]:
    """As pieces, the size in front."""
    pieces: list[Buffer]
    match message:
        case Hello():
            pieces = [_NUMBERS.pack(_HELLO, *message[:3]), message.cluster.encode()]
        case Route():
            pieces = [_REQUEST.pack(_ROUTE, message.request), message.at.encoded()]
        case Close():
            pieces = [_REQUEST.pack(_CLOSE, message.stream)]
        case Answer():
            pieces = [_PLACE.pack(_ANSWER, *message.place), message.message]
        case Refused():
            pieces = [_REFUSAL.pack(_REFUSED, *message)]
        case Broken():
            pieces = [_REQUEST.pack(_BROKEN, message.stream), message.why.encode()[:500]]
        case Done():
            pieces = [_REQUEST.pack(_DONE, message.request)]
        case Poll():
            pieces = [bytes([_POLL])]
        case Snapshot():
            pieces = _of_snapshot(message)
    return [_SIZE.pack(sum(map(len, pieces))), *pieces]


def _of_snapshot(snapshot: Snapshot) -> list[Buffer]:
    *reached, states, left = snapshot
    pieces: list[Buffer] = [_REACHED.pack(_SNAPSHOT, *reached, len(states), len(left))]
    for (topic_id, index), topic, *rest in states:
        name = topic.encode()
        pieces += [_STATE.pack(topic_id, index, *rest, len(name)), name]
    pieces += [_LEFT.pack(*partition) for partition in left]
    return pieces


def read(data: memoryview) -> Message:
    """A message without its size. Raises RouteMessageMalformed."""
    try:
        return _read(data)
    except (struct.error, IndexError, BulkMalformed, UnicodeDecodeError) as error:
        raise RouteMessageMalformed(f"{len(data)} bytes that are no message of the router: {error}") from None


def _read(data: memoryview) -> Message:
    kind = data[0]
    if kind == _HELLO:
        _, version, node, broker = _NUMBERS.unpack_from(data)
        return Hello(version, node, broker, bytes(data[_NUMBERS.size :]).decode())
    if kind == _ANSWER:
        _, *place = _PLACE.unpack_from(data)
        return Answer(Place(*place), data[_PLACE.size :])
    if kind == _REFUSED:
        _, request, fenced = _REFUSAL.unpack_from(data)
        return Refused(request, fenced)
    if kind == _POLL:
        return Poll()
    if kind == _SNAPSHOT:
        return _snapshot(data)
    _, number = _REQUEST.unpack_from(data)
    rest = data[_REQUEST.size :]
    if kind == _ROUTE:
        return Route(number, decoded(rest))
    if kind == _CLOSE:
        return Close(number)
    if kind == _BROKEN:
        return Broken(number, bytes(rest).decode(errors="replace"))
    if kind == _DONE:
        return Done(number)
    raise RouteMessageMalformed(f"a message of kind {kind} is not known")


def _snapshot(data: memoryview) -> Snapshot:
    _, wal_first, wal_end, first_block, end_block, count, left = _REACHED.unpack_from(data)
    at, states = _REACHED.size, []
    for _ in range(count):
        topic_id, index, epoch, start, end, high, stable, size = _STATE.unpack_from(data, at)
        at += _STATE.size
        name = bytes(data[at : at + size]).decode()
        at += size
        states.append(State(Partition(topic_id, index), name, epoch, start, end, high, stable))
    gone = [Partition(*_LEFT.unpack_from(data, at + n * _LEFT.size)) for n in range(left)]
    return Snapshot(wal_first, wal_end, first_block, end_block, states, gone)
