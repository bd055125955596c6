"""Producer and reader of a verification's records, one of each on every cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, sentence
from backend.kafka.base.message_headers import headers_of

_REQUEST_SECONDS = 10.0


@dataclass(frozen=True)
class Outgoing:
    """A record to produce; `number` is assigned by the caller."""

    number: int
    partition: int
    key: bytes
    value: bytes


@dataclass(frozen=True)
class Incoming:
    """A record as read, with the raw values of our flags header."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    flag_headers: tuple[bytes | None, ...]


def produce(
    bootstrap_servers: str,
    properties: Mapping[str, str],
    topic: str,
    records: Iterable[Outgoing],
    outcome: Callable[[int, bool], None],
    timeout_seconds: float,
) -> str | None:
    """Produce in order with an idempotent producer, and call `outcome(number, acknowledged)` for each record.

    Returns the reason of the first failure; None if every record was acknowledged.
    """
    failures: list[str] = []
    try:
        producer = Producer(
            client_config(
                bootstrap_servers,
                properties,
                enable_idempotence=True,
                linger_ms=5,
                message_timeout_ms=int(timeout_seconds * 1000),
            )
        )
    except (KafkaException, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error

    def delivered(number: int) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error.str())
            outcome(number, error is None)

        return report

    for record in records:
        while True:
            try:
                producer.produce(
                    topic, record.value, record.key, record.partition, on_delivery=delivered(record.number)
                )
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    producer.flush(timeout_seconds)
    return failures[0] if failures else None


class TopicReader:
    """Reader of a topic's partitions with read_committed, from where they ended when it was opened."""

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, str],
        topic: str,
        partitions: int,
        flags_header: str,
    ) -> None:
        self._flags_header = flags_header
        try:
            self._consumer = Consumer(
                client_config(
                    bootstrap_servers,
                    properties,
                    group_id="_treeline.verify",
                    isolation_level="read_committed",
                    enable_auto_commit=False,
                    enable_partition_eof=True,
                    auto_offset_reset="error",
                    fetch_wait_max_ms=50,
                )
            )
            self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
            self._positions = {p.partition: self._end(p) for p in self._partitions}
            self._consumer.assign(
                [TopicPartition(topic, partition, offset) for partition, offset in self._positions.items()]
            )
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error

    def read(self, wait_seconds: float) -> list[Incoming]:
        """Return the records that arrived since the last call. Raises KafkaCallFailed."""
        found: list[Incoming] = []
        try:
            for message in self._consumer.consume(5000, wait_seconds):
                partition, offset, error = message.partition(), message.offset(), message.error()
                assert partition is not None and offset is not None
                if error is None:
                    self._positions[partition] = offset + 1
                    found.append(self._incoming(message, partition, offset))
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._positions[partition] = offset
                elif error.fatal() or not error.retriable():
                    raise KafkaException(error)
        except KafkaException as error:
            raise KafkaCallFailed(sentence(error)) from error
        return found

    def ends(self) -> dict[int, int]:
        """Return the current end of each partition for a read_committed reader. Raises KafkaCallFailed."""
        try:
            return {partition.partition: self._end(partition) for partition in self._partitions}
        except KafkaException as error:
            raise KafkaCallFailed(sentence(error)) from error

    def reached(self, ends: Mapping[int, int]) -> bool:
        """Return whether everything before `ends` has been read."""
        return all(self._positions[partition] >= end for partition, end in ends.items())

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _end(self, partition: TopicPartition) -> int:
        _, high = self._consumer.get_watermark_offsets(partition, _REQUEST_SECONDS)
        return int(high)

    def _incoming(self, message: Message, partition: int, offset: int) -> Incoming:
        headers = headers_of(message)
        flags = tuple(header[1] for header in headers if header[0] == self._flags_header)
        return Incoming(partition, offset, message.key(), message.value(), flags)
