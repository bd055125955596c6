"""The inner loop of a copy session: read records, decide, produce the copies in the session's transaction.

Opening, positions and commits are the session's (`copy.py`); here is what happens for every single record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Message, Producer

from backend.domain.partition_edge import Header, PartitionEdge
from backend.kafka.source import Place, Source, SourcePartition


@dataclass
class CopyTotals:
    """What a session has done since it was opened."""

    copied_records: int = 0
    copied_bytes: int = 0
    skipped_records: int = 0


class Progress:
    """One partition in a session: where it is read, and the state of its decisions."""

    __slots__ = ("dirty", "edge", "noted_at", "source", "stream", "target_topic")

    def __init__(self, source: SourcePartition, edge: PartitionEdge, stream: str, target_topic: str) -> None:
        self.source = source
        self.edge = edge
        self.stream = stream
        self.target_topic = target_topic
        self.noted_at = 0.0
        """When the last checkpoint was taken, by the monotonic clock."""
        self.dirty = False
        """Whether decisions were made since the last commit."""


class RecordLoop:
    """Moves batches from a source to a producer; used by the session's thread."""

    def __init__(self, source: Source, producer: Producer, totals: CopyTotals, alive: Callable[[], None]) -> None:
        self._source = source
        self._producer = producer
        self._totals = totals
        self._alive = alive
        self.in_transaction = False
        """Whether a transaction was begun; the session says when it has ended."""

    def begin(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self._producer.begin_transaction()
        self.in_transaction = True

    def copy_batch(self, progress: Mapping[Place, Progress], most: int, wait_seconds: float) -> int:
        """Wait for records and hand the copies to the producer; how many were read. Raises KafkaException."""
        messages = self._source.read(most, wait_seconds)
        for message in messages:
            self.take(progress, message)
        return len(messages)

    def take(self, partitions: Mapping[Place, Progress], message: Message) -> list[Header] | None:
        """Deal with one message; the headers of its copy, None if it was left alone. Raises KafkaException."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None
        place = (topic, partition)
        progress = partitions.get(place)
        if progress is None:
            return None  # fetched before its stream was let go
        error = message.error()
        if error is not None:
            unknown = progress.source.position is None
            self._source.failed(place, offset, error)
            # The first position, of an empty log too, is saved: from then on whatever goes missing is noticed.
            progress.dirty = progress.dirty or (unknown and progress.source.position is not None)
            return None
        if self._source.troubles:
            self._source.healed(place)
        headers = progress.edge.copy(offset, message.headers())  # type: ignore[arg-type]
        progress.source.position = offset + 1
        progress.dirty = True
        if headers is None:
            self._totals.skipped_records += 1
            return None
        if not self.in_transaction:
            self.begin()
        value, key = message.value(), message.key()
        # librdkafka takes a timestamp of 0 for none and would write the present: 1 ms is the least change.
        self.produce(progress.target_topic, partition, value, key, message.timestamp()[1] or 1, headers)
        self._totals.copied_records += 1
        size = len(value or b"") + len(key or b"")
        for name, content in headers:
            size += len(name) + len(content or b"")
        self._totals.copied_bytes += size
        return headers

    def produce(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        timestamp_ms: int,
        headers: list[Header],
    ) -> None:
        """Hand one record to the producer, waiting while its queue is full. Raises KafkaException."""
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    timestamp=timestamp_ms,
                    headers=headers,  # type: ignore[arg-type]
                )
            except BufferError:
                # The queue is the memory bound: wait until the target has taken some.
                self._producer.poll(0.05)
                self._alive()
            else:
                return
