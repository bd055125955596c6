"""Measure when a record is visible in another zone and at the leader, in one run.

Times are from its commit until a consumer in another zone has it, and until one that reads directly from the
leader has it. Three brokers on this machine, three replicas; the leader in az1, the reader in az2, object storage
a local folder. A record is committed when its producer has the acknowledgement or a reader has it, whichever comes
first.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.support.kafka.three_brokers import NODES, Brokers
from tests.support.zones.nodes import Router, client

TOPIC = "visible"
MOST_MS = 50.0
PERCENT = 95
QUIET = {"log_level": 0}


class Reader:
    """Consumer that notes when each number arrived."""

    def __init__(self, config: dict) -> None:
        self.seen: dict[int, float] = {}
        self._ended = threading.Event()
        self._config = config | {"group.id": secrets.token_hex(4), "fetch.wait.max.ms": 500}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        reader = Consumer(self._config)
        reader.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        while not self._ended.is_set():
            message = reader.poll(0.2)
            if message is not None and message.error() is None:
                self.seen[int(message.value()[:10])] = time.monotonic()
        reader.close()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def measured(direct: str, router: Router, records: int, rate: float, size: int) -> tuple[list[float], list[float]]:
    """Return milliseconds from commit: (to a reader in another zone, to one at the leader)."""
    readers = [Reader(client(router.nodes["az2"])), Reader({"bootstrap.servers": direct, **QUIET})]
    acknowledged: dict[int, float] = {}
    producer = Producer(client(router.nodes["az1"], linger_ms=0))
    for number in range(-50, records):
        producer.produce(
            TOPIC,
            f"{number:010d}".encode() + bytes(size),
            partition=0,
            on_delivery=lambda _, message: acknowledged.setdefault(int(message.value()[:10]), time.monotonic()),
        )
        producer.poll(1 / rate)
    producer.flush()
    deadline = time.monotonic() + 30
    while any(len(each.seen) < records + 50 for each in readers) and time.monotonic() < deadline:
        time.sleep(0.1)
    for each in readers:
        each.end()
    in_zone, at_leader = (each.seen for each in readers)
    committed = {n: min(acknowledged[n], in_zone[n], at_leader[n]) for n in range(records)}
    return tuple(sorted((seen[n] - committed[n]) * 1_000 for n in range(records)) for seen in (in_zone, at_leader))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--rate", type=float, default=100.0, help="records per second")
    parser.add_argument("--size", type=int, default=1_000, help="record size in bytes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        brokers = Brokers(Path(folder))
        router = Router(Path(folder) / "router", brokers, channel=True, reads={})
        try:
            brokers.start(*NODES)
            router.start()
            brokers.create(TOPIC, [[1, 2, 3]])
            in_zone, at_leader = measured(brokers.servers, router, given.records, given.rate, given.size)
        finally:
            router.end()
            brokers.end()
    print("| ms from commit | in another zone | at the leader |\n|---|---:|---:|")
    for percent in (50, PERCENT, 99):
        cells = [statistics.quantiles(each, n=100)[percent - 1] for each in (in_zone, at_leader)]
        print(f"| p{percent} | {cells[0]:.1f} | {cells[1]:.1f} |")
    late = statistics.quantiles(in_zone, n=100)[PERCENT - 1]
    if late > MOST_MS:
        print(f"limit exceeded: p{PERCENT} {late:.1f} ms", file=sys.stderr)
    return 1 if late > MOST_MS else 0


if __name__ == "__main__":
    sys.exit(main())
