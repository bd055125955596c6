"""A main follows the log of a real broker, and proxies detect that a main is reachable."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import Producer

from backend.kafka.wire.batches import Batch
from tests.eventually import eventually
from tests.kafka.zones.consuming import Consuming
from tests.kafka.zones.in_process import MAIN, broker_1, until
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import Router
from workers.zone_router.formats.block import Followed
from workers.zone_router.formats.wal import Partition
from workers.zone_router.main.follower import Follower, Led


class Taken:
    """Sink for the batches of one topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.known: Mapping[Partition, Followed] = {}
        self.led: dict[int, Led] = {}
        self.offsets: list[int] = []

    def took(self, led: Led, found: Sequence[tuple[Batch, memoryview, int]]) -> None:
        if led.topic == self._topic:
            assert not any(gap for _, _, gap in found)
            self.offsets += [batch.base_offset for batch, _, _ in found]

    def leads(self, led: Led) -> None:
        if led.topic == self._topic:
            self.led[led.partition.number] = led

    def left(self, partition: Partition) -> None:
        for led in [each for each in self.led.values() if each.partition == partition]:
            self.known = {**self.known, partition: led.followed}
            del self.led[partition.number]

    def gone(self, partition: Partition) -> None:
        raise AssertionError(f"{partition} was not cut")

    async def room(self) -> None:
        return


def test_a_partition_that_is_left_and_led_again_while_the_broker_is_asked_is_followed_on(router: Router):
    """Brokers omit a partition that is both in a request and forgotten by it."""
    topic = f"following-{secrets.token_hex(4)}"
    router.brokers.create(topic, [[1, 2, 3], [1, 2, 3]])  # a single partition would end the session
    producer = Producer({"bootstrap.servers": router.brokers.servers, "linger.ms": 0})

    def produce() -> None:
        producer.produce(topic, b"v", partition=0)
        assert producer.flush(DEADLINE_SECONDS) == 0

    async def test() -> None:
        taken = Taken(topic)
        follower = Follower(MAIN, lambda: broker_1(router), taken, all_history=True)
        following = asyncio.create_task(follower.run())
        for number in range(4):
            await asyncio.to_thread(produce)
            await until(lambda number=number: taken.offsets == [*range(number + 1)], f"{number} is followed")
            before = taken.led[0]
            await until(lambda led=before, number=number: led.high_watermark == number + 1, "its bounds are told")
            await asyncio.sleep(0.1)  # by now the next fetch is waiting at the broker
            follower._leave(before.partition)
            follower.poll()
            await until(lambda: 0 in taken.led, "it is led again")
            led = taken.led[0]
            assert led is not before
            await until(lambda led=led, number=number: led.high_watermark == number + 1, "they are told anew")
        following.cancel()

    asyncio.run(test())


@pytest.mark.nightly
def test_a_main_that_stands_still_keeps_no_reader_waiting(reading: Router):
    """The main's connections are open but silent: the leader is asked."""
    topic = f"following-{secrets.token_hex(4)}"
    reading.brokers.create(topic, [[1, 2, 3]] * 6)
    producer = Producer({"bootstrap.servers": reading.brokers.servers, "linger.ms": 0})
    process = reading.nodes["az1"].process
    assert process is not None

    def produced() -> None:
        producer.produce(topic, b"v", partition=0)
        assert producer.flush(DEADLINE_SECONDS) == 0

    with Consuming(reading.nodes["az2"], topic) as consuming:
        produced()
        eventually(lambda: len(consuming.found) == 1, "it is read in the zone")
        os.kill(process.pid, signal.SIGSTOP)
        try:
            produced()
            eventually(lambda: len(consuming.found) == 2, "it is read from the leader")
        finally:
            os.kill(process.pid, signal.SIGCONT)
        produced()
        eventually(lambda: len(consuming.found) == 3, "it is read again")
        consuming.is_the_leaders(reading)
