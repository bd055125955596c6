"""Brokers close connections that are idle for ten minutes, without an effect on clients.

Only a client with a request in flight is disconnected, as it would be without the router: it is unknown whether
the broker processed it.
"""

from __future__ import annotations

import asyncio
import random
import struct
from pathlib import Path

import pytest
from kafka.protocol.producer import ProduceResponse

from backend.estate.ports import free_ports
from tests.kafka.zones.in_process import Forwarder, broker_1, by_main, until
from tests.kafka.zones.test_faults import API_VERSIONS, framed
from tests.kafka.zones.test_gateway import everything
from tests.nightly import some_now
from tests.support.zones.nodes import CLUSTER, Router, produce_request
from workers.zone_router.directory import Directory
from workers.zone_router.proxy.channel import Limits
from workers.zone_router.proxy.gateway import Gateway
from workers.zone_router.proxy.routes import Routes
from workers.zone_router.router_file import RouterFile

pytestmark = pytest.mark.parametrize("router", ["by mains"], indirect=True)


class Asked:
    """A stream and the outcome of its requests."""

    def __init__(self, routes: Routes, topic: str) -> None:
        self.answers: list[int] = []
        self.sent = 0
        self.broken: list[str] = []
        self._topic = topic
        self.stream = routes.stream((CLUSTER, 1), self.broken.append)

    def send(self, number: int) -> None:
        message = produce_request(self._topic, number)
        self.sent += 1
        self.stream.send([memoryview(message)], len(message), self._answered)

    def _answered(self, answer: memoryview) -> None:
        told = ProduceResponse[3].decode(bytes(answer), header=True)
        assert [part.error_code for topic in told.responses for part in topic.partition_responses] == [0]
        self.answers.append(told.header.correlation_id)

    @property
    def is_over(self) -> bool:
        return bool(self.broken) or len(self.answers) == self.sent


def values(router: Router, topic: str) -> list[int]:
    return [int(value) for _, _, _, _, value, _, _ in everything(router.brokers.servers, topic)]


def test_a_brokers_connection_that_was_idle_is_made_again(router: Router, topic: str, tmp_path: Path):
    async def test() -> None:
        forwarder = Forwarder(broker_1(router))
        async with forwarder.listening() as broker, by_main(tmp_path, broker) as way:
            asked = Asked(way.routes, topic)
            for number in range(3):
                asked.send(number)
                await until(lambda number=number: len(asked.answers) == number + 1, "it is answered")
                assert forwarder.made == number + 1 and not asked.broken
                forwarder.end_all()
                await until(lambda: not forwarder.open, "the main has left it, too")
            asked.stream.close()
        assert not asked.broken

    asyncio.run(test())
    assert values(router, topic) == [0, 1, 2]


def test_a_connection_that_ends_before_the_answer_lets_its_client_down(router: Router, topic: str, tmp_path: Path):
    """The record is written, but that is unknown: resending it is the client's decision."""

    async def test() -> None:
        forwarder = Forwarder(broker_1(router))
        async with forwarder.listening() as broker, by_main(tmp_path, broker) as way:
            asked, other = Asked(way.routes, topic), Asked(way.routes, topic)
            forwarder.passes_answers = False
            asked.send(0)
            await until(lambda: bool(asked.broken), "it is let down")
            assert asked.broken == ["the broker closed the connection"] and not asked.answers
            forwarder.passes_answers = True
            other.send(1)
            await until(lambda: other.answers == [1], "others go on")
            assert not other.broken and way.routes.held_bytes == 0

    asyncio.run(test())
    assert values(router, topic) == [0, 1]


@some_now("seed", range(3), now=(0,))
def test_connections_that_end_at_any_moment_double_nothing(router: Router, topic: str, tmp_path: Path, seed: int):
    draw = random.Random(seed)

    async def test() -> list[Asked]:
        forwarder = Forwarder(broker_1(router))
        limits = Limits(window_seconds=0.005)
        async with forwarder.listening() as broker, by_main(tmp_path, broker, limits) as way:
            streams = [Asked(way.routes, topic) for _ in range(30)]
            for turn in range(8):
                for at, asked in enumerate(streams):
                    if not asked.broken:
                        asked.send(100 * at + turn)
                await asyncio.sleep(draw.random() * 0.04)
                forwarder.end_all()
                await asyncio.sleep(draw.random() * 0.1)
            await until(lambda: all(asked.is_over for asked in streams), "all are answered or let down")
            assert way.routes.held_bytes == 0
        return streams

    streams = asyncio.run(test())
    found = values(router, topic)
    assert any(asked.broken for asked in streams) and len(found) == len(set(found))
    for at, asked in enumerate(streams):
        own = [value for value in found if value // 100 == at]
        assert asked.answers == own[: len(asked.answers)] and len(own) <= asked.sent
        assert own == list(range(100 * at, 100 * at + len(own))), "in order, without a gap"


def test_a_client_that_only_produces_outlives_its_nodes_idle_connection_to_the_broker(
    router: Router, topic: str, tmp_path: Path
):
    """The client's other requests used a separate connection to the broker, which has been idle since."""
    bootstrap, port = free_ports(2)

    async def test() -> None:
        file = RouterFile.model_validate({
            "zones": {"az1": {}},
            "clusters": {CLUSTER: {"bootstrap_servers": router.brokers.servers}},
            "nodes": {"a": {"zone": "az1", "host": "127.0.0.1", "listeners": {
                CLUSTER: {"bootstrap": bootstrap, "brokers": {1: port}}}}},
        })  # fmt: skip
        forwarder, directory = Forwarder(broker_1(router)), Directory(file, CLUSTER)
        async with forwarder.listening() as broker, by_main(tmp_path, broker) as way:
            directory.learn({1: broker})
            directories, routes = {CLUSTER: directory}, {CLUSTER: way.routes}
            gateway = Gateway(file.node("a"), file.zone_rule(), directories, way.traffic, routes, {})
            await gateway.open()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)

            async def ask(message: bytes) -> int:
                writer.write(message)
                async with asyncio.timeout(20):
                    answer = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
                return int(struct.unpack_from(">i", answer)[0])

            for number in range(3):
                assert await ask(framed(API_VERSIONS[:4] + struct.pack(">i", number) + API_VERSIONS[8:])) == number
                assert await ask(framed(produce_request(topic, number))) == number
                assert forwarder.made == 2 * (number + 1)
                forwarder.end_all()
                await until(lambda: not forwarder.open, "nobody is connected to the broker")
            writer.close()
            await gateway.close()

    asyncio.run(test())
    assert values(router, topic) == [0, 1, 2]
