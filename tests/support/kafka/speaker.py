"""A fake broker, for answers that a real one gives only in moments that cannot be produced at will."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

API_VERSIONS, METADATA, FIND_COORDINATOR, OFFSET_FETCH = 18, 3, 10, 9
UNSUPPORTED_VERSION, INVALID_TOPIC, NOT_COORDINATOR = 35, 17, 16


class Speaker(socketserver.BaseRequestHandler):
    """Speaks the part of Kafka's protocol that tells a client of brokers and of groups.

    The first broker was the groups' coordinator until now.
    """

    brokers: tuple[tuple[int, str, int], ...] = ()

    def handle(self) -> None:
        while head := self.request.recv(4, 4096):
            size = struct.unpack(">i", head.ljust(4, b"\0"))[0]
            request = b""
            while len(request) < size and (more := self.request.recv(size - len(request))):
                request += more
            api, version, correlation = struct.unpack(">hhi", request[:8])
            body = self.answer(api, version, request)
            message = struct.pack(">i", correlation) + body
            self.request.sendall(struct.pack(">i", len(message)) + message)

    def answer(self, api: int, version: int, request: bytes) -> bytes:
        if api == API_VERSIONS:
            return self.versions(version)
        if api == METADATA:
            return self.metadata(request)
        if api == FIND_COORDINATOR:
            return self.coordinator()
        return struct.pack(">iih", 0, 0, NOT_COORDINATOR)

    def versions(self, version: int) -> bytes:
        error = UNSUPPORTED_VERSION if version else 0
        ranges = [(API_VERSIONS, 0, 0), (METADATA, 4, 4), (FIND_COORDINATOR, 0, 0), (OFFSET_FETCH, 5, 5)]
        return struct.pack(">hi", error, len(ranges)) + b"".join(struct.pack(">hhh", *each) for each in ranges)

    def coordinator(self) -> bytes:
        number, host, port = self.brokers[0]
        return struct.pack(">hih", 0, number, len(host)) + host.encode() + struct.pack(">i", port)

    def metadata(self, request: bytes) -> bytes:
        """Return version 4: throttle time, brokers, cluster id, controller, and the requested topics."""
        (client,) = struct.unpack(">h", request[8:10])
        asked = request[10 + max(0, client) :]
        (count,) = struct.unpack(">i", asked[:4])
        topics, place = [], 4
        for _ in range(max(0, count)):
            (length,) = struct.unpack(">h", asked[place : place + 2])
            name = asked[place : place + 2 + length]
            topics.append(struct.pack(">h", INVALID_TOPIC) + name + struct.pack(">?i", False, 0))
            place += 2 + length
        brokers = b"".join(
            struct.pack(">ih", number, len(host)) + host.encode() + struct.pack(">ih", port, -1)
            for number, host, port in self.brokers
        )
        return (
            struct.pack(">ii", 0, len(self.brokers))
            + brokers
            + struct.pack(">h3si", 3, b"abc", self.brokers[0][0] if self.brokers else -1)
            + struct.pack(">i", len(topics))
            + b"".join(topics)
        )


@contextmanager
def speaking() -> Iterator[tuple[type[Speaker], str]]:
    """Yield a fake broker with number 7, as a class whose `brokers` may be changed, and its address."""

    class Broker(Speaker):
        pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Broker) as server:
        server.daemon_threads = True
        host, port = server.server_address[:2]
        Broker.brokers = ((7, str(host), int(port)),)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Broker, f"{host}:{port}"
        server.shutdown()
