"""Groups that read on one cluster and go on on another, and what comes again or never there.

Record n of a partition has the value n, and offset n on the cluster where it was made: what a group has committed
there is the number of the first record that it wants next.
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
    """The only producer of a topic; `ends` has as many records as were made."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "batch.size": 65536}
        )
        self._topic = topic
        self.ends = dict.fromkeys(range(partitions), 0)

    def make(self, count: int) -> None:
        """So many more, acknowledged. Ends the run (SystemExit) if they cannot be produced."""
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
    """A group that commits so many records behind the ends, without members, as one that assigns itself."""

    servers: str
    name: str
    topic: str
    lag: int
    committed: dict[int, int] = field(default_factory=dict)
    """Partition -> offset."""

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
        """Give the connections back."""
        self._consumer.close()


def stands(admin: AdminClient, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Partition -> the group's offset; without those that have none."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition) for partition in partitions])
    (answer,) = admin.list_consumer_group_offsets([wanted]).values()
    found = answer.result(_REQUEST_SECONDS).topic_partitions
    return {each.partition: each.offset for each in found if each.offset >= 0}


def read_numbers(servers: str, topic: str, starts: Mapping[int, int | None]) -> dict[int, list[int]]:
    """Partition -> records in the order of the log, from an offset on; from the first one where there is none."""
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
    """Read from where the group goes on up to the end; how many records it has read before, and how many of the
    others it never gets."""
    re_read = skipped = 0
    for partition, numbers in read_numbers(servers, topic, starts).items():
        wanted = set(range(committed[partition], ends[partition]))
        got = wanted.intersection(numbers)
        skipped += len(wanted) - len(got)
        re_read += len(numbers) - len(got)  # also what comes twice by itself
    return re_read, skipped


def commits(servers: str, topic: str) -> dict[tuple[str, int], list[OffsetValue]]:
    """(group, partition) -> its commits for a topic, in the order in which the broker wrote them."""
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
