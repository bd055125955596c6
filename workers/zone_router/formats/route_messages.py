"""Messages between proxies and mains; the data itself goes through object storage.

Framed as in Kafka: four bytes of size, then a byte for the kind and its fields. Source: the zone router's
document, ZoneRouteRequest.

    proxy -> main   Hello (once), Route (a part of a bulk is stored), Close (a client has disconnected),
                    Poll (wait for changes)
    main -> proxy   Answer (the broker's response to one entry), Refused (a whole Route, its epoch is
                    fenced), Broken (a stream cannot continue), Done (all of a Route is answered),
                    Snapshot (what has changed)
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
    """The bytes are not one of these messages."""


class Hello(NamedTuple):
    """First message: the proxy's node id, and the broker that it addresses."""

    version: int
    node: int
    broker: int
    cluster: str


class Route(NamedTuple):
    """Instruction to read a part of a bulk and forward its requests to the broker."""

    request: int
    at: ChannelOffset


class Close(NamedTuple):
    """Notice that the client of this stream has disconnected."""

    stream: int


class Answer(NamedTuple):
    """The broker's response to an entry."""

    place: Place
    message: Buffer


class Refused(NamedTuple):
    """Refusal of a whole Route; epochs up to `fenced` are over."""

    request: int
    fenced: int


class Broken(NamedTuple):
    """Notice that this stream failed at the broker or the storage."""

    stream: int
    why: str


class Done(NamedTuple):
    """Notice that every entry of this Route was answered or given up."""

    request: int


class Poll(NamedTuple):
    """Request for a Snapshot as soon as something has changed since the last one."""


class State(NamedTuple):
    """State of a partition that the main's broker leads."""

    partition: Partition
    topic: str
    """Name of the topic; empty if it was sent on this connection before."""
    leader_epoch: int
    log_start: int
    end: int
    """Offset up to which the WAL or blocks have the partition."""
    high_watermark: int
    last_stable: int


class Snapshot(NamedTuple):
    """Progress of a main, partitions whose state changed, and partitions that its broker no longer leads."""

    wal_first: int
    """First object of the WAL that is not in blocks."""
    wal_end: int
    first_block: int
    end_block: int
    states: Sequence[State]
    left: Sequence[Partition]


Message = Hello | Route | Close | Answer | Refused | Broken | Done | Poll | Snapshot


def encoded(message: Message) -> Sequence[Buffer]:
    """Encode a message as pieces, starting with the size."""
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
    """Decode a message without its size. Raises RouteMessageMalformed."""
    try:
        return _read(data)
    except (struct.error, IndexError, BulkMalformed, UnicodeDecodeError) as error:
        raise RouteMessageMalformed(f"{len(data)} bytes are not a message of the router: {error}") from None


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
    raise RouteMessageMalformed(f"unknown message kind {kind}")


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
