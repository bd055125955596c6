"""One client's connection and the connection to a broker that it is carried on.

Requests go on as they came, in their order; what a broker answers comes back in the same order. Answers that tell
addresses of brokers, or versions, are changed on their way; all others are opaque. One client's garbage ends that
client's connection, and no other.

    client --frames--> Client --pieces--> broker
    client <--pieces-- Broker <--frames-- broker
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import structlog

from backend.domain.zone_map import Zones
from backend.kafka.wire import api_versions, endpoints
from backend.kafka.wire.apis import Api, is_passed_on
from backend.kafka.wire.encoding import Buffer, MessageMalformed
from backend.kafka.wire.endpoints import Address
from backend.kafka.wire.requests import Request, is_answered, read_request, with_fetch_bounded
from workers.zone_router.directory import Directory
from workers.zone_router.frames import Frame, FrameRefused, Frames
from workers.zone_router.traffic import UNKNOWN, Traffic

MOST_REQUEST_BYTES = 100 * 1024 * 1024
"""Kafka's own socket.request.max.bytes."""
_MOST_ANSWER_BYTES = 2**31 - 1
FETCH_BYTES = 8 * 1024 * 1024
"""Of an answer to Fetch, but for one batch that is larger: answers are held whole on their way."""
_BUFFERED_BYTES = 1024 * 1024
"""Written and not yet taken by the other end, beyond which reading stops."""
_CONNECT_SECONDS = 5.0
_HEADER_BYTES = 512
"""A request's header is read from its first piece if that has so many; from the whole otherwise."""
_SIZE = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")

_LOG = structlog.get_logger(__name__)

Rewrite = Callable[[memoryview], Sequence[Buffer]]


@dataclass(frozen=True)
class Place:
    """What a listener is for; broker None to begin with."""

    cluster: str
    broker: int | None
    directory: Directory
    zones: Zones
    traffic: Traffic


@dataclass(slots=True)
class _Awaited:
    """An answer that a client is owed."""

    request: Request
    zone: str
    """The client's."""
    rewrite: Rewrite | None = None
    made_here: bytes | None = None
    """The whole of it, where no broker is asked."""


class Client(asyncio.Protocol):
    """The client's end."""

    def __init__(self, place: Place, clients: set[Client]) -> None:
        self._place, self._clients = place, clients
        self._frames = Frames(MOST_REQUEST_BYTES)
        self._awaited: deque[_Awaited] = deque()
        self._transport: asyncio.Transport | None = None
        self._broker: Broker | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._before_connected: list[tuple[int, Sequence[Buffer], int]] = []
        self._zones: dict[bytes | None, str | None] = {}
        self._host = ""
        self.heard_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=_BUFFERED_BYTES)
        peer = transport.get_extra_info("peername")
        self._host = str(peer[0]) if peer else ""
        _keep_alive(transport)
        self._clients.add(self)
        self._place.traffic.connections.labels(self._place.cluster).inc()
        self.heard_at = asyncio.get_running_loop().time()

    def data_received(self, data: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        try:
            for frame in self._frames.feed(data):
                self._asked(frame)
        except (FrameRefused, MessageMalformed) as error:
            self.end("garbage", str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.discard(self)
        self._place.traffic.connections.labels(self._place.cluster).dec()
        if self._connecting:
            self._connecting.cancel()
        if self._broker:
            self._broker.close()

    def pause_writing(self) -> None:
        if self._broker:
            self._broker.pause()

    def resume_writing(self) -> None:
        if self._broker:
            self._broker.resume()

    def pause(self) -> None:
        """Take no more from the client, until `resume`."""
        if self._transport:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()

    @property
    def is_stuck_since(self) -> float | None:
        """When it last sent something, if that was a part of a request whose rest has not come."""
        return self.heard_at if self._frames.is_within else None

    @property
    def awaits(self) -> bool:
        return bool(self._awaited)

    def end(self, why: str, detail: str) -> None:
        """End the connection, since no more can be made of it; counted."""
        place = self._place
        place.traffic.refused(why)
        _LOG.warning(
            "zone_router.ended",
            why=why,
            detail=detail,
            cluster=place.cluster,
            broker=place.broker,
            client=self._host,
        )
        self.close()

    def close(self) -> None:
        """End the connection when what is written was sent."""
        if self._transport:
            self._transport.close()

    def _asked(self, frame: Frame) -> None:
        """One request. Raises MessageMalformed."""
        if self._transport is None or self._transport.is_closing():
            return
        head = frame.message(_HEADER_BYTES)
        request = read_request(head)
        zone = self._zone(request.client_id)
        said = zone or UNKNOWN
        self._place.traffic.went(request.api_key, said, self._place.traffic.zone, frame.size + _SIZE.size)
        if not is_passed_on(request.api_key, request.version):
            if request.api_key != Api.API_VERSIONS:
                raise MessageMalformed(f"request {request.api_key} of version {request.version} is not passed on")
            self._awaited.append(_Awaited(request, said, made_here=api_versions.refused(request.correlation)))
            self._send_what_was_made_here()
            return
        if is_answered(request, head):
            self._awaited.append(_Awaited(request, said, self._rewrite(request, zone)))
        pieces: Sequence[Buffer] = frame.pieces
        if request.api_key == Api.FETCH:
            pieces = [_SIZE.pack(frame.size), *with_fetch_bounded(request, frame.message(), FETCH_BYTES)]
        self._send(request.api_key, pieces, frame.size + _SIZE.size)

    def _zone(self, client_id: bytes | None) -> str | None:
        if client_id not in self._zones:
            if len(self._zones) > 100:  # a client that invents names is not to fill the memory
                self._zones.clear()
            self._zones[client_id] = self._place.zones.of_client(client_id, self._host)
        return self._zones[client_id]

    def _rewrite(self, request: Request, zone: str | None) -> Rewrite | None:
        api_key, version = request.api_key, request.version
        if api_key == Api.API_VERSIONS:
            return lambda answer: api_versions.capped(version, answer)
        if not endpoints.has_endpoints(api_key, version):
            return None
        if zone is None:
            self._place.traffic.zoneless()
            return None
        at_home = zone
        return lambda answer: endpoints.moved(
            api_key, version, answer, lambda broker, address: self._move(api_key, at_home, broker, address)
        )

    def _move(self, api_key: int, zone: str, broker: int, address: Address) -> Address | None:
        if broker < 0 or not address.host:  # there is none, as where a coordinator is not known
            return None
        self._place.directory.learn(broker, address)
        told = self._place.directory.told(zone, broker)
        if told is None:
            self._place.traffic.unmapped(self._place.cluster)
        else:
            self._place.traffic.told(api_key)
        return told

    def _send(self, api_key: int, pieces: Sequence[Buffer], size: int) -> None:
        if self._broker:
            self._broker.send(pieces)
            self._place.traffic.went(api_key, self._place.traffic.zone, self._broker.zone, size)
            return
        self._before_connected.append((api_key, pieces, size))
        if self._connecting is None:
            # Not before a request is there: who only knocks does not trouble the broker.
            self.pause()
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        place, loop = self._place, asyncio.get_running_loop()
        failures = []
        for address in place.directory.ways(place.broker, place.traffic.zone):
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    _, broker = await loop.create_connection(lambda: Broker(self), *address)
            except (OSError, TimeoutError) as error:
                failures.append(f"{address.host}:{address.port}: {error or 'no answer'}")
                continue
            broker.zone = place.directory.zone_at(address) or UNKNOWN
            self._broker = broker
            waiting, self._before_connected = self._before_connected, []
            for request in waiting:
                self._send(*request)
            self.resume()
            return
        self.end("broker-away", "; ".join(failures) or "the cluster has not told of this broker")

    def answered(self, frame: Frame) -> None:
        """A broker's answer. Raises MessageMalformed if it is none to what was asked."""
        if not self._awaited:
            raise MessageMalformed("an answer that nobody asked for")
        awaited = self._awaited.popleft()
        message = frame.message(_HEADER_BYTES)
        if len(message) < _CORRELATION.size or _CORRELATION.unpack_from(message)[0] != awaited.request.correlation:
            raise MessageMalformed(f"an answer that is none to request {awaited.request.api_key}")
        pieces: Sequence[Any] = frame.pieces
        size = frame.size + _SIZE.size
        if awaited.rewrite:
            pieces = awaited.rewrite(frame.message())
            changed = sum(map(len, pieces))
            pieces = [_SIZE.pack(changed), *pieces]
            size = changed + _SIZE.size
        traffic, broker_zone = self._place.traffic, self._broker.zone if self._broker else UNKNOWN
        traffic.went(awaited.request.api_key, broker_zone, traffic.zone, frame.size + _SIZE.size)
        traffic.went(awaited.request.api_key, traffic.zone, awaited.zone, size)
        if self._transport and not self._transport.is_closing():
            self._transport.writelines(pieces)
        self._send_what_was_made_here()

    def _send_what_was_made_here(self) -> None:
        """Answers of our own, as far as no broker's answer is to go before them."""
        while self._awaited and (answer := self._awaited[0].made_here) is not None:
            self._awaited.popleft()
            if self._transport:
                self._transport.writelines([_SIZE.pack(len(answer)), answer])


class Broker(asyncio.Protocol):
    """The broker's end."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._frames = Frames(_MOST_ANSWER_BYTES)
        self._transport: asyncio.Transport | None = None
        self.zone = UNKNOWN

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=_BUFFERED_BYTES)
        _keep_alive(transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._client.answered(frame)
        except (FrameRefused, MessageMalformed) as error:
            self._client.end("broker-garbage", str(error))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()

    def pause_writing(self) -> None:
        self._client.pause()

    def resume_writing(self) -> None:
        self._client.resume()

    def send(self, pieces: Sequence[Any]) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.writelines(pieces)

    def pause(self) -> None:
        if self._transport:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport:
            self._transport.close()


def _keep_alive(transport: asyncio.Transport) -> None:
    """An end that is gone without a word is found out after a minute and a half."""
    connection = transport.get_extra_info("socket")
    if connection is None:
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
