"""Brokers with the promised number of partitions, and one that cannot hold them: it reports this and restarts."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.eventually import eventually
from tests.support.estate.running import SMALL_ESTATE, RunningEstate
from tests.support.kafka.topics import read_all

PARTITIONS = 10_000
TOPIC_PARTITIONS = 100
SECONDS = 600.0  # a busy machine opens a few logs a second


def fill(servers: str, topics: range, seconds: float = SECONDS) -> Counter[str]:
    """Create topics and write a record to each of their partitions; return how the writes ended."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for number in topics:
        wanted = NewTopic(f"many-{number}", TOPIC_PARTITIONS, 1)
        admin.create_topics([wanted], request_timeout=seconds)[wanted.topic].result(seconds)
    milliseconds = int(seconds * 1000)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "message.timeout.ms": milliseconds,
            # A broker that opens thousands of logs does not know the last ones for longer than the usual 30 s.
            "topic.metadata.propagation.max.ms": milliseconds,
            "log_level": 0,
        }
    )
    ends: Counter[str] = Counter()
    for number in topics:
        for partition in range(TOPIC_PARTITIONS):
            producer.produce(
                f"many-{number}", b"held", partition=partition,
                on_delivery=lambda error, _: ends.update([error.str() if error else "written"]),
            )  # fmt: skip
        producer.poll(0)
    producer.flush(seconds)
    return ends


@pytest.mark.nightly
def test_a_broker_holds_ten_thousand_partitions_and_one_without_memory_says_so(
    boot_estate: Callable[..., RunningEstate], tmp_path: Path
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL_ESTATE.read_text().replace("zone: az2", "zone: az2, heap_mb: 128"))
    place = boot_estate(file)
    held, lacking = "kafka:cluster-1:1", "kafka:cluster-2:1"
    topics = range(PARTITIONS // TOPIC_PARTITIONS)
    assert fill(place.bootstrap_servers("cluster-1"), topics) == {"written": PARTITIONS}
    assert place.process(held)["restarts"] == 0
    last = read_all(place.bootstrap_servers("cluster-1"), f"many-{topics[-1]}")
    assert [record.value() for record in last] == [b"held"] * TOPIC_PARTITIONS

    for number in topics:
        if place.process(lacking)["last_end"]:
            break
        # The broker exits in the middle of a request: it is refused, or never answered.
        with contextlib.suppress(KafkaException, TimeoutError):
            fill(place.bootstrap_servers("cluster-2"), range(number, number + 1), 20.0)
    eventually(lambda: place.process(lacking)["last_end"], "the broker with 128 MB of heap has ended")
    reason = "ended: out of memory; heap 128 MB; raise `heap_mb` of cluster-2 in the estate file"
    assert place.process(lacking)["last_end"]["reason"] == reason
    status = json.loads(place.treeline("status", "--json").stdout)
    assert reason in [row["last_end"]["reason"] for row in status["processes"] if row["last_end"]]
    assert place.process(held)["last_end"] is None
