"""The asyncio clients during moves."""

from __future__ import annotations

import asyncio
import time
import uuid

import pytest
from confluent_kafka import TopicPartition
from treeline_client import (
    AsyncSwitchingConsumer,
    AsyncSwitchingProducer,
    DiscoveryRefused,
    StaleGeneration,
    TransactionAbortedBySwitch,
)

from tests.kafka.client.conftest import technical
from tests.kafka.client.flows import check_exactly_once, stored
from tests.support.kafka import topics as kafka

DEADLINE_SECONDS = 90.0


async def until(condition):
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)


def reported(plane, phase):
    return any(report["phase"] == phase for report in list(plane.reports.values()))


@pytest.mark.nightly
def test_a_producer_is_moved_and_its_futures_have_the_messages(plane, clusters, topic):
    async def run() -> None:
        async with AsyncSwitchingProducer(plane.conf()) as producer:
            first = [await producer.produce(topic, str(n), key=str(n % 5)) for n in range(100)]
            messages = await asyncio.gather(*first)
            assert {message.topic() for message in messages} == {topic}
            plane.hold("cluster-2")
            await until(lambda: reported(plane, "held"))
            second = [await producer.produce(topic, str(n), key=str(n % 5)) for n in range(100, 200)]
            second[0].cancel()
            plane.move("cluster-2")
            await producer.flush(DEADLINE_SECONDS)
            await asyncio.gather(*second[1:])
            assert (producer.generation(), producer.cluster()) == (4, "cluster-2")
            assert producer.metrics().switches == 1

    asyncio.run(run())
    check_exactly_once(clusters.values(), topic, range(200))
    assert plane.reports == {}


@pytest.mark.nightly
def test_the_event_loop_goes_on_while_a_client_opens_and_while_producers_are_held(plane, clusters, topic):
    plane.says(phase="hold")

    async def run() -> None:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.01)

        beating = asyncio.create_task(beat())
        async with AsyncSwitchingProducer(plane.conf(), **{"queue.buffering.max.messages": 10}) as producer:
            sending = asyncio.create_task(_send(producer, topic, 50))
            await until(lambda: producer.metrics().queued_records == 10)
            seen = beats
            await until(lambda: beats > seen + 10)
            assert not sending.done(), "there is no room for more"
            plane.abort()
            await sending
        beating.cancel()

    asyncio.run(run())
    assert sorted(stored(clusters["cluster-1"], topic)) == list(range(50))


async def _send(producer, topic, count):
    await asyncio.gather(*[await producer.produce(topic, str(number)) for number in range(count)])


@pytest.mark.nightly  # the same of the client without asyncio; a consumer with coroutines stays
def test_a_transaction_that_is_open_at_a_hold_is_aborted(plane, clusters, topic):
    async def run() -> None:
        conf = {"transactional.id": f"aio-{uuid.uuid4().hex[:8]}"}
        async with AsyncSwitchingProducer(plane.conf(), **conf) as producer:
            await producer.init_transactions(DEADLINE_SECONDS)
            await producer.begin_transaction()
            lost = await producer.produce(topic, "1")
            plane.hold("cluster-2")
            await until(lambda: reported(plane, "held"))
            with pytest.raises(TransactionAbortedBySwitch):
                await producer.commit_transaction()
            await producer.abort_transaction()
            beginning = asyncio.create_task(producer.begin_transaction())
            await asyncio.sleep(0)
            beginning.cancel()
            await asyncio.wait([beginning])
            plane.move("cluster-2")
            await producer.begin_transaction()
            await producer.produce(topic, "2")
            await producer.commit_transaction()
            await asyncio.wait([lost])
            lost.exception()

    asyncio.run(run())
    assert stored(clusters["cluster-1"], topic) == []
    assert stored(clusters["cluster-2"], topic) == [2]


def test_a_consumer_is_moved_and_its_listeners_may_be_coroutines(plane, clusters, topic):
    for cluster in clusters.values():
        records = [{"value": f"{cluster.name} {n}", "partition": n % 3} for n in range(30)]
        kafka.produce(cluster.servers, technical(cluster.name, topic), records)
    heard = []

    async def assigned(consumer, partitions):
        await asyncio.sleep(0)
        heard.append(("assign", len(partitions)))
        await consumer.assign(partitions)

    async def revoked(consumer, partitions):
        heard.append(("revoke", len(partitions)))
        await consumer.commit(asynchronous=False)

    async def run() -> None:
        conf = plane.conf(group_id=f"group-{uuid.uuid4().hex[:8]}", auto_offset_reset="earliest")
        async with AsyncSwitchingConsumer(conf, **{"enable.auto.commit": False}) as consumer:
            await consumer.subscribe([topic], assigned, revoked)
            old = await consumer.consume(30, DEADLINE_SECONDS)
            assert len(old) == 30
            plane.hold("cluster-2")
            while not reported(plane, "closed"):
                assert await consumer.poll(0.05) is None
            plane.move("cluster-2")
            new = await consumer.consume(30, DEADLINE_SECONDS)
            assert {m.value().decode().split()[0] for m in new} == {"cluster-2"}
            with pytest.raises(StaleGeneration):
                await consumer.commit(message=old[0])
            await consumer.commit(message=new[0], asynchronous=False)
            assert {p.topic for p in await consumer.assignment()} == {topic}

    asyncio.run(run())
    assert heard == [("assign", 3), ("revoke", 3), ("assign", 3), ("revoke", 3)]


@pytest.mark.nightly
def test_what_a_cancelled_poll_had_taken_is_given_by_the_next(plane, clusters, topic):
    cluster = clusters["cluster-1"]

    async def run() -> None:
        conf = plane.conf(group_id=f"group-{uuid.uuid4().hex[:8]}", auto_offset_reset="earliest")
        async with AsyncSwitchingConsumer(conf) as consumer:
            await consumer.assign([TopicPartition(topic, 0, 0)])
            found = []
            for number in range(20):
                polling = asyncio.create_task(consumer.poll(DEADLINE_SECONDS))
                await asyncio.sleep(0.01)
                kafka.produce(
                    cluster.servers, technical(cluster.name, topic), [{"value": str(number), "partition": 0}]
                )
                polling.cancel()
                await asyncio.wait([polling])
                if not polling.cancelled():
                    found.append(polling.result())
            while len(found) < 20:
                found.append(await consumer.poll(DEADLINE_SECONDS))
            assert [int(message.value()) for message in found] == list(range(20))

    asyncio.run(run())


def test_a_refusal_is_raised_when_it_is_opened(plane):
    async def run() -> None:
        plane.status, plane.problem = 404, "no such environment"
        began = time.monotonic()
        with pytest.raises(DiscoveryRefused):
            await AsyncSwitchingProducer(plane.conf()).produce("orders", "1")
        with pytest.raises(AttributeError):
            AsyncSwitchingConsumer(plane.conf()).no_such_method  # noqa: B018
        assert time.monotonic() > began

    asyncio.run(run())
