"""Kafka helpers of tests: topics, producing, and reading everything with an independent reader."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka import KafkaProducer

DEADLINE_SECONDS = 180.0
BROKER_SECONDS = 10.0
"""Seconds after which a broker that has not answered counts as down."""
MARKER_SECONDS = 5.0
"""Seconds to wait for the markers of an open transaction, which may follow its commit."""
_NO_BROKER = frozenset(
    {KafkaError.INVALID_REPLICATION_FACTOR, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT}
)


def create_topic(servers: str, name: str, partitions: int = 1, **config: str) -> None:
    """Create a topic and wait until every broker knows it: the controller answers earlier.

    It keeps records however old their timestamps are, unless `config` says otherwise. Waits for a broker, which a
    busy machine may lack for a moment (fenced, since its heartbeats came too late).
    """
    admin = AdminClient({"bootstrap.servers": servers})
    settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
    deadline = time.monotonic() + DEADLINE_SECONDS
    tried = False
    while True:
        try:
            admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(DEADLINE_SECONDS)
            break
        except KafkaException as error:
            code = error.args[0].code()
            if tried and code == KafkaError.TOPIC_ALREADY_EXISTS:
                break  # the first request succeeded, and its answer came too late
            if code not in _NO_BROKER or time.monotonic() > deadline:
                raise
        tried = True
        time.sleep(0.5)
    brokers = admin.list_topics(timeout=DEADLINE_SECONDS).brokers.values()
    for broker in brokers:
        # A new client asks the one broker that it knows.
        alone = AdminClient({"bootstrap.servers": f"{broker.host}:{broker.port}"}) if len(brokers) > 1 else admin
        while _partitions_known(alone, name) < partitions:
            assert time.monotonic() < deadline, f"broker {broker.id} does not know {name}"
            time.sleep(0.02)


def _partitions_known(admin: AdminClient, topic: str) -> float:
    """Return how many partitions of a topic a broker knows; more than any number if it is down."""
    try:
        return len(admin.list_topics(topic, BROKER_SECONDS).topics[topic].partitions)
    except KafkaException:
        return math.inf


def configure(servers: str, topic: str, config: Mapping[str, str]) -> None:
    """Set some of a topic's configuration."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": servers})
    (answer,) = admin.incremental_alter_configs([resource]).values()
    answer.result(DEADLINE_SECONDS)


def topics(servers: str) -> set[str]:
    """Return the names of all topics."""
    return set(AdminClient({"bootstrap.servers": servers}).list_topics(timeout=DEADLINE_SECONDS).topics)


@contextmanager
def suppress_unknown() -> Iterator[None]:
    """Ignore that a topic to be deleted is gone: a request without an answer in time is sent again."""
    try:
        yield
    except KafkaException as gone:
        if gone.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


def produce(servers: str, topic: str, records: Iterable[Mapping[str, Any]], **config: Any) -> None:
    """Produce records given as keyword arguments of `Producer.produce`, all acknowledged, in order per partition.

    Without idempotence, a batch that a broker refuses (fenced on a busy machine) would follow the next one.
    """
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True, **config})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for record in records:
        while True:
            try:
                producer.produce(topic, on_delivery=delivered, **record)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert not failed, failed[0]


class NameInBytes(str):
    """A header's name as any bytes: kafka-python asks it for its encoding, and writes the answer."""

    content: bytes

    def __new__(cls, content: bytes) -> NameInBytes:
        made = super().__new__(cls, content.decode("latin-1"))
        made.content = content
        return made

    def encode(self, *_: object) -> bytes:
        return self.content


def produce_with_names(
    servers: str, topic: str, headers: list[tuple[bytes, bytes]], value: bytes = b"v", partition: int = 0
) -> int:
    """Produce one record whose header names are any bytes; return its offset."""
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=0)
    try:
        named = [(NameInBytes(name), content) for name, content in headers]
        sent = producer.send(topic, value, headers=named, partition=partition)
        return int(sent.get(DEADLINE_SECONDS).offset)
    finally:
        producer.close()


def read_all(servers: str, topic: str, isolation: str = "read_committed") -> list[Message]:
    """Return every visible record of a topic up to its current ends, partition by partition in log order."""
    found = list(read_from_zero(servers, topic, isolation))
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def read_from_zero(servers: str, topic: str, isolation: str = "read_committed") -> Iterator[Message]:
    """Yield what `read_all` returns without holding all of it; log order within each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"test-{uuid.uuid4().hex}",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # The end of a partition is reported when a fetch comes back empty, which may take the broker a while.
            "fetch.wait.max.ms": 1,
        }
    )
    partitions = consumer.list_topics(topic, DEADLINE_SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    left, deadline = set(partitions), time.monotonic() + DEADLINE_SECONDS
    ends: dict[int, int] = {}
    ending: dict[int, float] = {}
    while left:
        assert time.monotonic() < deadline, f"{topic}: partitions {left} have no end"
        for message in consumer.consume(5000, 0.01):
            if message.error() is None:
                yield message
                deadline = time.monotonic() + DEADLINE_SECONDS
            elif message.error().code() == KafkaError._PARTITION_EOF:
                at = TopicPartition(topic, message.partition())
                # The end as first seen: a topic that is written to all the time has another one each time.
                end = ends.setdefault(at.partition, consumer.get_watermark_offsets(at, cached=True)[1])
                if message.offset() >= end:
                    left.discard(at.partition)
                else:
                    ending.setdefault(at.partition, time.monotonic() + MARKER_SECONDS)
        left -= {partition for partition, until in ending.items() if time.monotonic() > until}
    consumer.close()
