"""Messages of a large stream: the first page by time, the newest page, and how fast filters scan.

Requests go through the REST API with audit and decoding. The peer is a plain loop with confluent-kafka that
searches the same log for the same text, in the same run. Beside each rate is the processor time of the API and
its decoder processes. Fails if a first page by time takes a second or more, or a filter scans fewer than 200,000
records per second.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import messages_estate
from confluent_kafka import Consumer, KafkaError, TopicPartition
from messages_estate import PARTITIONS, STREAM, TOPIC, Estate, api_processes, fill

MOST_SECONDS, LEAST_RATE = 1.0, 200_000
NEEDLE = "needle-that-no-record-has"
FILTERS = {
    "text": f"text:{NEEDLE}",
    "key": f"key:{NEEDLE}",
    "header": f"header:trace={NEEDLE}",
    'JSONPath $.status == "…"': f'json:$.status == "{NEEDLE}"',
    "JSONPath $.total > 5000": "json:$.total > 5000",
    "JSONPath $.lines[?@.n > 3]": "json:$.lines[?@.n > 3]",
    "JSONPath match($.status, …)": 'json:match($.status, "[a-d]*")',
}
SCANS = 5
"""Requests of one scan; each reads up to the bound of a request."""


def asked(client: httpx2.Client, **query: Any) -> tuple[float, dict[str, Any]]:
    """Return the seconds of a request, and its answer."""
    began = time.monotonic()
    answer = client.get("/messages", params={"stream": STREAM, "cluster": "cluster-1", **query})
    took = time.monotonic() - began
    if answer.status_code != 200:
        sys.exit(f"{answer.status_code} for {query}: {answer.text[:500]}")
    found: dict[str, Any] = answer.json()
    return took, found


def pages(client: httpx2.Client, starts: list[str]) -> list[float]:
    """Return the milliseconds of the first 50 messages from each start."""
    found = []
    for start in starts:
        took, answer = asked(client, **{"from": start})
        if len(answer["items"]) != 50:
            sys.exit(f"{len(answer['items'])} messages from {start}")
        found.append(took * 1000)
    return found


def processor_seconds(processes: list[int]) -> float:
    """Return the processor time that processes and those that they started have used, also those that ended."""
    found = 0.0
    for process in (*processes, *(child for parent in processes for child in children(parent))):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        found += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return found


def children(process: int) -> list[int]:
    """Return the ids of the processes that the threads of a process have started, and that run."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(each) for found in lists for each in found.read_text().split()]


def scanned(client: httpx2.Client, condition: str, processes: list[int]) -> tuple[float, float]:
    """Return the records per second that requests with a filter look at, and the processor seconds of a million.

    The requests come one after the other.
    """
    asked(client, filter=condition, limit=1, **{"from": "latest"})  # the first one starts the decoder
    records, seconds, start, before = 0, 0.0, "earliest", processor_seconds(processes)
    for _ in range(SCANS):
        took, answer = asked(client, **{"from": start, "filter": condition})
        records, seconds = records + answer["scanned_records"], seconds + took
        if answer["complete"]:
            break
        start = answer["next"]["from"]
    return records / seconds, (processor_seconds(processes) - before) * 1e6 / records


def plain_loop(servers: str, records: int) -> float:
    """Return the records per second of a loop in Python that searches values for the text."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    needle, seen, ended, began = NEEDLE.encode(), 0, 0, time.monotonic()
    while ended < PARTITIONS and seen < records:
        for message in consumer.consume(10_000, 0.1):
            if message.error() is None:
                seen += 1
                assert needle not in (message.value() or b"")
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended += 1
    took = time.monotonic() - began
    consumer.close()
    return seen / took


def measure(running: Estate, records: int) -> bool:
    """Print the table; return whether the aims are reached."""
    servers = running.status()["clusters"]["cluster-1"]["bootstrap_servers"]
    paused = running.treeline("distributor", "pause", "cluster-1", "1")
    if paused.returncode:
        sys.exit(paused.stderr)
    # Not older than retention allows.
    first_ms = int(time.time() * 1000) - records
    fill(servers, records, first_ms)
    chance = random.Random(1)
    with running.client() as client:
        asked(client)
        by_time = pages(client, [f"time:{first_ms + chance.randrange(records - 100)}" for _ in range(30)])
        newest = pages(client, ["latest"] * 10)
        processes = api_processes(running)
        rates = {name: scanned(client, condition, processes) for name, condition in FILTERS.items()}
    peer = plain_loop(servers, min(records, 5_000_000))
    print(f"\n| {records:,} records of 200 bytes, {PARTITIONS} partitions | median | slowest |\n|---|---|---|")
    print(f"| first 50 from a time | {statistics.median(by_time):.0f} ms | {max(by_time):.0f} ms |")
    print(f"| newest 50 | {statistics.median(newest):.0f} ms | {max(newest):.0f} ms |")
    print("\n| scan | records/s | of the plain loop | processor seconds of a million |\n|---|---|---|---|")
    print(f"| plain loop, confluent-kafka | {peer:,.0f} | 1 | |")
    for name, (rate, processor) in rates.items():
        print(f"| filter {name} | {rate:,.0f} | {rate / peer:.2f} | {processor:.1f} |")
    return max(by_time) < MOST_SECONDS * 1000 and min(rate for rate, _ in rates.values()) >= LEAST_RATE


if __name__ == "__main__":
    messages_estate.run(__doc__, "--records", 10_000_000, measure, "an aim is missed")
