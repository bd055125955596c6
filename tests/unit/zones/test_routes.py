"""Produced data from a proxy through object storage and a main to a broker, which appends it all."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from backend.estate.ports import free_ports
from backend.kafka.wire.apis import Api
from backend.kafka.wire.endpoints import Address
from tests.unit.wire.test_wire import head
from tests.unit.zones.channel import EAST, WEST
from tests.unit.zones.one_node import one_node
from workers.zone_router.directory import Directory
from workers.zone_router.main.main_node import MainNode
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.channel import Limits
from workers.zone_router.proxy.gateway import Gateway
from workers.zone_router.proxy.routes import Routes
from workers.zone_router.router_file import MainAt
from workers.zone_router.traffic import Traffic

SIZE = struct.Struct(">i")
NOTHING_FAILED = struct.pack(">iii", 77, 0, 0)


class Read(ObjectStorage):
    """A main's storage, whose reads wait until allowed."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_asked, self.may = asyncio.Event(), asyncio.Event()

    async def get(self, name: str, start: int, length: int) -> memoryview:
        self.is_asked.set()
        await self.may.wait()
        return await super().get(name, start, length)


@dataclass
class Way:
    """Route from a proxy to a broker."""

    routes: Routes
    main: MainNode
    read: Read
    traffic: Traffic
    registry: CollectorRegistry
    taken: list[bytes] = field(default_factory=list)
    """Requests received by the broker."""
    writing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start writing."""
        self.writing = asyncio.create_task(self.routes.run())

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while len(size := await reader.read(SIZE.size)) == SIZE.size:
            self.taken.append(await reader.readexactly(*SIZE.unpack(size)))
            writer.write(SIZE.pack(len(NOTHING_FAILED)) + NOTHING_FAILED)
        writer.close()

    def sample(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"treeline_zone_router_{name}", labels) or 0.0


@asynccontextmanager
async def way(folder: Path) -> AsyncIterator[Way]:
    broker_port, main_port = free_ports(2)
    url, registry = f"file://{folder}", CollectorRegistry()
    traffic, read = Traffic("a", "az1", registry), Read(url)
    main = MainNode(EAST, lambda: Address("127.0.0.1", broker_port), read)
    mains = {EAST: MainAt(Address("127.0.0.1", main_port), "az2")}
    routes = Routes(1, ObjectStorage(url), mains, Limits(), traffic)
    found = Way(routes, main, read, traffic, registry)
    broker = await asyncio.start_server(found.take, "127.0.0.1", broker_port)
    await main.open("127.0.0.1", main_port)
    try:
        yield found
    finally:
        if found.writing:
            found.writing.cancel()
        await main.close()
        await routes.close(0)
        broker.close()


@asynccontextmanager
async def gateway(found: Way) -> AsyncIterator[int]:
    """Return the port at which a proxy serves the broker."""
    file, port = one_node()
    directories, routes = {"east": Directory(file, "east")}, {"east": found.routes}
    opened = Gateway(file.node("a"), file.zone_rule(), directories, found.traffic, routes, {})
    await opened.open()
    yield port
    await opened.close()


def produced(acks: int) -> bytes:
    return head(Api.PRODUCE, 3, b"zone=az1", False) + struct.pack(">hhii", -1, acks, 30_000, 0)


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0.005)


def test_a_fence_that_rises_while_a_part_is_read_refuses_it(tmp_path: Path):
    """Data announced under a fenced epoch must be complete by then."""

    async def test() -> None:
        async with way(tmp_path) as found:
            found.begin()
            answers: list[bytes] = []
            stream = found.routes.stream(EAST, lambda why: answers.append(why.encode()))
            stream.send([b"asked"], 5, lambda answer: answers.append(bytes(answer)))
            await found.read.is_asked.wait()
            found.main.fenced = found.routes.epoch
            found.read.may.set()
            await until(lambda: answers)
            assert (answers, found.taken) == ([NOTHING_FAILED], [b"asked"]), "written again, and taken once"
            assert found.sample("routes_refused_total") == 1
            assert found.routes.epoch == found.main.fenced + 1

    asyncio.run(test())


def test_with_what_is_refused_all_behind_it_is_written_again_in_its_order(tmp_path: Path):
    async def test() -> None:
        async with way(tmp_path) as found:
            answers: list[bytes] = []
            stream = found.routes.stream(EAST, lambda why: answers.append(why.encode()))
            sent = [b"one", b"two", b"three"]
            for message in sent:
                stream.send([message], len(message), lambda answer: answers.append(bytes(answer)))
            found.main.fenced = found.routes.epoch
            found.read.may.set()
            found.begin()
            await until(lambda: len(found.taken) >= len(sent) or not found.routes.held_bytes)
            assert found.taken == sent
            await until(lambda: not found.routes.held_bytes)
            assert answers == [NOTHING_FAILED] * 3

    asyncio.run(test())


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_by_the_channel_all_in_sync_are_waited_for_whatever_was_asked(tmp_path: Path, acks: int):
    async def test() -> None:
        async with way(tmp_path) as found, gateway(found) as port:
            found.read.may.set()
            found.begin()
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(SIZE.pack(len(produced(acks))) + produced(acks))
            await until(lambda: found.taken)
            assert found.taken == [produced(-1)]
            writer.close()

    asyncio.run(test())


def test_what_was_received_of_a_client_that_is_gone_is_written(tmp_path: Path):
    async def test() -> None:
        async with way(tmp_path) as found, gateway(found) as port:
            found.read.may.set()
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(SIZE.pack(len(produced(0))) + produced(0))
            writer.close()
            await until(lambda: found.sample("bytes_total", plane="produce", from_zone="az1", to_zone="az1"))
            await until(lambda: not found.sample("connections", cluster="east"))
            assert found.sample("streams") == 1, "it is kept until it is written"
            found.begin()
            await until(lambda: found.taken)
            assert found.taken == [produced(-1)]

    asyncio.run(test())


def test_a_main_that_stands_still_leaves_room_for_the_others(tmp_path: Path):
    async def test() -> None:
        mains = {main: MainAt(Address("127.0.0.1", 1), "az2") for main in (EAST, WEST)}
        traffic = Traffic("a", "az1", CollectorRegistry())
        routes = Routes(1, ObjectStorage(f"file://{tmp_path}"), mains, Limits(held_bytes=1_000), traffic)
        routes.stream(EAST, lambda why: None).send([bytes(600)], 600, lambda answer: None)
        gone_on: list[str] = []
        assert routes.when_there_is_room(EAST, lambda: gone_on.append("east")), "it has more than half of it all"
        assert not routes.when_there_is_room(WEST, lambda: gone_on.append("west"))
        assert gone_on == []

    asyncio.run(test())
