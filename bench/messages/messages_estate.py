"""Estate of the benchmarks of messages: two clusters, one stream, and a main function that they share."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from confluent_kafka import Producer
from local_estates import Estate, estate

FILE = """\
name: messages
primary: cluster-1
clusters:
  cluster-1: {brokers: 1}
  cluster-2: {brokers: 1}
tree: {level: 1, children: [{cluster: cluster-1}, {cluster: cluster-2}]}
tenants:
  bench: {instances: {load: {environments: {prod: {streams: {orders: {partitions: 6}}}}}}}
"""
STREAM, TOPIC, PARTITIONS = "bench/load/prod/orders", "bench-load-prod-orders", 6


def fill(servers: str, records: int, first_ms: int) -> None:
    """Write records: a key, a header, and a value of 200 bytes in JSON."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.num.messages": 20_000, "acks": 1})
    for number in range(records):
        value = (
            b'{"id": 1%09d, "status": "%s", "total": %d.5, "customer": "c-%06d", "currency": "EUR", '
            b'"channel": "web", "city": "Amsterdam", "placed_at": "2026-11-29T12:30:00Z", '
            b'"lines": [{"sku": "a-17", "n": 2}]}'
        ) % (
            number,
            (b"paid", b"open", b"sent")[number % 3],
            number % 1000,
            number % 999_983,
        )
        while True:
            try:
                producer.produce(
                    TOPIC,
                    value,
                    b"order-%09d" % number,
                    number % PARTITIONS,
                    timestamp=first_ms + number,
                    headers=[("trace", b"%08x" % number)],
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1_000_000 == 0:
            print(f"{number:,} of {records:,} records written", file=sys.stderr)
    producer.flush(120)


def api_processes(running: Estate) -> list[int]:
    """Return the ids of the control plane's processes that serve the API. Ends the run if there is none."""
    found = [
        each["pid"] for each in running.status()["processes"] if each["name"].startswith("api") and each.get("pid")
    ]
    if not found:
        sys.exit("no process of the API is in `treeline status`")
    return found


def run(about: str | None, option: str, usual: int, measure: Callable[[Estate, int], bool], missed: str) -> None:
    """Measure on an estate of its own with the command line's number; end with an error if an aim is missed."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(option, type=int, default=usual, dest="number")
    number = parser.parse_args().number
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "messages.yaml"
        file.write_text(FILE)
        with estate(file) as running:
            running.up("--no-verify")
            reached = measure(running, number)
    if not reached:
        sys.exit(missed)
