"""Longest stall of the copied records while workers are killed again and again.

    python bench/estate/kills.py --who parent|child|mixed --kills 20 --seed 7

Boots the small estate of the tests, lets records flow from cluster-1 to cluster-2, and kills every 2 to 6 seconds:
the worker that runs distributors (its parent process, with which its pool ends), or the pool process with the most
threads, which runs the most tasks. The stall is the longest gap between two arrivals of one partition on
cluster-2. At the end every record must have arrived exactly once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from local_estates import Estate, estate

from backend.estate.home import Home
from backend.estate.running import read_state
from backend.settings import PROJECT_ROOT

SMALL = PROJECT_ROOT / "tests" / "support" / "estate" / "small.yaml"
TOPIC = "acme-retail-prod-orders"
PARTITIONS = 2
RECORDS_PER_SECOND = 50
PAUSE_SECONDS = (2.0, 6.0)
SETTLE_SECONDS = 20.0


class Arrivals(threading.Thread):
    """Reads the copies as they arrive and stores when the last one of each partition did."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.seen: Counter[bytes] = Counter()
        self.longest = dict.fromkeys(range(PARTITIONS), 0.0)
        self.ended = threading.Event()
        self._servers = servers

    def run(self) -> None:
        reader = Consumer(
            {"bootstrap.servers": self._servers, "group.id": "kills", "isolation.level": "read_committed"}
        )
        reader.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        last: dict[int, float] = {}
        while not self.ended.is_set():
            message = reader.poll(0.2)
            if message is None or message.error():
                continue
            now, partition = time.monotonic(), message.partition()
            self.longest[partition] = max(self.longest[partition], now - last.get(partition, now))
            last[partition] = now
            self.seen[message.value()] += 1
        reader.close()


class Load(threading.Thread):
    """Produces at a steady rate to all partitions of cluster-1."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self.ended = threading.Event()
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})

    def run(self) -> None:
        while not self.ended.wait(1 / RECORDS_PER_SECOND):
            self._producer.produce(TOPIC, str(self.sent).encode(), partition=self.sent % PARTITIONS)
            self.sent += 1
            self._producer.poll(0)
        self._producer.flush()


def worker(running: Estate) -> int | None:
    """Return the process id of the distributors' worker, if it runs now."""
    state = read_state(Home(running.home.resolve()))
    rows = state["processes"] if state else []
    return next(row["pid"] for row in rows if row["name"] == "worker:shifts")


def kill(running: Estate, who: str) -> str:
    """Kill one process, if it runs; return which one."""
    pid = worker(running)
    if pid is None:
        return "none: being started"
    if who == "parent":
        os.kill(pid, signal.SIGKILL)
        return "parent"
    pool = psutil.Process(pid).children()
    if not pool:
        return "none: no pool yet"
    max(pool, key=lambda process: process.num_threads()).kill()
    return "child"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--who", choices=["parent", "child", "mixed"], default="parent")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    with estate(SMALL) as running:
        running.up("--no-verify")
        servers = {name: row["bootstrap_servers"] for name, row in running.status()["clusters"].items()}
        load, arrivals = Load(servers["cluster-1"]), Arrivals(servers["cluster-2"])
        load.start()
        arrivals.start()
        deadline = time.monotonic() + 120
        while len(arrivals.seen) < RECORDS_PER_SECOND and time.monotonic() < deadline:
            time.sleep(0.1)
        arrivals.longest = dict.fromkeys(range(PARTITIONS), 0.0)
        began, done = time.monotonic(), Counter[str]()
        for _ in range(given.kills):
            time.sleep(rng.uniform(*PAUSE_SECONDS))
            who = given.who if given.who != "mixed" else rng.choice(["parent", "child"])
            done[kill(running, who)] += 1
        took = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        load.ended.set()
        load.join()
        deadline = time.monotonic() + 120
        while len(arrivals.seen) < load.sent and time.monotonic() < deadline:
            time.sleep(0.1)
        arrivals.ended.set()
        arrivals.join()
        copied = [arrivals.seen[str(number).encode()] for number in range(load.sent)]
        print(
            f"{given.who}, seed {given.seed}: {dict(done)} in {took:.0f} s, load average {os.getloadavg()[0]:.0f}"
        )
        print("longest stall by partition:", ", ".join(f"{gap:.1f} s" for gap in arrivals.longest.values()))
        print(f"{load.sent} sent, {copied.count(0)} lost, {sum(each > 1 for each in copied)} doubled")


if __name__ == "__main__":
    main()
