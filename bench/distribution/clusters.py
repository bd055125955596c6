"""Topics of the benchmark's clusters, and reads of their ends."""

from __future__ import annotations

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from records import LARGEST_BYTES


class Topic:
    """A topic of one cluster."""

    def __init__(self, servers: str, name: str, partitions: int) -> None:
        self.servers, self.name = servers, name
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._ends = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)}

    def create(self) -> None:
        admin = self._admin
        topic = NewTopic(self.name, len(self._ends), 1, config={"max.message.bytes": str(LARGEST_BYTES)})
        admin.create_topics([topic])[self.name].result(15)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(15)

    def committed_ends(self) -> int:
        """Return the sum of the ends for a read_committed reader; 0 while the topic does not exist."""
        answers = self._admin.list_offsets(self._ends, isolation_level=IsolationLevel.READ_COMMITTED)
        try:
            return sum(answer.result(15).offset for answer in answers.values())
        except Exception:  # noqa: BLE001 - MirrorMaker makes the topic when it is ready
            return 0
