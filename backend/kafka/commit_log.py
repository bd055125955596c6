"""Following `__consumer_offsets` of one cluster: what groups commit, as it comes.

Our own groups' positions are most of that topic while records flow; they are told by the first bytes of their keys
and cost no more than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from backend.domain import commit_metadata, group_log
from backend.domain.group_log import OffsetKey, OffsetValue
from backend.kafka.errors import KafkaCallFailed, sentence
from backend.kafka.log_ends import partitions

_OWN = b"_treeline."
_GROUP_AT = 4
"""Of a key: after its version and the length of the group's name."""
_REQUEST_SECONDS = 10.0
_CHUNK_RECORDS = 2_000


@dataclass
class Commits:
    """What was committed since it was asked for last; the latest of each group and partition."""

    made: dict[OffsetKey, OffsetValue | None] = field(default_factory=dict)
    """None: the offset expired or was deleted."""
    positions: dict[int, int] = field(default_factory=dict)
    """Partition of the topic -> where reading goes on."""
    unreadable: int = 0


class CommitLog:
    """Reads on from given positions; used by one thread. Raises KafkaCallFailed."""

    def __init__(self, config: Mapping[str, Any], positions: Mapping[int, int]) -> None:
        """A partition without a position is read from its beginning."""
        places = partitions(config, group_log.INTERNAL_TOPIC, _REQUEST_SECONDS)
        if not places:
            # Brokers make it when the first group asks for its coordinator.
            raise KafkaCallFailed(f"there is no {group_log.INTERNAL_TOPIC} yet: no group has ever committed there")
        try:
            self._consumer = Consumer(
                {
                    "group.id": "_treeline.offsets",  # names the reader for access rules; it commits nothing
                    **config,
                    # Offsets of open and of aborted transactions are nobody's progress.
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "earliest",
                    "queued.max.messages.kbytes": 4 * 1024,
                }
            )
            self._consumer.assign(
                [TopicPartition(*place, positions.get(place[1], OFFSET_BEGINNING)) for place in places]
            )
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        self._behind = {number for _, number in places}
        self._found = Commits()

    @property
    def caught_up(self) -> bool:
        """Whether every partition's end was reached once: what is known is not out of date any more."""
        return not self._behind

    def read(self, wait_seconds: float) -> None:
        """Wait for one record, then take what else is there."""
        try:
            messages = self._consumer.consume(1, wait_seconds)
            if messages:
                messages += self._consumer.consume(_CHUNK_RECORDS, 0)
        except KafkaException as error:
            raise KafkaCallFailed(sentence(error)) from error
        for message in messages:
            number, offset, failure = message.partition(), message.offset(), message.error()
            assert number is not None
            if failure is None and offset is not None:
                self._found.positions[number] = offset + 1
                self._take(message.key(), message.value())
            elif failure is not None and failure.code() == KafkaError._PARTITION_EOF:
                self._behind.discard(number)
            elif failure is not None and not failure.retriable():
                raise KafkaCallFailed(str(failure.str()))

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        if key is None or key.startswith(_OWN, _GROUP_AT):
            return
        try:
            whose = group_log.offset_key(key)
            if whose is None:
                return
            what = group_log.offset_value(value)
        except group_log.Unreadable:
            self._found.unreadable += 1
            return
        if what is None or not commit_metadata.is_ours(what.metadata):
            self._found.made[whose] = what

    def take(self) -> Commits:
        """What came since the last call."""
        found, self._found = self._found, Commits()
        return found

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()
