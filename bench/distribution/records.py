"""Records of the benchmark: numbered, to count every copy; timed, to measure latency."""

from __future__ import annotations

import os
import struct
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Producer, TopicPartition

_MARK = struct.Struct(">QQ")  # number, nanoseconds of the monotonic clock when it was sent
READ_SECONDS = 300
LARGEST_BYTES = 16_000_000
"""Maximum size of a record in the topics of the benchmark."""


def fill(servers: str, topic: str, partitions: int, count: int, size_bytes: int) -> None:
    """Produce `count` records of `size_bytes`, spread over the partitions, without compression."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 262144,
            "queue.buffering.max.kbytes": 131072,
            "queue.buffering.max.messages": 500000,
            "message.max.bytes": LARGEST_BYTES,
        }
    )
    rest = os.urandom(size_bytes - _MARK.size)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, _MARK.pack(number, 0) + rest, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(READ_SECONDS):
        raise SystemExit("the backlog could not be produced")
    check_copies(servers, topic, partitions, count)


def _consumer(servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"bench-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        }
    )


def check_copies(servers: str, topic: str, partitions: int, count: int) -> None:
    """Check that every record is there once and in its partition's order; raise SystemExit otherwise."""
    consumer = _consumer(servers)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    last = [partition - partitions for partition in range(partitions)]
    left, deadline = set(range(partitions)), time.monotonic() + READ_SECONDS
    while left:
        if time.monotonic() > deadline:
            raise SystemExit(f"{topic} cannot be read to its end")
        for message in consumer.consume(10000, 0.5):
            partition = message.partition()
            if message.error() is not None:
                if message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(partition)
                continue
            number, _ = _MARK.unpack_from(message.value())
            if number != last[partition] + partitions:
                raise SystemExit(f"{topic}/{partition}: record {number} after {last[partition]}: lost or doubled")
            last[partition] = number
    consumer.close()
    if sum(number // partitions + 1 for number in last) != count:
        raise SystemExit(f"{topic}: last records are {last}, {count} were produced")


def send_at_rate(servers: str, topic: str, partitions: int, rate: int, seconds: float) -> None:
    """Produce `rate` records of 1000 B a second, evenly."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    rest, began = os.urandom(1000 - _MARK.size), time.monotonic()
    for number in range(int(rate * seconds)):
        ahead = began + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        producer.produce(topic, _MARK.pack(number, time.monotonic_ns()) + rest, partition=number % partitions)
        producer.poll(0)
    producer.flush(30)


def read_until(
    servers: str, topic: str, partitions: int, count: int, ready: object, deadline_seconds: float
) -> dict:
    """Read new records; return number -> ms since sending. `ready.set()` is called once assigned."""
    consumer = _consumer(servers)
    consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in range(partitions)])
    found: dict[int, float] = {}
    ends: set[int] = set()
    deadline = time.monotonic() + deadline_seconds
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(1, 0.2) + consumer.consume(1000, 0):
            if message.error() is not None:
                ends.add(message.partition())
                if len(ends) == partitions:
                    ready.set()
                continue
            number, sent = _MARK.unpack_from(message.value())
            found[number] = (time.monotonic_ns() - sent) / 1e6
    consumer.close()
    return found
