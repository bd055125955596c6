"""The ranges that a micro-batch reads, with the state needed to determine origins."""

from __future__ import annotations

from backend.domain.distribution.rescan import Checkpoint
from backend.domain.topics.replica_defaults import ReplicaDefaults
from backend.queries.clusters.clusters import ClusterRow
from spark.micro_batch import Answer, Found
from workers.offsets.batch import AskedLog, Batch
from workers.offsets.directory import Directory

STREAM = "acme/retail/prod/orders"


def directory() -> Directory:
    row = ClusterRow(
        name="c1", number=7, bootstrap_servers="nobody:9", zone=None, topic_format="", group_format="",
        subject_format="", properties={}, state="online", reason=None, kafka_cluster_id="k", brokers=1, version=1,
        position=1, defaults=ReplicaDefaults(),
        defaults_before=ReplicaDefaults(),
    )  # fmt: skip
    return Directory(
        position=1,
        clusters={"c1": row},
        members=frozenset({"c1"}),
        groups={},
        streams={},
        rules={},
        known_origins=frozenset({7, 8}),
        holes={(STREAM, 0): frozenset({(8, 1, 3)})},
    )


def test_headers_are_those_of_the_settings():
    log = AskedLog(log=("c1", STREAM, 0), topic="orders", incarnations=((0, 1),), asked={40}, low=0, end=100)
    log.make_plan(10**6)
    ((one,),) = [each.ranges for each in Batch([log]).slices(directory(), ("x-flags", "x-origin"))]
    read, born = one
    assert (read.topic, read.partition, read.first, read.end) == ("orders", 0, 0, 100)
    assert (born.number, born.stream, born.flags_header, born.origin_header) == (7, STREAM, "x-flags", "x-origin")
    assert (born.known_origins, born.holes) == ({7, 8}, {(8, 1, 3)})


def test_reading_begins_before_the_offset_so_that_the_record_before_it_is_seen():
    log = AskedLog(log=("c1", STREAM, 0), topic="orders", incarnations=((0, 1),), asked={5_000}, low=0, end=9_000)
    log.checkpoints = [Checkpoint(at, 1, {7: (1, at - 1)}) for at in (3_000, 3_990, 4_500, 5_000)]
    log.make_plan(10**6)
    assert log.plan is not None
    (part,) = log.plan.parts
    assert (part.first, part.end, part.seen) == (3_990, 9_000, {7: (1, 3_989)})


def stood(log, offset, vector):
    log.make_plan(10**6)
    answer = Answer(timestamp_ms=5, safe_timestamp_ms=6, vector=vector)
    found = Found({}, {(0, at): answer for at in log.places})
    return Batch([log]).answers(found, directory())[("c1", STREAM, 0), offset]


def test_an_offset_past_the_end_is_the_end():
    log = AskedLog(
        log=("c1", STREAM, 0), topic="orders", incarnations=((0, 1),), asked={2**63 - 1}, low=10, end=100
    )
    found = stood(log, 2**63 - 1, {7: (1, 90)})
    assert (log.places, found.vector, found.passed) == ({100}, {7: (1, 90)}, {7: (1, 99)})


def test_of_an_offset_before_the_beginning_only_what_was_born_there_is_known():
    log = AskedLog(log=("c1", STREAM, 0), topic="orders", incarnations=((0, 1),), asked={4, 0}, low=10, end=100)
    log.checkpoints = [Checkpoint(10, 1, {7: (1, 9), 8: (1, 77)})]
    found = stood(log, 4, {7: (1, 9), 8: (1, 77)})
    assert (log.places, found.timestamp_ms, found.vector, found.passed) == ({10}, None, {}, {7: (1, 3)})
    assert stood(log, 0, {7: (1, 9)}).passed == {}
