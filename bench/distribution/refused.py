"""Time until a distributor dead-letters a refused record under load, on two real brokers.

    python bench/distribution/refused.py --partitions 10 100 --rate 2000

Prints one line for each number of partitions: seconds from the record's production until the event that names it.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from backend import logs
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import DistributedStream, EdgePlan, Endpoint, HeaderNames
from backend.domain.tree import tree_shape
from backend.kafka.copy.clients import CopyLimits
from backend.kafka.copy.control_plane import ControlPlane, Refused
from backend.settings import settings
from bench.brokers import single_broker_clusters
from tests.support.domain.plans import lives, plans_of
from tests.support.kafka.topics import configure, create_topic
from workers.distribution.distributor import DistributorThread
from workers.distribution.worker_session import copy_limits

MOST_BYTES = 100_000
SETTLE_SECONDS = 10.0
"""Seconds of load before the refused record: positions are known and the distributor keeps up."""


@dataclass
class Load:
    """Records at a fixed rate over all partitions, from a separate thread."""

    servers: str
    topic: str
    partitions: int
    rate: int
    over: threading.Event = field(default_factory=threading.Event)
    sent: int = 0

    def run(self) -> None:
        """Produce until `over`."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, "enable.idempotence": True})
        began = time.monotonic()
        while not self.over.is_set():
            while self.sent < (time.monotonic() - began) * self.rate:
                try:
                    producer.produce(self.topic, b"%0100d" % self.sent, partition=self.sent % self.partitions)
                except BufferError:
                    break
                self.sent += 1
            producer.poll(0)
            time.sleep(0.005)
        while producer.flush(30):
            pass


def plan_of(servers: dict[str, str], topic: str, partitions: int) -> EdgePlan:
    """Return the plan of the one edge from `a` to `b`, in a tree with names of this run."""
    mark = topic.rpartition(".")[2]
    names = {name: f"{name}{mark}" for name in servers}
    document = {"level": 1, "children": [{"cluster": name} for name in names.values()]}
    root = tree_shape.parse(document, set(names.values()))
    endpoints = {
        names[name]: Endpoint(name=names[name], number=number, bootstrap_servers=servers[name], properties={})
        for number, name in enumerate(servers, start=1)
    }
    stream = DistributedStream(
        stream=f"t/i/e/{mark}",
        partitions=partitions,
        technical_names=dict.fromkeys(names.values(), topic),
        topics=lives(dict.fromkeys(names.values(), 1)),
    )
    headers = HeaderNames(flags="copy-flags", origin="copy-origin", write_origin=True)
    plans = plans_of(root, tree_shape.default_targets(root), endpoints, [stream], 1, headers)
    return plans[Task(names["a"], 1, 0)]


def measure(servers: dict[str, str], partitions: int, rate: int, longest_seconds: float) -> float | None:
    """Return the seconds until the record is dead-lettered; None if it takes too long."""
    topic = f"refused.{uuid.uuid4().hex[:8]}"
    for at in servers.values():
        create_topic(at, topic, partitions)
    configure(servers["b"], topic, {"max.message.bytes": str(MOST_BYTES)})
    found = threading.Event()

    def dead_letter(refused: Refused) -> str:
        found.set()
        return f"bench-{refused.partition}-{refused.offset}"

    limits: CopyLimits = copy_limits(settings())
    plan = plan_of(servers, topic, partitions)
    thread = DistributorThread(
        plan.task, 1, limits, lambda plan: None, ControlPlane(dead_letter=dead_letter), plan, 1
    )
    load = Load(servers["a"], topic, partitions, rate)
    loading = threading.Thread(target=load.run)
    loading.start()
    thread.start()
    try:
        time.sleep(SETTLE_SECONDS)
        producer = Producer({"bootstrap.servers": servers["a"]})
        producer.produce(topic, b"x" * 2 * MOST_BYTES, partition=partitions // 2)
        producer.flush(30)
        began = time.monotonic()
        return time.monotonic() - began if found.wait(longest_seconds) else None
    finally:
        load.over.set()
        thread.stop()
        loading.join()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rate", type=int, default=2000, help="records a second beside the refused one")
    parser.add_argument("--longest-seconds", type=float, default=240.0)
    given = parser.parse_args()
    logs.configure()
    with tempfile.TemporaryDirectory() as folder, single_broker_clusters(Path(folder), ["a", "b"]) as servers:
        for partitions in given.partitions:
            seconds = measure(servers, partitions, given.rate, given.longest_seconds)
            outcome = f"dead-lettered after {seconds:.1f} s" if seconds is not None else "not dead-lettered"
            print(f"{partitions} partitions, {given.rate} records/s: {outcome}", flush=True)


if __name__ == "__main__":
    main()
