"""Client that reads all partitions of a topic through its zone while the test runs."""

from __future__ import annotations

import secrets
import threading
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from tests.eventually import eventually
from tests.kafka.zones.test_gateway import everything
from tests.support.zones.nodes import Node, Router, client

PARTITIONS = 6


class Consuming:
    """Consumer from the beginning; records are kept in order."""

    def __init__(self, node: Node, topic: str, **config: Any) -> None:
        self._config = client(node, group_id=secrets.token_hex(4), reconnect_backoff_max_ms=500, **config)
        self._topic, self._node = topic, node
        self.found: list[tuple[int, int, bytes | None]] = []
        """Partition, offset, value."""
        self.errors: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Consuming:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        reader = Consumer(self._config)
        reader.assign([TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        while not self._ended.is_set():
            try:
                for message in reader.consume(500, 0.1):
                    if error := message.error():
                        self.errors.append(str(error))
                    else:
                        self.found.append((message.partition(), message.offset(), message.value()))
            except KafkaException as error:
                self.errors.append(str(error))
        reader.close()

    def is_the_leaders(self, router: Router, **config: Any) -> None:
        """Assert that the records read are the leaders' log, each once and in its partition's order."""
        log = everything(router.brokers.servers, self._topic, **config)
        expected = [(partition, offset, value) for partition, offset, _, _, value, _, _ in log]
        if self._thread.is_alive():
            eventually(lambda: len(self.found) >= len(expected), f"all of {len(expected)} is read")
        assert sorted(self.found) == expected
        for partition in range(PARTITIONS):
            offsets = [offset for at, offset, _ in self.found if at == partition]
            assert offsets == sorted(offsets)


class Slow:
    """Client that reads on demand and prefetches almost nothing."""

    def __init__(self, node: Node, topic: str) -> None:
        few = {"queued_min_messages": 1, "queued_max_messages_kbytes": 16, "fetch_message_max_bytes": 10_000}
        self._reader = Consumer(client(node, group_id=secrets.token_hex(4), **few))
        self._reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        self.found: list[tuple[int, int, bytes | None]] = []

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def read(self, count: int) -> bool:
        """Read until there are so many in all, or a moment has passed; return whether there are."""
        while len(self.found) < count:
            message = self._reader.poll(0.2)
            if message is None:
                return False
            assert message.error() is None, message.error()
            self.found.append((message.partition(), message.offset(), message.value()))
        return True
