"""Incomplete requests never hold more memory than allowed, and few clients are disconnected for it."""

from __future__ import annotations

import asyncio
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from tests.unit.zones.one_node import one_node
from workers.zone_router.directory import Directory
from workers.zone_router.proxy.gateway import Gateway
from workers.zone_router.proxy.inflight_budget import InflightBudget
from workers.zone_router.traffic import Traffic

MEGABYTE = 1024 * 1024
ZEROS = memoryview(bytes(4 * MEGABYTE))
# The node itself answers this version, which is too new, without a broker.
TOO_NEW = struct.pack(">ihhihb", 11, 18, 99, 7, 0, 0)


@asynccontextmanager
async def listening(most_inflight_bytes: int) -> AsyncIterator[tuple[int, CollectorRegistry]]:
    """Start a node's listener; yield its port and its counters."""
    file, port = one_node()
    registry = CollectorRegistry()
    gateway = Gateway(
        file.node("a"),
        file.zone_rule(),
        {"east": Directory(file, "east")},
        Traffic("a", "az1", registry),
        {},
        {},
        most_inflight_bytes,
    )
    await gateway.open()
    yield port, registry
    await gateway.close()


class Beginner:
    """Connection that sends part of a request and never completes it."""

    def __init__(self, port: int, size: int) -> None:
        self._port, self._size = port, size
        self.was_ended = False
        self.sent = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as connection:
            connection.setblocking(False)
            await loop.sock_connect(connection, ("127.0.0.1", self._port))
            try:
                await loop.sock_sendall(connection, struct.pack(">i", 100 * MEGABYTE))
                await loop.sock_sendall(connection, ZEROS[: self._size])
                self.sent.set()
                self.was_ended = await loop.sock_recv(connection, 1) == b""
            except OSError:
                self.was_ended = True
            self.sent.set()


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_many_who_begin_large_requests_hold_no_more_than_they_may(runner):
    most, size, count = 16 * MEGABYTE, 4 * MEGABYTE, 64

    async def test() -> None:
        async with listening(most) as (port, registry):
            small = Beginner(port, 10_000)
            tasks = [asyncio.create_task(small.run())]
            await small.sent.wait()
            large = [Beginner(port, size) for _ in range(count)]
            tracemalloc.start()
            try:
                tasks += [asyncio.create_task(each.run()) for each in large]
                for each in large:
                    await each.sent.wait()
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(TOO_NEW)
            assert struct.unpack(">ii", await reader.readexactly(8))[1] == 7, "others are answered"
            async with asyncio.timeout(60):
                while (ended := sum(each.was_ended for each in large)) < count - most // size:
                    await asyncio.sleep(0.01)
            assert not small.was_ended
            refused = b'treeline_zone_router_refused_total{why="no-room"}'
            (line,) = (line for line in generate_latest(registry).splitlines() if line.startswith(refused))
            assert float(line.split()[-1]) >= ended
            assert peak < 2 * most, "beside what is sent"
            writer.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    runner(test())


class Sender:
    def __init__(self, ended: list[Sender]) -> None:
        self._ended = ended

    def end(self, why: str, detail: str) -> None:
        assert why == "no-room"
        self._ended.append(self)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), max_size=60), st.integers(0, 100))
def test_of_all_who_hold_something_the_largest_is_ended(steps: list[tuple[int, int]], most: int):
    ended: list[Sender] = []
    senders = [Sender(ended) for _ in range(6)]
    unended, held = InflightBudget(most), dict.fromkeys(senders, 0)
    for number, size in steps:
        held[senders[number]] = size
        before = len(ended)
        unended.holds(senders[number], size)
        for gone in ended[before:]:
            assert held[gone] == max(held.values()) > 0
            held[gone] = 0
        assert unended.total_bytes == sum(held.values()) <= most
