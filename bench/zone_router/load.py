"""Producer or consumer in its own process; prints its result as JSON.

`python load.py produce
consume
latency
steady SERVERS ZONE TOPIC MEGABYTES [TEXT]`; records of 1,000 bytes, in batches of 64 KiB. Records of `steady`
contain the text.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

RECORD_BYTES = 1_000
PARTITIONS = 6
STEADY_BYTES_PER_SECOND = 5_000_000

Delivered = Callable[[object, object], None]


def produce(base: dict[str, Any], topic: str, megabytes: int) -> dict[str, Any]:
    """Produce as fast as possible."""
    producer = Producer(
        {**base, "batch.size": 65_536, "linger.ms": 5, "acks": "all", "queue.buffering.max.kbytes": 131_072}
    )
    values = [os.urandom(RECORD_BYTES) for _ in range(64)]
    count, failed = megabytes * 1_000_000 // RECORD_BYTES, []
    producer.list_topics(topic, 30)

    def delivered(error: object, message: object) -> None:
        if error:
            failed.append(str(error))

    began = time.perf_counter()
    for number in range(count):
        hand_in(producer, topic, values[number % 64], number % PARTITIONS, delivered)
        if number % 256 == 0:
            producer.poll(0)
    producer.flush(120)
    return {"seconds": time.perf_counter() - began, "failed": len(failed)}


def hand_in(producer: Producer, topic: str, value: bytes, partition: int, delivered: Delivered) -> None:
    """Produce a record once the queue has room."""
    while True:
        try:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
            break
        except BufferError:
            producer.poll(0.01)


def consume(base: dict[str, Any], topic: str, megabytes: int) -> dict[str, Any]:
    """Consume everything that was produced."""
    consumer = Consumer(
        {**base, "group.id": "bench", "fetch.min.bytes": 65_536, "queued.max.messages.kbytes": 65_536}
    )
    consumer.list_topics(topic, 30)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    wanted, seen = megabytes * 1_000_000 // RECORD_BYTES, 0
    began = time.perf_counter()
    while seen < wanted:
        seen += len(consumer.consume(10_000, 1.0))
    seconds = time.perf_counter() - began
    consumer.close()
    return {"seconds": seconds, "failed": 0}


def latency(base: dict[str, Any], topic: str, megabytes: int) -> dict[str, Any]:
    """Measure the time from produce to acknowledgement at a steady rate."""
    value = os.urandom(RECORD_BYTES)
    seconds, count, took = paced({**base, "linger.ms": 5}, topic, megabytes, lambda number: value)
    return {
        "seconds": seconds,
        "failed": count - len(took),
        "p50_ms": 1_000 * took[len(took) // 2],
        "p99_ms": 1_000 * took[len(took) * 99 // 100],
    }


def steady(base: dict[str, Any], topic: str, megabytes: int, text: str) -> dict[str, Any]:
    """Produce full batches at a steady rate."""

    def value(number: int) -> bytes:
        at = number % len(drawn)
        return drawn[:at] + text.encode() + drawn[at:]

    drawn = os.urandom(RECORD_BYTES - len(text))
    seconds, count, took = paced({**base, "linger.ms": 200}, topic, megabytes, value)
    return {"seconds": seconds, "failed": count - len(took)}


def paced(
    config: dict[str, Any], topic: str, megabytes: int, value: Callable[[int], bytes]
) -> tuple[float, int, list[float]]:
    """Return seconds, number of records, and the sorted latencies of acknowledged records in seconds."""
    producer = Producer({**config, "batch.size": 65_536, "acks": "all"})
    producer.list_topics(topic, 30)
    took: list[float] = []
    count = megabytes * 1_000_000 // RECORD_BYTES
    a_second = STEADY_BYTES_PER_SECOND / RECORD_BYTES
    began = time.perf_counter()
    for number in range(count):
        while (now := time.perf_counter()) < began + number / a_second:
            producer.poll(began + number / a_second - now)

        def delivered(error: object, message: object, handed_in: float = now) -> None:
            if not error:
                took.append(time.perf_counter() - handed_in)

        hand_in(producer, topic, value(number), number // 64 % PARTITIONS, delivered)
    producer.flush(120)
    return time.perf_counter() - began, count, sorted(took)


if __name__ == "__main__":
    what, servers, zone, topic, megabytes, *text = sys.argv[1:]
    config = {"bootstrap.servers": servers, "client.id": f"zone={zone}", "log_level": 0}
    run = {"produce": produce, "consume": consume, "latency": latency, "steady": steady}[what]
    print(json.dumps(run(config, topic, int(megabytes), *text)))
