"""Unmodified clients of both families in each zone, which know only their zone's node; and the leaders' logs."""

from __future__ import annotations

import random
import re
import secrets
import string
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, Message, Producer
from kafka.record import MemoryRecords

from tests.kafka.zone_networks.lab import REPLICAS, Lab
from tests.support.kafka import kafka_tools
from tests.support.kafka.three_brokers import RACKS
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import client, until

T = TypeVar("T")
FAMILIES = ("librdkafka", "java")
_LETTERS = string.ascii_letters + string.digits
_PRINTED = re.compile(r"^CreateTime:(\d+)\tPartition:(\d+)\tOffset:(\d+)\t(\S+)\t(\S+)$")


@dataclass(frozen=True, order=True)
class Record:
    """A record with its position."""

    partition: int
    offset: int
    timestamp: int
    key: str
    value: str


def new_canary() -> str:
    """Return sixteen unique letters that survive the console."""
    return "".join(secrets.choice(_LETTERS) for _ in range(16))


def records_of(zone: str, family: str, canary: str, count: int, size: int) -> dict[str, str]:
    """Return keys and values; each value contains the canary at some position."""
    draw = random.Random(f"{zone} {family}")

    def value() -> str:
        rest = "".join(draw.choices(_LETTERS, k=size - len(canary)))
        at = draw.randrange(len(rest))
        return rest[:at] + canary + rest[at:]

    return {f"{zone}-{family}-{number}": value() for number in range(count)}


def everywhere(lab: Lab, work: Callable[[str, str], T]) -> dict[tuple[str, str], T]:
    """Run `work` for each zone and family concurrently, each thread in its zone."""

    def there(zone: str, family: str) -> T:
        with lab.namespaces.within(zone):
            return work(zone, family)

    with ThreadPoolExecutor(len(RACKS) * len(FAMILIES)) as pool:
        begun = {(zone, family): pool.submit(there, zone, family) for zone in RACKS for family in FAMILIES}
    return {key: each.result() for key, each in begun.items()}


def produce(lab: Lab, topic: str, zone: str, family: str, records: dict[str, str]) -> None:
    """Produce through the zone's node; wait for each acknowledgement."""
    node = lab.router.nodes[zone]
    if family == "librdkafka":
        produce_by(client(node, linger_ms=5), topic, records)
        return
    done = kafka_tools.run(
        kafka_tools.PRODUCER,
        *("--bootstrap-server", node.servers, "--topic", topic, "--producer-property", f"client.id=zone={zone}"),
        *("--property", "parse.key=true", "--property", "key.separator=:"),
        *("--request-timeout-ms", "60000"),  # its default is three attempts of 1.5 s
        stdin="".join(f"{key}:{value}\n" for key, value in records.items()),
    )
    assert (done.returncode, "ERROR" in done.stderr) == (0, False), done.stderr[-4_000:]


def produce_by(config: dict[str, Any], topic: str, records: dict[str, str]) -> None:
    """Produce with librdkafka to all partitions in turn; wait for each acknowledgement."""
    done: list[Message] = []
    failed: list[str] = []
    producer = Producer(config)
    for at, (key, value) in enumerate(records.items()):
        producer.produce(
            topic,
            key=key,
            value=value,
            partition=at % len(REPLICAS),
            on_delivery=lambda error, message: failed.append(str(error)) if error else done.append(message),
        )
        producer.poll(0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert failed == [] and len(done) == len(records)


def read(lab: Lab, topic: str, zone: str, family: str, count: int) -> list[Record]:
    """Read through the zone's node, in a new group."""
    node, group = lab.router.nodes[zone], f"{topic}-{zone}-{family}"
    if family == "librdkafka":
        return read_by(client(node, group_id=group, auto_offset_reset="earliest"), topic, count)
    shown = [word for name in ("timestamp", "partition", "offset", "key") for word in _shown(name)]
    done = kafka_tools.run(
        kafka_tools.CONSUMER,
        *("--bootstrap-server", node.servers, "--topic", topic, "--group", group, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", "60000"),
        *("--consumer-property", f"client.id=zone={zone}", *shown),
    )
    printed = [_PRINTED.match(line) for line in done.stdout.splitlines()]
    assert all(printed), done.stdout
    return sorted(Record(int(each[2]), int(each[3]), int(each[1]), each[4], each[5]) for each in printed if each)


def _shown(name: str) -> tuple[str, str]:
    return "--property", f"print.{name}=true"


def read_by(config: dict[str, Any], topic: str, count: int) -> list[Record]:
    """Read with librdkafka from all partitions, and check the CRC of each batch."""
    reader = Consumer(config | {"check.crcs": True})
    reader.subscribe([topic])
    found: list[Record] = []
    for _ in until(DEADLINE_SECONDS):
        if len(found) >= count:
            break
        for each in reader.consume(1_000, 0.5):
            assert each.error() is None, each.error()
            found.append(
                Record(
                    each.partition(),
                    each.offset(),
                    each.timestamp()[1],
                    each.key().decode(),
                    each.value().decode(),
                )
            )
    reader.close()
    return sorted(found)


def every_zone_reads_at_home(lab: Lab) -> bool:
    """Return whether no node read a new topic from another zone's leader.

    Nodes connect to mains at the first read.
    """
    topic, before = lab.topic(), lab.cold_reads()
    records = {str(number): "first" for number in range(len(REPLICAS))}
    for zone in RACKS:
        node = lab.router.nodes[zone]
        with lab.namespaces.within(zone):
            produce_by(client(node), topic, records)
            read_by(client(node, group_id=f"{topic}-{zone}", auto_offset_reset="earliest"), topic, len(records))
    return lab.cold_reads() == before


def leaders_logs(lab: Lab, topic: str) -> list[Record]:
    """Return the logs as on the leaders' disks, and check the CRC of each batch."""
    return sorted(
        Record(partition, record.offset, record.timestamp, record.key.decode(), record.value.decode())
        for partition in range(len(REPLICAS))
        for segment in sorted(lab.log_of(topic, partition).glob("*.log"))
        for record in _records(segment)
    )


def _records(segment: Path) -> Iterator[Any]:
    batches = MemoryRecords(segment.read_bytes())
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        yield from batch
