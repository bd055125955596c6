"""The data sources as streams on real Kafka: records that arrive at any time are read once."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.logs.log_ranges import OPEN_END, LogRange
from spark.sources import commits, log_records, slices
from spark.sources.slices import Slice
from tests.eventually import eventually
from tests.kafka.spark.test_sources import ELSEWHERE, STRANGER, commit, expected, fill, header, origin_context
from tests.support.kafka.topics import DEADLINE_SECONDS, produce


class Stream:
    """A source written to files with a checkpoint, which the test starts and stops."""

    def __init__(self, spark, folder, name, schema, **options):
        self._spark, self._folder, self._name, self._schema = spark, folder, name, schema
        self.options = options
        self.query = None

    def start(self, **trigger):
        read = self._spark.readStream.format(self._name).options(**self.options).load()
        writer = read.writeStream.format("json").option("path", str(self._folder / "rows"))
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        self.query = writer.trigger(**(trigger or {"processingTime": "100 milliseconds"})).start()

    def stop(self):
        if self.query is not None:
            self.query.stop()

    def rows(self):
        """Count the rows that have arrived."""
        if not (self._folder / "rows" / "_spark_metadata").exists():
            return Counter()  # nothing was written yet
        found = self._spark.read.schema(self._schema).json(str(self._folder / "rows")).collect()
        return Counter(tuple(row) for row in found)

    def has(self, wanted):
        """Wait until this many rows have arrived."""

        def look():
            if self.query.exception() is not None:
                raise self.query.exception()
            return self.rows().total() >= wanted

        eventually(look, f"{wanted} rows have come", 0.3)


@pytest.fixture
def stream(spark, tmp_path):
    made = []

    def make(name, schema, **options):
        made.append(Stream(spark, tmp_path, name, schema, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def open_ended(servers, topic, known=None):
    """Return both logs of a topic from their beginnings, without an end."""
    context = origin_context({}) if known is None else replace(origin_context({}), known_origins=known)
    ranges = [(LogRange(log=p, topic=topic, partition=p, first=0, end=OPEN_END), context) for p in range(2)]
    return [Slice(bootstrap_servers=servers, properties={}, ranges=ranges)]


def test_records_arrive_once_over_restarts_with_where_they_were_born(stream, servers, topic):
    fill(servers, topic)
    running = stream(
        log_records.NAME,
        log_records.SCHEMA,
        slices=slices.encode(open_ended(servers, topic)),
        most_offsets="900",
        foreign=json.dumps([STRANGER]),
    )
    running.start()
    running.has(1_000)
    running.stop()
    # Forwarded by a stream processor: produced here, since the origin was seen before the stream was stopped.
    again = [{"value": b"y", "partition": n % 2, "headers": [("copy-origin", header(ELSEWHERE, n % 2, 7))]}
             for n in range(100)]  # fmt: skip
    produce(servers, topic, again)
    running.start()
    running.has(3_600)
    produce(servers, topic, [{"value": b"z", "partition": n % 2} for n in range(60)])
    whole = Counter(expected(servers, topic))
    running.has(whole.total())
    running.stop()
    # Read again when nothing is left.
    running.start(availableNow=True)
    assert running.query.awaitTermination(60)
    assert running.rows() == whole


@pytest.mark.nightly
def test_a_stream_ends_at_a_cluster_that_it_does_not_know_and_goes_on_when_it_does(stream, servers, topic):
    produce(servers, topic, [{"value": b"x", "partition": n % 2} for n in range(40)])
    alone = slices.encode(open_ended(servers, topic, frozenset({1})))
    running = stream(log_records.NAME, log_records.SCHEMA, slices=alone)
    running.start(availableNow=True)
    assert running.query.awaitTermination(60)
    assert running.rows().total() == 40
    copy = {"value": b"x", "partition": 0, "headers": [("copy-origin", header(ELSEWHERE, 0, 5))]}
    produce(servers, topic, [copy])
    running.start(availableNow=True)
    with pytest.raises(StreamingQueryException, match="cluster number 2, which its reader does not know yet"):
        running.query.awaitTermination(60)
    running.options["slices"] = slices.encode(open_ended(servers, topic))
    running.start(availableNow=True)
    assert running.query.awaitTermination(60)
    assert running.rows() == Counter(expected(servers, topic))


def test_a_micro_batch_ends_before_an_open_transaction_and_is_the_same_when_read_again(servers, topic):
    fill(servers, topic)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"open-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for n in range(10):
        producer.produce(topic, b"t%d" % n, partition=0)
    producer.flush(30)
    produce(servers, topic, [{"value": b"behind it", "partition": 0}] * 5)
    reader = log_records.LogStream(
        open_ended(servers, topic), most_offsets=1_000_000, foreign=frozenset({STRANGER})
    )
    start = reader.initialOffset()
    found, end = reader.read(start)
    before = rows(found)
    assert before == Counter(expected(servers, topic))
    # Serialize and parse the offset as Spark does.
    end = json.loads(json.dumps(end))
    assert rows(reader.readBetweenOffsets(start, end)) == before
    nothing, same = reader.read(end)
    assert (rows(nothing), same) == (Counter(), end)
    producer.commit_transaction(30)
    # The coordinator responds before its marker is in the log.
    found = eventually(lambda: rows(reader.read(end)[0]), "the transaction has ended in the log")
    assert before + found == Counter(expected(servers, topic))


def rows(batches):
    """Return the rows of record batches."""
    return Counter(row for each in batches for row in zip(*(column.to_pylist() for column in each), strict=True))


def test_a_log_that_is_shorter_than_what_was_read_of_it_ends_the_stream(servers, topic):
    produce(servers, topic, [{"value": b"x", "partition": 0}] * 10)
    reader = log_records.LogStream(open_ended(servers, topic), most_offsets=100, foreign=frozenset())
    _, end = reader.read(reader.initialOffset())
    end["0"]["position"] += 1
    with pytest.raises(KafkaCallFailed, match="ends at 10, its reader is at 11"):
        reader.read(end)


def test_a_range_without_an_end_is_no_batch(servers, topic):
    with pytest.raises(ValueError, match="only be read as a stream"):
        log_records.LogReader(open_ended(servers, topic))


@pytest.mark.nightly
def test_commits_arrive_once_over_restarts(spark, stream, servers, topic):
    mark = uuid.uuid4().hex[:8]
    clusters = json.dumps([{"cluster": "c1", "bootstrap_servers": servers, "properties": {}}])
    produce(servers, topic, [{"value": b"x", "partition": n % 2} for n in range(100)])
    commit(servers, f"plain-{mark}", topic, {0: 7, 1: 9})
    running = stream(commits.NAME, commits.SCHEMA, clusters=clusters)

    def of_the_test(rows):
        return Counter({row: count for row, count in rows.items() if mark in row[1]})

    def seen(offset):
        def look():
            if running.query.exception() is not None:
                raise running.query.exception()
            return any(row[4] == offset for row in of_the_test(running.rows()))

        eventually(look, f"the commit of {offset} has come", 0.3)

    running.start()
    seen(9)
    commit(servers, f"plain-{mark}", topic, {0: 11})
    seen(11)
    running.stop()
    commit(servers, f"gone-{mark}", topic, {1: 60})
    admin = AdminClient({"bootstrap.servers": servers})
    (deleted,) = admin.delete_consumer_groups([f"gone-{mark}"]).values()
    deleted.result(DEADLINE_SECONDS)
    in_transactions(servers, topic, mark)
    running.start()
    commit(servers, f"plain-{mark}", topic, {1: 90})
    seen(90)
    seen(20)
    running.stop()
    running.start(availableNow=True)
    assert running.query.awaitTermination(60)
    read = spark.read.format(commits.NAME).option("clusters", clusters).load()
    whole = of_the_test(Counter(tuple(row) for row in read.collect()))
    assert of_the_test(running.rows()) == whole
    assert [row[1] for row in whole if row[4] is None] == [f"gone-{mark}"], "a tombstone"
    assert {row[4] for row in whole} == {7, 9, 11, 20, 60, 90, None}, "30 was never committed"


def in_transactions(servers, topic, mark):
    """Commit 20, and 30 in a transaction that is aborted."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"stream-{mark}"})
    producer.init_transactions(30)
    member = Consumer({"bootstrap.servers": servers, "group.id": f"atomic-{mark}"})
    for offset, ends_well in ((20, True), (30, False)):
        producer.begin_transaction()
        position = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(position, member.consumer_group_metadata(), 30)
        (producer.commit_transaction if ends_well else producer.abort_transaction)(30)
    member.close()
