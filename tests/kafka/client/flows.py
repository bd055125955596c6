"""Numbered records with keys that tests send and read back, with their outcomes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from confluent_kafka import KafkaError, Message
from treeline_client import SwitchingProducer

from tests.kafka.client.brokers import Cluster
from tests.kafka.client.conftest import technical
from tests.support.kafka import topics as kafka

KEYS = 7
DEADLINE_SECONDS = 90.0


class Flow:
    """Produces numbered records until it is stopped, and collects their delivery reports."""

    def __init__(self, producer: SwitchingProducer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.sent = 0
        self.reported: dict[int, KafkaError | None] = {}
        self.topics: set[str | None] = set()
        self.threads: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def send(self, count: int) -> None:
        """Send some records now, from this thread."""
        for number in range(self.sent, self.sent + count):
            self.producer.produce(
                self.topic,
                str(number),
                key=f"key-{number % KEYS}",
                on_delivery=self._report(number),
                headers={"n": b"1"},
            )
            self.sent += 1
            self.producer.poll(0)

    def start(self) -> Flow:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop sending and wait for all delivery reports."""
        self._stop.set()
        self._thread.join()
        self.finish()

    def finish(self) -> None:
        assert self.producer.flush(DEADLINE_SECONDS) == 0
        assert sorted(self.reported) == list(range(self.sent))

    @property
    def failed(self) -> dict[int, KafkaError]:
        return {number: error for number, error in self.reported.items() if error is not None}

    def _run(self) -> None:
        while not self._stop.is_set():
            self.send(20)
            self._stop.wait(0.005)

    def _report(self, number: int):
        def report(error: KafkaError | None, message: Message) -> None:
            assert number not in self.reported, f"{number} was reported twice"
            self.reported[number] = error
            self.topics.add(message.topic())
            self.threads.add(threading.get_ident())

        return report


def stored(cluster: Cluster, topic: str) -> list[int]:
    """Return the numbers of a logical topic's records on a cluster, by partition in log order."""
    return [int(m.value()) for m in kafka.read_all(cluster.servers, technical(cluster.name, topic))]


def by_key(cluster: Cluster, topic: str) -> dict[str, list[int]]:
    """Return the numbers of a logical topic's records on a cluster, by key."""
    found: dict[str, list[int]] = {}
    for message in kafka.read_all(cluster.servers, technical(cluster.name, topic)):
        found.setdefault(message.key().decode(), []).append(int(message.value()))
    return found


def check_exactly_once(clusters: Iterable[Cluster], topic: str, numbers: Iterable[int]) -> None:
    """Check that every number is on one cluster, once, and that each key is in order on each cluster."""
    held = list(clusters)
    found = Counter(number for cluster in held for number in stored(cluster, topic))
    assert found == Counter(numbers)
    for cluster in held:
        for key, order in by_key(cluster, topic).items():
            assert order == sorted(order), f"{key} on {cluster.name}"
