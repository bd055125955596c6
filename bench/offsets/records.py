"""Records of the benchmark: half are copies from another cluster, timestamps are slightly out of order.

The module also has the reference: a reading of the same records without Spark and without the product's segments.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin, Vector

HERE, ELSEWHERE, INCARNATION = 1, 2, 1
STREAM = "bench/offsets/main/records"
_VALUE_BYTES = 100
_SPAN_MS = 2 * 3600 * 1000
"""Time span of all records, in milliseconds."""
_DISORDER_MS = 2_000
_SPREAD = 2_654_435_761  # Knuth's multiplier: spreads successive numbers, the same in every run
_READ_SECONDS = 300
_REQUEST_SECONDS = 15


def create_topic(servers: str, topic: str, partitions: int) -> None:
    """Create the topic of the records, which keeps them however old their timestamps are."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})])[topic].result(30)


def fill(servers: str, topic: str, partitions: int, count: int) -> None:
    """Produce `count` records of 100 B without compression, partition after partition.

    Record n of a partition has offset n.
    """
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 262144,
            "queue.buffering.max.kbytes": 131072,
            "queue.buffering.max.messages": 500000,
        }
    )
    value, stream = os.urandom(_VALUE_BYTES), origin.stream_id(STREAM)
    began_ms = int(time.time() * 1000) - _SPAN_MS - _DISORDER_MS
    flags = copy_flags.encode(copy_flags.flag(1))
    copied = [0] * partitions
    for number in range(count):
        partition, drawn = number % partitions, (number * _SPREAD) % 2**32 >> 8
        headers = None
        if drawn & 1:
            copied[partition] += 1 + (drawn % 7 == 0)  # markers have offsets too
            born = Origin(ELSEWHERE, stream, partition, copied[partition], INCARNATION)
            headers = [("copy-flags", flags), ("copy-origin", origin.encode(born))]
        timestamp = began_ms + number * _SPAN_MS // count + drawn % (2 * _DISORDER_MS) - _DISORDER_MS
        while True:
            try:
                producer.produce(topic, value, partition=partition, timestamp=timestamp, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_READ_SECONDS):
        raise SystemExit("the records could not be produced")


def read(servers: str, topic: str, starts: Mapping[int, int | None]) -> Iterator[Sequence[Message]]:
    """Yield committed records in batches, as a plain reader gets them; each partition in its order.

    `starts`: partition -> first offset; None for all. A missing topic yields nothing.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"bench-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            # As in the product's reader: by default a full queue waits a whole second for the next fetch.
            "fetch.queue.backoff.ms": 10,
        }
    )
    if topic not in consumer.list_topics(timeout=_REQUEST_SECONDS).topics:
        return
    places = {partition: OFFSET_BEGINNING if start is None else start for partition, start in starts.items()}
    consumer.assign([TopicPartition(topic, *place) for place in places.items()])
    left, deadline = set(starts), time.monotonic() + _READ_SECONDS
    while left:
        if time.monotonic() > deadline:
            raise SystemExit(f"{topic} cannot be read to its end in partitions {sorted(left)}")
        found = []
        for message in consumer.consume(10_000, 0.1):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())  # a log that grows has several ends
        yield found
    consumer.close()


class _Walk:
    """A single pass through one partition's log."""

    def __init__(self, asked: Sequence[int]) -> None:
        self.asked, self.passed = sorted(asked), 0
        self.last: int | None = None
        self.vector: Vector = {}
        self.before: list[tuple[int | None, Vector]] = []
        self.lowest: list[int | None] = [None] * (len(asked) + 1)

    def see(self, offset: int, timestamp: int, born: tuple[int, int]) -> None:
        while self.passed < len(self.asked) and self.asked[self.passed] <= offset:
            self.stop()
        self.last = timestamp
        self.vector[born[0]] = (INCARNATION, born[1])
        lowest = self.lowest[self.passed]
        if lowest is None or timestamp < lowest:
            self.lowest[self.passed] = timestamp

    def stop(self) -> None:
        self.before.append((self.last, dict(self.vector)))
        self.passed += 1

    def found(self) -> dict[int, tuple[int | None, int | None, Vector]]:
        while self.passed < len(self.asked):
            self.stop()
        behind = [
            min((one for one in self.lowest[place + 1 :] if one is not None), default=None)
            for place in range(len(self.asked))
        ]
        return {
            at: (last, safe, vector)
            for at, (last, vector), safe in zip(self.asked, self.before, behind, strict=True)
        }


CommittedOffset = tuple[int | None, int | None, Vector]
"""Answer for an offset: timestamp of the last record before it, smallest at or after it, vector of those before
it."""


def committed(servers: str, topic: str, asked: Mapping[int, set[int]]) -> dict[tuple[int, int], CommittedOffset]:
    """Return (partition, offset) -> answer, found by reading all records; `asked` has every partition."""
    walks = {partition: _Walk(sorted(offsets)) for partition, offsets in asked.items()}
    for messages in read(servers, topic, dict.fromkeys(asked)):
        for message in messages:
            offset, headers = message.offset(), message.headers()
            born = (HERE, offset)
            if headers:
                found = origin.decode([value for name, value in headers if name == "copy-origin"])
                assert found is not None
                born = (found.cluster, found.offset)
            walks[message.partition()].see(offset, message.timestamp()[1], born)
    return {(p, at): found for p, walk in walks.items() for at, found in walk.found().items()}
