"""Asks for one path after the other over kept connections, as fast as it is answered; a process of its own.

Prints a JSON object: requests, seconds, and how long an answer takes. Its own work is kept small, without a client
library: it shares the machine with the server that it measures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from urllib.parse import urlsplit


class Connection(asyncio.Protocol):
    """One request at a time; the next one goes out with the answer to the one before."""

    def __init__(self, requests: list[bytes], until: float, took: list[float]) -> None:
        self._requests, self._until, self._took = requests, until, took
        self._number = 0
        self._buffer = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._requests[self._number % len(self._requests)])
        self._number += 1

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator or len(body) < _length(head):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(self._buffer.decode(errors="replace"))
        now = time.perf_counter()
        self._took.append(now - self._sent)
        self._buffer = b""
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


def _length(head: bytes) -> int:
    lowered = head.lower()
    begin = lowered.index(b"content-length:") + len(b"content-length:")
    return int(lowered[begin:].split(b"\r\n", 1)[0])


async def run(url: str, paths: list[str], connections: int, seconds: float, token: str) -> dict[str, float]:
    """Return the number of requests, the seconds they took, and response times in milliseconds."""
    address = urlsplit(url)
    who = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"Host: {address.netloc}\r\nAccept: application/vnd.schemaregistry.v1+json\r\n{who}\r\n"
    requests = [f"GET {address.path}{path} HTTP/1.1\r\n{head}".encode() for path in paths]
    took: list[float] = []
    began = time.perf_counter()
    loop = asyncio.get_running_loop()
    made = []
    for number in range(connections):
        mine = requests[number % len(requests) :] + requests[: number % len(requests)]
        _, protocol = await loop.create_connection(
            lambda mine=mine: Connection(mine, began + seconds, took), address.hostname, address.port
        )
        made.append(protocol.ended)
    await asyncio.gather(*made)
    elapsed = time.perf_counter() - began
    took.sort()
    return {
        "requests": len(took),
        "seconds": elapsed,
        "p50_ms": took[len(took) // 2] * 1000,
        "p99_ms": took[int(len(took) * 0.99)] * 1000,
    }


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--token", default="", help="whose reads these are")
    given = parser.parse_args()
    found = run(given.url, given.paths, given.connections, given.seconds, given.token)
    print(json.dumps(asyncio.run(found)))


if __name__ == "__main__":
    main()
