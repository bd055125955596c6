"""Faults on the route through the router channel: mains, deleted objects, storage, epochs, replaced nodes.

Every record is written once, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from kafka.protocol.producer import ProduceResponse

from tests.eventually import eventually
from tests.kafka.zones.in_process import MAIN, broker_1, by_main, until
from tests.kafka.zones.test_faults import GARBAGE, Producing, Raw, each_once
from tests.kafka.zones.test_gateway import everything
from tests.nightly import some_now
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import Router, client, produce_request
from workers.zone_router.formats.bulk import HEAD_BYTES
from workers.zone_router.proxy.channel import Limits


def test_a_main_that_dies_between_append_and_answer_leaves_one_copy(router: Router, topic: str):
    """Broker 3 is paused when its main forwards the record, and resumes after the main was killed."""
    done: list[Message] = []
    producer = Producer(
        client(router.nodes["az1"], enable_idempotence=True, linger_ms=1, reconnect_backoff_max_ms=500)
    )

    def send(number: int) -> None:
        producer.produce(
            topic, str(number), partition=2, on_delivery=lambda error, message: done.append(error or message)
        )
        producer.poll(0)

    send(0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    with standing_still(router, 3):
        send(1)
        producer.flush(1.0)
        assert len(done) == 1, "it is with the broker, which says nothing"
        router.nodes["az3"].end(kill=True)
    eventually(
        lambda: len(everything(router.brokers.servers, topic)) == 2, "the broker has appended what it was given"
    )
    assert len(done) == 1, "and its producer does not know"
    router.nodes["az3"].start()
    send(2)
    assert producer.flush(DEADLINE_SECONDS) == 0
    values = [value for _, _, _, _, value, _, _ in everything(router.brokers.servers, topic)]
    assert values == [b"0", b"1", b"2"] and not [each for each in done if not isinstance(each, Message)]


@contextmanager
def standing_still(router: Router, broker: int) -> Iterator[None]:
    """Pause a broker for less than its session timeout."""
    pid = router.brokers.pid(broker)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.nightly  # the others kill one at the moments that matter
def test_mains_that_are_killed_again_and_again_lose_and_double_nothing(router: Router, topic: str):
    with Producing(router, topic, "az1") as producing:
        for _ in range(3):
            for zone in ("az2", "az3"):
                router.nodes[zone].end(kill=True)
                time.sleep(0.3)
                router.nodes[zone].start()
        producing.resumed()
    each_once(router, topic, producing)


# Storage that fails now and then: test_slow_storage; what is written again: test_routes, with a mutant.
@pytest.mark.nightly
def test_objects_that_are_gone_before_they_are_read_are_written_again(router: Router, topic: str):
    assert router.channel is not None
    folder, ended, deleted = router.channel, threading.Event(), list[Path]()
    draw = random.Random(5)

    def is_bulk(path: Path) -> bool:
        """Return whether a file is a bulk.

        Empty objects and process numbers must not be deleted: they fence old processes.
        """
        with contextlib.suppress(FileNotFoundError):
            return path.stat().st_size > HEAD_BYTES
        return False

    def delete_some() -> None:
        seen: set[Path] = set()
        while not ended.is_set() and len(deleted) < 12:
            for path in set(folder.glob("channel/*/*")) - seen:
                seen.add(path)
                if is_bulk(path) and draw.random() < 0.3:
                    path.unlink(missing_ok=True)
                    deleted.append(path)
            time.sleep(0.0005)

    thread = threading.Thread(target=delete_some)
    with Producing(router, topic, "az1") as producing:
        thread.start()
        time.sleep(2)
        ended.set()
        thread.join()
        producing.resumed()
    each_once(router, topic, producing)
    assert deleted


@pytest.mark.nightly  # test_slow_storage: requests that fail now and then
def test_a_storage_that_is_away_for_some_seconds_holds_up_and_loses_nothing(router: Router, topic: str):
    assert router.channel is not None
    aside = router.channel.with_name("aside")
    with Producing(router, topic, "az1") as producing:
        router.channel.rename(aside)
        router.channel.write_text("no folder")
        time.sleep(2)
        router.channel.unlink()
        aside.rename(router.channel)
        producing.resumed()
    each_once(router, topic, producing)


def test_what_was_answered_is_in_storage_no_more(router: Router, topic: str):
    assert router.channel is not None
    with Producing(router, topic, "az1"):
        pass

    def left() -> int:
        assert router.channel is not None
        return sum(path.is_file() and path.stat().st_size > HEAD_BYTES for path in router.channel.rglob("*"))

    # Each node's newest object stays; older ones are deleted.
    eventually(lambda: left() <= len(router.nodes), "the objects are deleted")


@some_now("kind", ["http", "random", "negative size", "oversized"], now=(1,))
def test_garbage_at_a_main_ends_its_own_connection_and_no_other(router: Router, topic: str, kind: str):
    with Producing(router, topic, "az1") as producing:
        raw = Raw(router.main_ports["az3"])
        raw.send(GARBAGE[kind])
        assert raw.is_ended
        raw.close()
        producing.resumed()
    each_once(router, topic, producing)


@pytest.mark.nightly  # test_routes, with a mutant
def test_a_route_of_an_epoch_that_is_over_is_refused_and_written_again(router: Router, topic: str, tmp_path: Path):
    """The fence rises all the time, but never lets a record in twice or out of order."""
    number_of_records = 300
    answers: list[int] = []

    def answered(answer: memoryview) -> None:
        told = ProduceResponse[3].decode(bytes(answer), header=True)
        assert [part.error_code for topic in told.responses for part in topic.partition_responses] == [0]
        answers.append(told.header.correlation_id)

    async def run() -> tuple[int, int]:
        async with by_main(tmp_path, broker_1(router), Limits(window_seconds=0.02, bulk_bytes=2_000)) as way:
            stream = way.routes.stream(MAIN, lambda why: answers.append(-1))
            draw, fences = random.Random(3), 0
            for number in range(number_of_records):
                message = produce_request(topic, number)
                stream.send([memoryview(message)], len(message), answered)
                if draw.random() < 0.05:
                    way.main.fenced, fences = way.routes.epoch, fences + 1
                await asyncio.sleep(draw.random() * 0.01)
            await until(lambda: len(answers) >= number_of_records, "all are answered")
            assert way.routes.held_bytes == 0
            told = {metric.name: metric for metric in way.registry.collect()}
            (refused, _) = told["treeline_zone_router_routes_refused"].samples
            (streams,) = told["treeline_zone_router_streams"].samples
            assert refused.value >= way.routes.epoch - 1 and streams.value == 1
            stream.close()
            return way.routes.epoch, fences

    epoch, fences = asyncio.run(run())
    assert answers == list(range(number_of_records)), "in order, each once"
    values = [
        int(value)
        for partition, _, _, _, value, _, _ in everything(router.brokers.servers, topic)
        if partition == 0
    ]
    assert values == list(range(number_of_records))
    assert epoch > 3 and fences > 3


@pytest.mark.nightly  # test_channel and test_succession, with a mutant
def test_a_process_that_takes_a_nodes_place_makes_the_other_one_end(router: Router, topic: str):
    """Both run as the same node; the earlier one stops writing and logs why."""
    node = router.nodes["az2"]
    with Producing(router, topic, "az2") as producing:
        successor = router.twin(node)
        successor.start()
        assert node.process is not None
        assert node.process.wait(30) == 1
        assert "a later process runs as node 2" in node.log.read_text()
        assert successor.lives
        successor.end()
        node.end()
        node.start()
        producing.resumed()
    each_once(router, topic, producing)
