"""A TCP proxy before the brokers of `listeners_via_proxy` clusters, which makes network faults on command.

`python -m backend.estate.proxy CONTROL_PORT CLUSTER=LISTEN:TARGET ...`, started by the supervisor. Faults are per
cluster, set over a control port on loopback: one JSON object a line, one answer a line.

- `cut`: packets are lost, in both directions or one. Connections stay open and nothing arrives; after `heal`
  data in flight arrives, as TCP would repeat it.
- `refuse`: open connections are reset, new ones too, as with a dead process on a live host.
- `delay`: everything arrives later by so many milliseconds, in each direction.
- `flap`: cut and healed in turn.

If a broker is added to or removed from a cluster while the proxy runs, its port is opened by `open_way` or closed
by `close_way`, which leave the cluster's fault as it is.

A restarted proxy is healed. The proxy delays by itself, without netem, which is not available on every machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import signal
import socket
import struct
import sys
from dataclasses import dataclass, field
from typing import Any

TOKEN_VARIABLE = "TREELINE_PROXY_TOKEN"
DIRECTIONS = ("to_broker", "to_client")
CHUNK_BYTES = 64 * 1024
CHUNKS_UNDER_WAY = 64  # per connection and direction; bounds memory while a link is cut or slow


class OrderInvalid(ValueError):
    """An invalid command on the control port."""


@dataclass(eq=False)
class Link:
    """The connections to one cluster, with the current fault."""

    cluster: str
    open: dict[str, asyncio.Event] = field(default_factory=lambda: {d: asyncio.Event() for d in DIRECTIONS})
    delay_seconds: float = 0.0
    refusing: bool = False
    flapping: asyncio.Task[None] | None = None
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    ways: dict[int, asyncio.Server] = field(default_factory=dict)
    """Servers by the port that clients connect to, one for each broker."""

    def heal(self) -> None:
        if self.flapping:
            self.flapping.cancel()
        self.flapping, self.delay_seconds, self.refusing = None, 0.0, False
        for gate in self.open.values():
            gate.set()

    def cut(self, directions: tuple[str, ...]) -> None:
        for direction in directions:
            self.open[direction].clear()

    def refuse(self) -> None:
        self.refusing = True
        for writer in self.writers:
            _reset(writer)

    async def flap(self, up_seconds: float, down_seconds: float) -> None:
        while True:
            self.cut(DIRECTIONS)
            await asyncio.sleep(down_seconds)
            for gate in self.open.values():
                gate.set()
            await asyncio.sleep(up_seconds)

    def describe(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "cut": [direction for direction, gate in self.open.items() if not gate.is_set()],
            "delay_ms": round(self.delay_seconds * 1000),
            "refusing": self.refusing,
            "flapping": self.flapping is not None,
            "connections": len(self.writers) // 2,
        }


async def open_way(link: Link, listen: int, target: int) -> None:
    """Forward connections from the port `listen` to the port `target` under the link's faults.

    An open port stays as it is. Raises OSError if another program has the port.
    """
    if listen in link.ways:
        return

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if link.refusing:
                raise ConnectionRefusedError
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            _reset(writer)
            return
        pair = {writer, broker_writer}
        link.writers |= pair
        ways = [
            asyncio.create_task(_carry(reader, broker_writer, link, "to_broker")),
            asyncio.create_task(_carry(broker_reader, writer, link, "to_client")),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        # Kafka never half-closes: the end of one direction is the end of the connection.
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        link.writers -= pair
        for end in pair:
            end.close()

    link.ways[listen] = await asyncio.start_server(connected, "127.0.0.1", listen)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link, direction: str) -> None:
    """Move bytes in one direction.

    Reading and writing are decoupled, so that a delay does not reduce throughput.
    """
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_UNDER_WAY)

    async def read() -> None:
        data = b"-"
        while data:
            try:
                data = await reader.read(CHUNK_BYTES)
            except OSError:
                data = b""
            await under_way.put((loop.time() + link.delay_seconds, data))

    reading = asyncio.create_task(read())
    try:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await link.open[direction].wait()
            if not data:
                return
            writer.write(data)
            await writer.drain()
    except OSError:
        return
    finally:
        reading.cancel()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, so that the other end learns at once that its data did not arrive."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def obey(links: dict[str, Link], order: dict[str, Any]) -> list[dict[str, Any]]:
    """Execute one control command; return the state of all links. Raises OrderInvalid, OSError."""
    action = order.get("action")
    if action == "show":
        return _described(links)
    link = links.get(str(order.get("cluster")))
    if link is None:
        known = ", ".join(links)
        raise OrderInvalid(f"cluster {order.get('cluster')!r} is not behind the proxy; these are: {known}")
    if action == "open_way":
        await open_way(link, _port(order, "listen"), _port(order, "target"))
        return _described(links)
    if action == "close_way":
        if server := link.ways.pop(_port(order, "listen"), None):
            server.close()
        return _described(links)
    link.heal()
    match action:
        case "heal":
            pass
        case "cut":
            direction = order.get("direction", "both")
            if direction not in ("both", *DIRECTIONS):
                raise OrderInvalid(f"direction {direction!r} is none of both, {', '.join(DIRECTIONS)}")
            link.cut(DIRECTIONS if direction == "both" else (direction,))
        case "refuse":
            link.refuse()
        case "delay":
            link.delay_seconds = _seconds(order, "delay_ms")
        case "flap":
            link.flapping = asyncio.create_task(link.flap(_seconds(order, "up_ms"), _seconds(order, "down_ms")))
        case _:
            raise OrderInvalid(f"unknown action {action!r}")
    return _described(links)


def _described(links: dict[str, Link]) -> list[dict[str, Any]]:
    return [link.describe() for link in links.values()]


def _port(order: dict[str, Any], key: str) -> int:
    value = order.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 65536:
        raise OrderInvalid(f"{key} is a port from 1 to 65535, not {value!r}")
    return value


def _seconds(order: dict[str, Any], key: str) -> float:
    value = order.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 3_600_000:
        raise OrderInvalid(f"{key} is a number of milliseconds above 0 and up to 3600000, not {value!r}")
    return value / 1000


async def serve_control(links: dict[str, Link], port: int, token: str) -> asyncio.Server:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer: dict[str, Any]
        try:
            order = json.loads(await reader.readline())
            if not isinstance(order, dict) or not hmac.compare_digest(str(order.get("token")), token):
                raise OrderInvalid("the token is wrong")
            answer = {"links": await obey(links, order)}
        except (ValueError, OSError) as error:
            answer = {"error": str(error)}
        writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    return await asyncio.start_server(connected, "127.0.0.1", port)


async def run(control_port: int, ways: list[str], token: str) -> None:
    links: dict[str, Link] = {}
    for way in ways:
        cluster, _, ports = way.partition("=")
        listen, _, target = ports.partition(":")
        link = links.setdefault(cluster, Link(cluster))
        link.heal()
        await open_way(link, int(listen), int(target))
    await serve_control(links, control_port, token)  # last: it is the sign of readiness
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), sys.argv[2:], os.environ[TOKEN_VARIABLE]))
