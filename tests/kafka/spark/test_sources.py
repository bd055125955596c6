"""The data sources on real Kafka: all records of a range with their origins, and all committed offsets."""

from __future__ import annotations

import itertools
import json
import random
import struct
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.domain.offsets import group_log
from backend.domain.records import copy_flags, origin
from backend.domain.records.log_prefix import LogPrefix
from backend.domain.records.origin import Origin
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.logs.log_ends import ends, partitions
from backend.kafka.logs.log_ranges import LogRange, OriginContext, messages
from spark.sources import commits, log_records, slices
from spark.sources.slices import Slice
from tests.eventually import eventually
from tests.support.kafka.topics import DEADLINE_SECONDS, produce, read_all

STREAM = "acme/retail/prod/orders"
HERE, ELSEWHERE, STRANGER = 1, 2, 77


def fill(servers: str, topic: str) -> None:
    """Produce local records, copies, forwarded headers, foreign records, flags alone, and aborted ones."""
    source = random.Random(3)
    copied = {0: -1, 1: -1}

    def records(count: int) -> Iterator[dict[str, object]]:
        for n in range(count):
            partition, kind = n % 2, source.randrange(5)
            headers = [("h", b"x")]
            if kind == 0:
                copied[partition] += source.randint(1, 3)
                headers += [
                    ("copy-flags", copy_flags.encode(4)),
                    ("copy-origin", header(ELSEWHERE, partition, copied[partition])),
                ]
            elif kind == 1:
                headers += [("copy-origin", header(ELSEWHERE, partition, max(0, copied[partition])))]
            elif kind == 2:
                headers += [("copy-origin", header(STRANGER, partition, n))]
            elif kind == 3 and n % 3 == 0:
                headers += [("copy-flags", copy_flags.encode(2))]
            yield {
                "value": b"%d" % n,
                "partition": partition,
                "timestamp": 1_700_000_000_000 + source.randrange(9_999),
                "headers": headers,
            }

    produce(servers, topic, records(3_000))
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"test-{topic}"})
    producer.init_transactions(30)
    for ends_well in (False, True, False):
        producer.begin_transaction()
        for n in range(50):
            producer.produce(topic, b"t%d" % n, partition=n % 2)
        if ends_well:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    produce(servers, topic, records(500))


def header(number: int, partition: int, offset: int) -> bytes:
    return origin.encode(Origin(number, origin.stream_id(STREAM), partition, offset, 1))


def origin_context(seen: origin.Vector) -> OriginContext:
    return OriginContext(
        number=HERE, stream=STREAM, incarnations=((0, 1),), seen=seen, known_origins=frozenset({HERE, ELSEWHERE})
    )


def expected(servers: str, topic: str) -> list[tuple[object, ...]]:
    """Return the rows as an independent reader finds them.

    A row is (partition, offset, timestamp, origin, incarnation, reached).
    """
    prefixes = {
        p: LogPrefix(
            HERE,
            stream=origin.stream_id(STREAM),
            partition=p,
            incarnations=((0, 1),),
            seen={},
            known_origins=frozenset({HERE, ELSEWHERE}),
            foreign=lambda number: True,
        )
        for p in range(2)
    }
    rows = []
    for message in read_all(servers, topic):
        carried = dict(message.headers() or ())
        place = (message.partition(), message.offset(), message.timestamp()[1])
        if "copy-flags" in carried and "copy-origin" not in carried:
            rows.append((*place, None, None, None))
            continue
        found = origin.decode([carried["copy-origin"]] if "copy-origin" in carried else [])
        born = prefixes[place[0]].origin_of(place[1], found)
        rows.append((*place, born.cluster, born.incarnation, born.offset))
    return rows


@pytest.mark.nightly  # test_streams reads the same records with where they were born
def test_records_of_ranges_with_where_they_were_born(spark, servers, topic):
    fill(servers, topic)
    config = client_config(servers, {})
    found = ends(config, partitions(config, topic, 15), 15)
    assert set(found) == {(topic, 0), (topic, 1)}
    whole = expected(servers, topic)
    ranges = []
    for (_, partition), (low, high) in found.items():
        # Read in three ranges; the later ones start with the vector at the end of the earlier ones.
        cuts = [low, low + 700, low + 1_400, high]
        for number, (first, end) in enumerate(itertools.pairwise(cuts)):
            seen = origin.merge(
                {row[3]: (row[4], row[5])} for row in whole if row[0] == partition and row[1] < first and row[3]
            )
            log = partition * 10 + number
            ranges.append(
                (LogRange(log=log, topic=topic, partition=partition, first=first, end=end), origin_context(seen))
            )
    parts = slices.cut([Slice(bootstrap_servers=servers, properties={}, ranges=ranges)], 2)
    assert len(parts) == 2
    assert slices.decode(slices.encode(parts)) == parts
    rows = spark.read.format(log_records.NAME).option("slices", slices.encode(parts)).load().collect()
    assert sorted(((row.log // 10, *row[1:]) for row in rows), key=lambda row: row[:2]) == whole


def test_a_range_whose_beginning_is_gone_is_an_error(servers, topic):
    produce(servers, topic, [{"value": b"x", "partition": 0}] * 20)
    admin = AdminClient({"bootstrap.servers": servers})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 10)]).values()
    deleted.result(DEADLINE_SECONDS)
    one = LogRange(log=0, topic=topic, partition=0, first=5, end=20)
    with pytest.raises(KafkaCallFailed, match=r"[Oo]ffset"):
        list(messages(client_config(servers, {}), [one]))


def commit(servers: str, group: str, topic: str, offsets: dict[int, int], metadata: str = "") -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(
        offsets=[TopicPartition(topic, p, offset, metadata) for p, offset in offsets.items()], asynchronous=False
    )
    consumer.close()


def test_commits_as_they_were_made(spark, servers, topic):
    mark = uuid.uuid4().hex[:8]
    produce(servers, topic, [{"value": b"x", "partition": n % 2} for n in range(100)])
    commit(servers, f"plain-{mark}", topic, {0: 7, 1: 9})
    commit(servers, f"plain-{mark}", topic, {0: 11}, metadata="what it says: äöü")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"offsets-{mark}"})
    producer.init_transactions(30)
    member = Consumer({"bootstrap.servers": servers, "group.id": f"atomic-{mark}"})
    for offset, ends_well in ((20, True), (30, False)):
        producer.begin_transaction()
        position = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(position, member.consumer_group_metadata(), 30)
        (producer.commit_transaction if ends_well else producer.abort_transaction)(30)
    members_of_both_protocols(servers, topic, mark)
    read = spark.read.format(commits.NAME).option(
        "clusters", json.dumps([{"cluster": "c1", "bootstrap_servers": servers, "properties": {}}])
    )
    rows = [row for row in read.load().collect() if mark in row.group]
    found = {(row.group.partition("-")[0], row.partition, row.offset, said(row)) for row in rows}
    assert found == {
        ("plain", 0, 7, ""),
        ("plain", 1, 9, ""),
        ("plain", 0, 11, "what it says: äöü"),
        ("atomic", 0, 20, ""),
        ("classic", 0, 50, ""),
        ("classic", 1, 50, ""),
        ("consumer", 0, 50, ""),
        ("consumer", 1, 50, ""),
    }
    assert all(row.cluster == "c1" and row.topic == topic and row.committed_at_ms > 0 for row in rows)


def said(row) -> str:
    """confluent-kafka sends a trailing zero byte, C's terminator, and reads metadata back without it."""
    return row.metadata.removesuffix("\0")


def members_of_both_protocols(servers: str, topic: str, mark: str) -> None:
    """Run groups with members, whose own records lie between the offsets."""
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"{protocol}-{mark}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        read = 0

        def all_read(consumer: Consumer = consumer) -> bool:
            nonlocal read
            read += len([one for one in consumer.consume(100, 0.5) if one.error() is None])
            return read == 100

        eventually(all_read, f"a {protocol} group has read all")
        consumer.commit(asynchronous=False)
        consumer.close()


def test_every_record_that_the_broker_writes_is_readable(servers, topic):
    """All records that tests have left in the topic are decoded: none has an unknown type or version."""
    mark = uuid.uuid4().hex[:8]
    produce(servers, topic, [{"value": b"x", "partition": n % 2} for n in range(100)])
    members_of_both_protocols(servers, topic, mark)
    kinds = set()
    for message in read_all(servers, group_log.INTERNAL_TOPIC):
        kinds.add(struct.unpack_from(">h", message.key())[0])
        if group_log.offset_key(message.key()) is not None:
            group_log.offset_value(message.value())
    assert {1, 2, 3, 5} <= kinds
