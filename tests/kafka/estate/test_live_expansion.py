"""A cluster grows by a broker and shrinks again under 2,000 records a second.

The test uses `treeline estate` and `treeline placement` on estates/replicated.yaml, as an operator does, and
checks the result with Kafka's own tools.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.support.estate.running import RunningEstate, boot, treeline
from tests.support.kafka.kafka_tools import REASSIGN, TOPICS, tool
from tests.support.kafka.topics import DEADLINE_SECONDS, read_all

CLUSTER = "cluster-1"
TOPIC = "acme-retail-prod-orders"
MIN_ISR = 2
_TICK_SECONDS, _PER_TICK = 0.02, 40


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[RunningEstate]:
    running = boot(tmp_path / "home", PROJECT_ROOT / "estates" / "replicated.yaml")
    assert running.booted.returncode == 0, running.booted.stderr
    yield running
    treeline(tmp_path / "home", "down", "--wipe")


class Load:
    """2,000 records a second to one topic, acknowledged by all in-sync replicas, and a look at these meanwhile."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self.fewest: dict[int, int] = {}
        """In-sync replicas of each partition, the fewest that were ever seen."""
        self.looks = 0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        ended = threading.Event()
        threads = [threading.Thread(target=each, args=(ended,)) for each in (self._produce, self._watch)]
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: len(self.acknowledged) > 2000, "records flow")
            yield
            so_far = len(self.acknowledged)
            eventually(lambda: len(self.acknowledged) > so_far + 2000, "records still flow")
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    def _produce(self, ended: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "acks": "all", "enable.idempotence": True})

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self.acknowledged.append(message.value().decode())
            else:
                self.failed.append(str(error))

        number, at = 0, time.monotonic()
        while not ended.is_set():
            for _ in range(_PER_TICK):
                producer.produce(TOPIC, str(number), f"key-{number % 500}", on_delivery=delivered)
                number += 1
            producer.poll(0)
            at += _TICK_SECONDS
            time.sleep(max(0.0, at - time.monotonic()))
        self.failed.extend(["not delivered"] * producer.flush(DEADLINE_SECONDS))

    def _watch(self, ended: threading.Event) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        while not ended.wait(0.2):
            for number, partition in admin.list_topics(TOPIC, DEADLINE_SECONDS).topics[TOPIC].partitions.items():
                now = len(partition.isrs) if partition.leader >= 0 else 0
                self.fewest[number] = min(now, self.fewest.get(number, now))
            self.looks += 1


def said(replicated: RunningEstate, *words: str) -> Any:
    """Return the JSON that `treeline` prints."""
    done = replicated.treeline(*words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def apply(replicated: RunningEstate, *wish: str) -> dict[str, Any]:
    """Plan and apply; the plan's summary."""
    plan = said(replicated, "placement", "plan", "--cluster", CLUSTER, *wish)
    assert plan["summary"]["moves"] == plan["summary"]["lower_bound"] > 0
    assert plan["summary"]["violations"] == {}
    words = ("--digest", plan["digest"], "--bytes-per-second", "5000000")
    done = said(replicated, "placement", "apply", plan["id"], *words)
    assert (done["state"], done["report"]["arrived"]) == ("applied", done["report"]["partitions"])
    assert done["report"]["grown"]["count"] == 0, "what stays where it is was there before"
    return plan


def confirm(replicated: RunningEstate, plan: dict[str, Any], brokers: set[int], folder: Path) -> None:
    """By programs that know nothing of Treeline: it is all there, and balanced."""
    servers = replicated.bootstrap_servers(CLUSTER)
    moves = folder / "moves.json"
    replicated.treeline("placement", "show", plan["id"], "--reassignment", str(moves))
    count = len(json.loads(moves.read_text())["partitions"])
    lines = tool(REASSIGN, "--bootstrap-server", servers, "--reassignment-json-file", str(moves), "--verify")
    assert sum(line.endswith("is completed.") for line in lines) == count > 0, lines
    described = tool(TOPICS, "--bootstrap-server", servers, "--describe")
    held: Counter[int] = Counter()
    led: Counter[int] = Counter()
    for line in described:
        words = dict(part.split(": ", 1) for part in line.strip().split("\t") if ": " in part)
        if "Partition" in words:
            held.update(int(each) for each in words["Replicas"].split(","))
            led[int(words["Leader"])] += 1
            assert set(words["Isr"].split(",")) == set(words["Replicas"].split(",")), line
    assert held.keys() == brokers
    for counted, what in ((held, "replicas_per_broker"), (led, "leaders_per_broker")):
        planned = {int(broker): count for broker, count in plan["plan"][what].items() if count}
        assert dict(counted) == planned
    assert max(led.values()) - min(led.values()) <= 1, led
    # Each partition of three replicas has one in each zone: those of a zone share them.
    assert abs(held[1] - held.get(4, held[1])) <= 1 and abs(held[2] - held[3]) <= 1, held


@pytest.mark.nightly
def test_a_broker_is_added_and_taken_away_while_records_flow(replicated: RunningEstate, tmp_path: Path) -> None:
    servers = replicated.bootstrap_servers(CLUSTER)
    with ReplicaAdmin(CLUSTER, servers, {}) as admin:
        eventually(lambda: (TOPIC, 5) in admin.read().partitions, "its stream is there")
    load = Load(servers)
    with load.going_on():
        assert replicated.treeline("estate", "add-broker", CLUSTER, "--zone", "az1").returncode == 0
        confirm(replicated, apply(replicated), {1, 2, 3, 4}, tmp_path)
        refused = replicated.treeline("estate", "remove-broker", CLUSTER, "4")
        assert refused.returncode == 3 and "placement apply" in refused.stderr
        confirm(replicated, apply(replicated, "--target-brokers", "1,2,3"), {1, 2, 3}, tmp_path)
        removed = replicated.treeline("estate", "remove-broker", CLUSTER, "4")
        assert removed.returncode == 0, removed.stderr
    assert load.failed == []
    assert load.looks > 20 and min(load.fewest.values()) >= MIN_ISR, load.fewest
    found: dict[str, list[int]] = {}
    for message in read_all(servers, TOPIC):
        found.setdefault(message.key().decode(), []).append(int(message.value()))
    assert sorted(each for values in found.values() for each in values) == sorted(map(int, load.acknowledged))
    assert all(values == sorted(values) for values in found.values()), "in order per key"
