"""A main and a proxy's routes to it within the test's process, beside a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from backend.estate.ports import free_ports
from backend.kafka.wire.endpoints import Address
from tests.support.zones.nodes import CLUSTER, Router
from workers.zone_router.main.main_node import MainNode
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.channel import Limits
from workers.zone_router.proxy.routes import Routes
from workers.zone_router.router_file import MainAt
from workers.zone_router.traffic import Traffic

MAIN = (CLUSTER, 1)


def broker_1(router: Router) -> Address:
    host, _, port = router.brokers.servers.split(",")[0].rpartition(":")
    return Address(host, int(port))


@dataclass(frozen=True)
class Way:
    """Route from a proxy to a broker through a main."""

    routes: Routes
    main: MainNode
    traffic: Traffic
    registry: CollectorRegistry


@asynccontextmanager
async def by_main(folder: Path, broker: Address, limits: Limits | None = None) -> AsyncIterator[Way]:
    """Start a route for entries to broker 1 at that address."""
    (port,) = free_ports(1)
    storage, registry = ObjectStorage(f"file://{folder}"), CollectorRegistry()
    traffic = Traffic("a", "az1", registry)
    main = MainNode(MAIN, lambda: broker, storage)
    await main.open("127.0.0.1", port)
    mains = {MAIN: MainAt(Address("127.0.0.1", port), "az1")}
    routes = Routes(1, storage, mains, limits or Limits(), traffic)
    running = asyncio.create_task(routes.run())
    try:
        yield Way(routes, main, traffic, registry)
    finally:
        running.cancel()
        await main.close()
        await routes.close(0)


class Forwarder:
    """TCP forwarder between a node and a broker; it closes connections on demand, as brokers do with idle ones."""

    def __init__(self, broker: Address) -> None:
        self._broker = broker
        self.made = 0
        self.passes_answers = True
        """Or ends a connection instead of passing an answer on."""
        self._ends: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Address]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
        finally:
            server.close()
            self.end_all()

    @property
    def open(self) -> int:
        return len(self._ends)

    def end_all(self) -> None:
        for end in self._ends:
            end.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        self._ends.add(writer)
        there, onward = await asyncio.open_connection(*self._broker)
        tasks = [asyncio.create_task(self._pass_on(*pair)) for pair in ((reader, onward), (there, writer))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for end in (onward, writer):
            end.close()
        for task in tasks:
            task.cancel()
        self._ends.discard(writer)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if sink in self._ends and not self.passes_answers:
                    return
                sink.write(data)
                await sink.drain()


async def until(done: Callable[[], bool], what: str) -> None:
    """Wait until `done` is true. Raises TimeoutError."""
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0.005)
    assert done(), what
