"""Relay between one client's connection and its connection to a broker.

Requests are forwarded unchanged and in order; the broker's responses return in the same order. Responses with
broker addresses or versions are rewritten; all others are opaque. Produced data may go through the router channel
and the broker's main instead. Malformed data ends only the connection that it came from.

    client --frames--> Client --pieces--> broker, or Stream
    client <--pieces-- Client <--frames-- broker, or Stream
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

from backend.kafka.wire import api_versions
from backend.kafka.wire.apis import PRODUCE_WITH_BATCHES, Api, is_supported
from backend.kafka.wire.encoding import Buffer, MessageMalformed
from backend.kafka.wire.produce import produce_has_failed
from backend.kafka.wire.requests import Request, with_all_acks, with_fetch_bounded
from workers.zone_router.connections import BUFFERED_BYTES, Connection
from workers.zone_router.formats.bulk import Main
from workers.zone_router.frames import Frame, FrameRefused, Frames
from workers.zone_router.proxy.broker_connection import BROKER_FULL, BrokerConnection
from workers.zone_router.proxy.inflight_budget import InflightBudget
from workers.zone_router.proxy.listener_place import ListenerPlace, Rewrite
from workers.zone_router.proxy.pending_response import (
    HEADER_BYTES,
    PendingResponse,
    chained,
    read_frame,
    refusal_reason,
)
from workers.zone_router.proxy.routes import Stream
from workers.zone_router.proxy.zone_reader import ZoneReader
from workers.zone_router.traffic import UNKNOWN

MOST_REQUEST_BYTES = 100 * 1024 * 1024
"""Largest request in bytes, as Kafka's socket.request.max.bytes."""
FETCH_BYTES = 8 * 1024 * 1024
"""Most bytes of a Fetch response, except for a single larger batch, as responses are buffered whole."""
_MOST_AWAITED = 1_000
"""Outstanding responses above which a client is paused."""
_LONGEST_NAME_KEPT = 256
_CONNECT_SECONDS = 5.0
_SIZE = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")

_CONNECTING, _CLIENT_FULL, _OWED_MUCH, _NO_ROOM, _ANSWERS_KEPT, _ENDING = (
    "connecting", "client full", "owed much", "no room", "answers kept", "ending",
)  # fmt: skip
"""Reasons to pause reading from a connection."""

_LOG = structlog.get_logger(__name__)


class Client(Connection):
    """The client's side."""

    def __init__(self, place: ListenerPlace, clients: set[Client], unended: InflightBudget) -> None:
        super().__init__()
        self._place, self._clients, self._inflight = place, clients, unended
        self.frames = Frames(MOST_REQUEST_BYTES)
        self._awaited: deque[PendingResponse] = deque()
        """Outstanding responses, in the order in which the client gets them."""
        self._broker_owes: deque[PendingResponse] = deque()
        """Outstanding responses that the broker owes."""
        self._kept_bytes = 0
        """Bytes of responses that wait for earlier ones."""
        self._is_full = False
        self._broker: BrokerConnection | None = None
        self._stream: Stream | None = None
        self._is_decided = False
        self._by: Main | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_refused = False
        """True once a request arrived that closes the connection after the responses before it."""
        self._is_unacknowledged = False
        """True once a request with acks=0 was sent, where a broker closes the connection on an error."""
        self._before_connected: list[tuple[int, Sequence[Buffer], int]] = []
        self._zones: dict[bytes | None, str | None] = {}
        self._is_reading_decided = False
        self._reading: ZoneReader | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._reads_one = asyncio.Lock()
        """Lock for Fetches: pipelined ones are answered one after the other, as by a broker."""
        self.connected_at = 0.0

    def made(self) -> None:
        self._clients.add(self)
        self._place.traffic.connections.labels(self._place.cluster).inc()
        self.connected_at = asyncio.get_running_loop().time()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self.frames.feed(data, asyncio.get_running_loop().time()):
                self._forward(frame)
            self._inflight.holds(self, self.frames.held_bytes)
        except (FrameRefused, MessageMalformed) as error:
            self.end("garbage", str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.discard(self)
        self._hold_nothing()
        self._place.traffic.connections.labels(self._place.cluster).dec()
        for task in self._background:
            task.cancel()
        # A broker connection in progress still gets the received requests, and is then closed by _connect.
        broker, self._broker = self._broker, None  # breaks the reference cycle
        if broker:
            broker.close()
        self._awaited.clear()
        if self._stream:
            self._stream.close()

    def pause_writing(self) -> None:
        """Pause both directions, as the client does not read its responses."""
        self._is_full = True
        self.pause(_CLIENT_FULL)
        if self._broker:
            self._broker.pause(_CLIENT_FULL)

    def resume_writing(self) -> None:
        self._is_full = False
        self.resume(_CLIENT_FULL)
        if self._broker:
            self._broker.resume(_CLIENT_FULL)

    def resume(self, why: str) -> None:
        super().resume(why)
        if self.is_read_from:
            self.frames.resumed(asyncio.get_running_loop().time())

    @property
    def is_read_from(self) -> bool:
        return self._end is not None and not self._end.is_paused

    @property
    def has_sent_request(self) -> bool:
        """Return whether the client has ever sent a request."""
        return self._connecting is not None or self._stream is not None

    @property
    def awaits(self) -> bool:
        return bool(self._awaited)

    def end(self, why: str, detail: str) -> None:
        """Close the connection for an error, and count it."""
        if self._end is None or not self._end.is_open:
            return
        place = self._place
        place.traffic.refused(why)
        at = {"cluster": place.cluster, "broker": place.broker, "client": self._end.host}
        _LOG.warning("zone_router.ended", why=why, detail=detail, **at)
        self.close()

    def close(self) -> None:
        self._hold_nothing()
        super().close()

    def _hold_nothing(self) -> None:
        """Release the buffers of an incomplete request."""
        self.frames.drop()
        self._inflight.holds(self, 0)

    def broker_gone(self) -> None:
        """Handle a closed broker connection.

        Brokers close idle connections, as this one is while all requests go through a main or are answered in the
        zone.
        """
        if self._broker_owes or self._is_unacknowledged or (self._stream is None and self._reading is None):
            self.close()
        else:
            self._broker = self._connecting = None
            self.resume(BROKER_FULL)

    def drain(self) -> None:
        """Stop reading requests; outstanding ones are still answered."""
        self.pause(_ENDING)

    def _forward(self, frame: Frame) -> None:
        """Forward a request, or answer it. Raises MessageMalformed."""
        if not self.is_open or self._is_refused:
            return
        request, is_owed = read_frame(frame)
        zone = self._zone(request.client_id)
        zone_name = zone or UNKNOWN
        if not is_supported(request.api_key, request.version):
            self._refuse(request, zone_name)
            return
        self._place.traffic.went(request.api_key, zone_name, self._place.traffic.zone, frame.size + _SIZE.size)
        awaited = PendingResponse(request, zone_name, self._place.rewrite(request, zone)) if is_owed else None
        if awaited:
            self._owe(awaited)
        is_produce = request.api_key == Api.PRODUCE
        if is_produce and request.version >= PRODUCE_WITH_BATCHES and (main := self._main()):
            self._produce(main, request, frame, awaited)
            return
        if awaited and request.api_key == Api.FETCH and (reading := self._reads()):
            self._start_task(self._read(reading, request, frame.message(), awaited))
            return
        if awaited:
            self._broker_owes.append(awaited)
        else:
            self._is_unacknowledged = True
        pieces: Sequence[Buffer] = frame.pieces
        if request.api_key in (Api.FETCH, Api.SHARE_FETCH):
            pieces = [_SIZE.pack(frame.size), *with_fetch_bounded(request, frame.message(), FETCH_BYTES)]
        self._send(request.api_key, pieces, frame.size + _SIZE.size)

    def _refuse(self, request: Request, zone: str) -> None:
        """Respond that the version is not supported.

        If no response is possible, stop reading and close the connection after the outstanding responses, as
        brokers do.
        """
        refusal = api_versions.unsupported_version(request)
        if refusal is None:
            self._is_refused = True
            self.pause(_ENDING)
            self._owe(PendingResponse(request, zone, answer=[], is_refused=True))
        else:
            self._owe(PendingResponse(request, zone, answer=[_SIZE.pack(len(refusal)), refusal]))
        self._send_answers()

    def _owe(self, awaited: PendingResponse) -> None:
        self._awaited.append(awaited)
        if len(self._awaited) > _MOST_AWAITED:
            self.pause(_OWED_MUCH)

    def _zone(self, client_id: bytes | None) -> str | None:
        if client_id in self._zones:
            return self._zones[client_id]
        assert self._end is not None
        zone = self._place.zones.of_client(client_id, self._end.host)
        # Bounded, so that a client with ever new names does not exhaust memory.
        if len(self._zones) < 100 and len(client_id or b"") <= _LONGEST_NAME_KEPT:
            self._zones[client_id] = zone
        return zone

    def _send(self, api_key: int, pieces: Sequence[Buffer], size: int) -> None:
        if self._broker:
            self._broker.write(pieces)
            self._place.traffic.went(api_key, self._place.traffic.zone, self._broker.zone, size)
            return
        self._before_connected.append((api_key, pieces, size))
        if self._connecting is None:
            # Connect only for a request, so that port scans do not reach the broker.
            self.pause(_CONNECTING)
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        place, loop, failures = self._place, asyncio.get_running_loop(), []
        for address in place.directory.addresses(place.broker, place.traffic.zone):
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    _, broker = await loop.create_connection(lambda: BrokerConnection(self), *address)
            except Exception as error:  # noqa: BLE001 - resolvers raise various errors for invalid names
                failures.append(f"{address.host}:{address.port}: {error or 'no response'}")
                continue
            broker.zone = place.directory.zone_at(address) or UNKNOWN
            self._broker = broker
            if self._is_full:
                broker.pause(_CLIENT_FULL)
            waiting, self._before_connected = self._before_connected, []
            for request in waiting:
                self._send(*request)
            self.resume(_CONNECTING)
            if self._end and not self._end.is_open:
                broker.close()
            return
        self.end("broker-away", "; ".join(failures) or "the broker is not in the cluster's metadata")

    def _main(self) -> Main | None:
        """Return the main for produced data, if any; decided once, so that no request overtakes another."""
        if not self._is_decided:
            self._is_decided, self._by = True, self._place.main
        return self._by

    def _produce(self, main: Main, request: Request, frame: Frame, awaited: PendingResponse | None) -> None:
        """Send a Produce request through the router channel, with acks=-1."""
        routes = self._place.routes
        assert routes is not None
        if self._stream is None:
            self._stream = routes.stream(main, lambda why: self.end("main-away", why))
        message = frame.message()

        def answered(answer: memoryview) -> None:
            try:
                if awaited is not None:
                    self._answer(awaited, answer, [_SIZE.pack(len(answer)), answer])
                elif produce_has_failed(request.version, answer):
                    self.close()  # as brokers do, so that a client with acks=0 refreshes its metadata
            except MessageMalformed as error:
                self.end("broker-garbage", str(error))

        self._stream.send(with_all_acks(request, message), len(message), answered)
        if routes.when_there_is_room(main, lambda: self.resume(_NO_ROOM)):
            self.pause(_NO_ROOM)

    def _reads(self) -> ZoneReader | None:
        """Return the reader that answers Fetches in the zone, if any; decided once the broker's zone is known."""
        if not self._is_reading_decided and self._place.broker_zone:
            self._is_reading_decided, self._reading = True, self._place.reading()
        return self._reading

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _read(
        self, reading: ZoneReader, request: Request, message: memoryview, awaited: PendingResponse
    ) -> None:
        """Answer a Fetch from the zone, and from the leader where that is not enough."""
        try:
            async with self._reads_one:
                found = await reading.answer(request, message)
            if found.cold is None or found.merge is None:
                self._answered_by(awaited, found.pieces)
                return
            awaited.rewrite = chained(awaited.rewrite, self._merged(found.merge, found.cold_partitions))
            self._broker_owes.append(awaited)
            size = sum(map(len, found.cold))
            self._send(request.api_key, [_SIZE.pack(size), *found.cold], size + _SIZE.size)
        except MessageMalformed as error:
            self.end("garbage", str(error))
        except Exception as error:  # noqa: BLE001 - otherwise the client would wait for ever
            _LOG.error("zone_router.reading_failed", why=repr(error))
            self.end("reading-failed", repr(error))

    def _merged(self, merge: Rewrite, partitions: int) -> Rewrite:
        def merged(answer: memoryview) -> Sequence[Buffer]:
            self._place.traffic.cold(self._place.cluster, partitions, len(answer))
            return merge(answer)

        return merged

    def answered(self, frame: Frame) -> None:
        """Handle a broker's response. Raises MessageMalformed if it matches no request."""
        if not self._broker_owes:
            raise MessageMalformed("a response without a request")
        traffic, awaited = self._place.traffic, self._broker_owes.popleft()
        zone = self._broker.zone if self._broker else UNKNOWN
        traffic.went(awaited.request.api_key, zone, traffic.zone, frame.size + _SIZE.size)
        message = frame.message() if awaited.rewrite else frame.message(HEADER_BYTES)
        self._answer(awaited, message, frame.pieces)

    def _answer(self, awaited: PendingResponse, message: memoryview, pieces: Sequence[Buffer]) -> None:
        """Answer a request with a broker's response.

        `message` has no size, and may be only the beginning if it is not rewritten; `pieces` is the whole frame.
        """
        if len(message) < _CORRELATION.size or _CORRELATION.unpack_from(message)[0] != awaited.request.correlation:
            raise MessageMalformed(
                f"a response with the wrong correlation id for api key {awaited.request.api_key}"
            )
        if awaited.rewrite:
            self._answered_by(awaited, awaited.rewrite(message))
        else:
            self._put(awaited, pieces)

    def _answered_by(self, awaited: PendingResponse, message: Sequence[Buffer]) -> None:
        """Answer with a message without its size."""
        self._put(awaited, [_SIZE.pack(sum(map(len, message))), *message])

    def _put(self, awaited: PendingResponse, pieces: Sequence[Buffer]) -> None:
        awaited.answer = pieces
        self._kept_bytes += sum(map(len, pieces))
        self._send_answers()
        if self._kept_bytes > BUFFERED_BYTES and self._broker:
            self._broker.pause(_ANSWERS_KEPT)

    def _send_answers(self) -> None:
        """Send responses in order, as far as they are available."""
        traffic = self._place.traffic
        while self._awaited and (pieces := self._awaited[0].answer) is not None:
            awaited = self._awaited.popleft()
            if awaited.is_refused:
                self.end("unsupported-version", refusal_reason(awaited.request))
                return
            size = sum(map(len, pieces))
            traffic.went(awaited.request.api_key, traffic.zone, awaited.zone, size)
            self._kept_bytes = max(0, self._kept_bytes - size)
            self.write(pieces)
        if self._broker and self._kept_bytes <= BUFFERED_BYTES:
            self._broker.resume(_ANSWERS_KEPT)
        if len(self._awaited) <= _MOST_AWAITED // 2:
            self.resume(_OWED_MUCH)
