"""Subjects registered on the primary until they are readable on four targets, under each one's names.

The peer is the least that could do it, in the same run: a loop that reads the primary's schemas topic and produces
each record, unchanged, to a topic on each of the four, without comparing, translating, locking or reading back.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from local_estates import ESTATES, Estate, estate

PRIMARY = "cluster-1"
COPY = "bench-copy"
CLIENTS = 4
GIVE_UP_SECONDS = 120.0
FORMATS = {
    "cluster-1": "acme-retail-prod-orders-bench.S{}",
    "cluster-2": "acme-retail-prod-orders-bench.S{}",
    "cluster-3": "acme-retail-prod-orders-bench.S{}",
    "cluster-4": "acme-prod-orders-bench.S{}",
    "cluster-5": "acme-prod-orders-bench.S{}",
}
"""Subjects of the shipped estate's stream orders, by TopicRecordNameStrategy."""


class Peer(threading.Thread):
    """Copies records as they come; `done` is when the targets had acknowledged the last of so many."""

    def __init__(self, servers: dict[str, str], records: int) -> None:
        super().__init__(daemon=True)
        self._records = records
        source = servers[PRIMARY]
        self._consumer = Consumer({"bootstrap.servers": source, "group.id": "bench", "fetch.wait.max.ms": 10})
        _, end = self._consumer.get_watermark_offsets(TopicPartition("_schemas", 0), timeout=10)
        self._consumer.assign([TopicPartition("_schemas", 0, end)])
        self._producers = []
        for name in FORMATS.keys() - {PRIMARY}:
            config = {"bootstrap.servers": servers[name]}
            admin = AdminClient(config)
            for made in admin.create_topics([NewTopic(COPY, 1, 1)]).values():
                made.result(30)
            self._producers.append(Producer(config | {"linger.ms": 0}))
        self.done = 0.0

    def run(self) -> None:
        copied = 0
        while copied < self._records:
            for message in self._consumer.consume(500, 0.05):
                copied += 1
                for producer in self._producers:
                    producer.produce(COPY, message.value(), message.key())
            for producer in self._producers:
                producer.poll(0)
        for producer in self._producers:
            producer.flush(30)
        self.done = time.monotonic()


def schema(number: int) -> Schema:
    fields = ", ".join(f'{{"name": "field_{n}", "type": ["null", "string"], "default": null}}' for n in range(12))
    return Schema(f'{{"type": "record", "name": "S{number}", "fields": [{fields}]}}', "AVRO")


def measure(running: Estate, subjects: int) -> list[tuple[str, str]]:
    """Measure, and return the table's rows."""
    clusters: dict[str, Any] = running.status()["clusters"]
    clients = {name: SchemaRegistryClient({"url": row["registry"]}) for name, row in clusters.items()}
    # The topics are there, and whoever follows them has begun.
    clients[PRIMARY].register_schema(FORMATS[PRIMARY].format("warm"), Schema('"string"', "AVRO"))
    for name in FORMATS:
        wait_for(clients[name], [FORMATS[name].format("warm")])
    peer = Peer({name: row["bootstrap_servers"] for name, row in clusters.items()}, subjects)
    peer.start()

    def register(number: int) -> None:
        SchemaRegistryClient({"url": clusters[PRIMARY]["registry"]}).register_schema(
            FORMATS[PRIMARY].format(number), schema(number)
        )

    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(register, range(subjects)))
    registered = time.monotonic()
    last = 0.0
    for name in sorted(FORMATS.keys() - {PRIMARY}):
        wait_for(clients[name], [FORMATS[name].format(number) for number in range(subjects)])
        last = time.monotonic()
    check(clients, subjects)
    peer.join(GIVE_UP_SECONDS)
    return [
        (f"{subjects} subjects registered, {CLIENTS} clients", f"{registered - began:.1f} s"),
        ("peer: copied unchanged to four clusters, after the last", f"{max(0.0, peer.done - registered):.2f} s"),
        ("readable on four targets, after the last", f"{last - registered:.2f} s"),
    ]


def wait_for(client: SchemaRegistryClient, subjects: list[str]) -> None:
    """Wait until a cluster has all subjects; ends the run (SystemExit) if that takes too long."""
    deadline, wanted = time.monotonic() + GIVE_UP_SECONDS, set(subjects)
    while not wanted <= set(client.get_subjects()):
        if time.monotonic() > deadline:
            sys.exit(f"{len(wanted - set(client.get_subjects()))} subjects never came")
        time.sleep(0.01)


def check(clients: dict[str, SchemaRegistryClient], subjects: int) -> None:
    """Ends the run (SystemExit) if an id is another one somewhere."""
    for number in range(0, subjects, max(1, subjects // 20)):
        ids = {
            clients[name].get_latest_version(FORMATS[name].format(number)).schema_id for name in sorted(FORMATS)
        }
        if len(ids) != 1:
            sys.exit(f"S{number} has ids {sorted(ids)}")


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subjects", type=int, default=1000)
    given = parser.parse_args()
    with estate(ESTATES / "unbalanced.yaml") as running:
        running.up("--no-verify")
        rows = measure(running, given.subjects)
    print(f"| schema distribution, load average {os.getloadavg()[0]:.0f} | figure |\n|---|---:|")
    for what, figure in rows:
        print(f"| {what} | {figure} |")


if __name__ == "__main__":
    main()
