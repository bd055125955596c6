"""Following a whole topic of one cluster from given positions, as a reader that commits nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from backend.kafka.base.errors import KafkaCallFailed, sentence
from backend.kafka.logs.log_ends import Place

_CHUNK_RECORDS = 2_000
_BUFFER_KBYTES = 4 * 1024
GROUP = "_treeline.offsets"
"""Group name of our readers in access rules; no offsets are committed for it."""


def committed_reader(config: Mapping[str, Any], **settings: Any) -> Consumer:
    """Return a consumer of committed records that is assigned explicitly, and is notified of a log's end.

    Keyword names use _ for the dots of librdkafka's keys. Raises KafkaCallFailed.
    """
    try:
        return Consumer(
            {
                "group.id": GROUP,
                **config,
                # Records of open and aborted transactions do not count.
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # A full buffer is empty in a tenth of a second; by default the next fetch waits a whole second.
                "fetch.queue.backoff.ms": 10,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
    except (KafkaException, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error


class TopicFollower:
    """Continuous reader of a topic; used by one thread. Raises KafkaCallFailed."""

    def __init__(self, config: Mapping[str, Any], places: Iterable[Place], positions: Mapping[int, int]) -> None:
        """Start reading `places`, partitions of one topic; one without a position is read from its beginning."""
        self._consumer = committed_reader(
            config, auto_offset_reset="earliest", queued_max_messages_kbytes=_BUFFER_KBYTES
        )
        try:
            parts = [TopicPartition(*place, positions.get(place[1], OFFSET_BEGINNING)) for place in places]
            self._consumer.assign(parts)
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        self._behind = {part.partition for part in parts}
        self.reached: dict[int, int] = {}
        """Partition -> offset before which everything was read, including control records at a log's end."""

    @property
    def caught_up(self) -> bool:
        """Return whether the end of every partition was reached once, so that the known state is current."""
        return not self._behind

    def read(self, wait_seconds: float) -> list[Message]:
        """Wait for one record, then take what else has been fetched."""
        try:
            messages = self._consumer.consume(1, wait_seconds)
            if messages:
                messages += self._consumer.consume(_CHUNK_RECORDS, 0)
        except KafkaException as error:
            raise KafkaCallFailed(sentence(error)) from error
        found = []
        for message in messages:
            failure, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
            if failure is None:
                found.append(message)
                self.reached[partition] = offset + 1
            elif failure.code() == KafkaError._PARTITION_EOF:
                self._behind.discard(partition)
                self.reached[partition] = offset
            elif not failure.retriable():
                raise KafkaCallFailed(str(failure.str()))
        return found

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
