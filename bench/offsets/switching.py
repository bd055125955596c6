"""Groups that read on one cluster and continue on another, with the records that they re-read or skip.

Record n of a partition has the value n, and offset n on the cluster where it was produced: a group's committed
offset there is the number of the first record that it wants next.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import records
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.domain.offsets import group_log
from backend.domain.offsets.group_log import OffsetValue

_NUMBER = struct.Struct(">Q")
_REQUEST_SECONDS = 15


class Numbered:
    """The only producer of a topic; `ends` counts its records by partition."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "batch.size": 65536}
        )
        self._topic = topic
        self.ends = dict.fromkeys(range(partitions), 0)

    def make(self, count: int) -> None:
        """Produce `count` more records, acknowledged. Raises SystemExit if that fails."""
        ends = dict(self.ends)
        for number in range(count):
            partition = number % len(ends)
            self._producer.produce(self._topic, _NUMBER.pack(ends[partition]), partition=partition)
            ends[partition] += 1
        if self._producer.flush(60):
            raise SystemExit("the records could not be produced")
        self.ends = ends


@dataclass
class Following:
    """A group without members, like a consumer that assigns itself, which commits `lag` records behind."""

    servers: str
    name: str
    topic: str
    lag: int
    committed: dict[int, int] = field(default_factory=dict)
    """Partition -> committed offset."""

    def __post_init__(self) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": self.name, "enable.auto.commit": False}
        )

    def go_on(self, ends: Mapping[int, int]) -> None:
        """Commit; the lag is spread over the partitions."""
        share = self.lag // len(ends)
        self.committed = {partition: max(0, end - share) for partition, end in ends.items()}
        offsets = [TopicPartition(self.topic, *each) for each in self.committed.items()]
        self._consumer.commit(offsets=offsets, asynchronous=False)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


def stands(admin: AdminClient, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Return partition -> the group's offset; partitions without one are left out."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition) for partition in partitions])
    (answer,) = admin.list_consumer_group_offsets([wanted]).values()
    found = answer.result(_REQUEST_SECONDS).topic_partitions
    return {each.partition: each.offset for each in found if each.offset >= 0}


def read_numbers(servers: str, topic: str, starts: Mapping[int, int | None]) -> dict[int, list[int]]:
    """Return partition -> records in log order, from an offset on, or from the first one."""
    found: dict[int, list[int]] = {partition: [] for partition in starts}
    for messages in records.read(servers, topic, starts):
        for message in messages:
            found[message.partition()].append(_NUMBER.unpack(message.value())[0])
    return found


def switch(
    servers: str,
    topic: str,
    starts: Mapping[int, int | None],
    committed: Mapping[int, int],
    ends: Mapping[int, int],
) -> tuple[int, int]:
    """Read from the group's offset to the end; return how many records it re-reads, and how many it skips."""
    re_read = skipped = 0
    for partition, numbers in read_numbers(servers, topic, starts).items():
        wanted = set(range(committed[partition], ends[partition]))
        got = wanted.intersection(numbers)
        skipped += len(wanted) - len(got)
        re_read += len(numbers) - len(got)  # duplicates count, too
    return re_read, skipped


def commits(servers: str, topic: str) -> dict[tuple[str, int], list[OffsetValue]]:
    """Return (group, partition) -> its commits for a topic, in the order in which the broker wrote them."""
    internal = group_log.INTERNAL_TOPIC
    metadata = AdminClient({"bootstrap.servers": servers}).list_topics(internal, _REQUEST_SECONDS)
    starts = dict.fromkeys(metadata.topics[internal].partitions)
    found: dict[tuple[str, int], list[OffsetValue]] = {}
    for messages in records.read(servers, internal, starts):
        for message in messages:
            key = group_log.offset_key(message.key())
            value = group_log.offset_value(message.value()) if key is not None else None
            if key is not None and value is not None and key.topic == topic:
                found.setdefault((key.group, key.partition), []).append(value)
    return found
