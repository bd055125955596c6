"""The copy session on two real clusters of the estate, with topics and names of each test's own."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import DistributedStream, Endpoint, HeaderNames
from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.domain.tree import tree_shape
from backend.kafka.base.errors import CopyFailed
from backend.kafka.copy import native
from backend.kafka.copy import session as copy_session
from backend.kafka.copy.clients import CopyLimits
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.seen_ends import SeenEnds
from backend.kafka.copy.session import CopySession
from backend.kafka.copy.source import Source
from backend.kafka.groups import positions
from tests.eventually import eventually
from tests.support.domain.plans import lives, plans_of
from tests.support.kafka.topics import DEADLINE_SECONDS, configure, create_topic, produce, read_all

LIMITS = CopyLimits(
    batch_records=500, transaction_timeout_ms=15000, fetch_wait_max_ms=50, fetch_buffer_kbytes=8192
)
HEADERS = HeaderNames(flags="copy-flags", origin="copy-origin", write_origin=True)


class Pair:
    """Two clusters as a tree of level 1, with unique names."""

    def __init__(self, estate, partitions=2, record_loop="auto"):
        self.limits = replace(LIMITS, record_loop=record_loop)
        self.mark = uuid.uuid4().hex[:8]
        self.a, self.b = f"a{self.mark}", f"b{self.mark}"
        self.topic, self.copy_topic = f"orders.{self.mark}", f"copied.{self.mark}"
        self.stream = f"t/i/e/{self.mark}"
        self.servers = {
            self.a: estate.bootstrap_servers("cluster-1"),
            self.b: estate.bootstrap_servers("cluster-2"),
        }
        self.make_topics(partitions)
        self.partitions = partitions
        self.lost, self.replaced, self.truncated, self.refused = [], [], [], []
        self.seen_ends = SeenEnds()

    def make_topics(self, partitions):
        create_topic(self.servers[self.a], self.topic, partitions)
        create_topic(self.servers[self.b], self.copy_topic, partitions)

    def plan(self, source=None, **changes):
        source = source or self.a
        document = {"level": 1, "children": [{"cluster": self.a}, {"cluster": self.b}]}
        root = tree_shape.parse(document, {self.a, self.b})
        endpoints = {
            name: Endpoint(name=name, number=number, bootstrap_servers=self.servers[name], properties={})
            for number, name in ((1, self.a), (2, self.b))
        }
        stream = DistributedStream(
            stream=self.stream,
            partitions=self.partitions,
            technical_names={self.a: self.topic, self.b: self.copy_topic},
            topics=lives({self.a: 1, self.b: 1}),
            **changes,
        )
        plans = plans_of(root, tree_shape.default_targets(root), endpoints, [stream], 1, HEADERS)
        return plans[Task(source, 1, 0)]

    def session(self, source=None, plan=None, **options):
        control_plane = ControlPlane(
            lost=self.lost.append,
            replaced=self.replaced.append,
            truncated=self.truncated.append,
            dead_letter=self.dead_letter,
            seen_ends=self.seen_ends,
        )
        session = CopySession(plan or self.plan(source), self.limits, control_plane=control_plane, **options)
        session.open(lambda: True)
        return session

    def dead_letter(self, refused):
        self.refused.append(refused)
        return f"refused-{self.mark}-{len(self.refused)}"

    def copy_until_idle(self, source=None):
        session = self.session(source)
        try:
            drain(session)
        finally:
            session.close()
        return session.totals

    def produce(self, records, **config):
        produce(self.servers[self.a], self.topic, records, **config)

    def copied(self):
        return read_all(self.servers[self.b], self.copy_topic)

    def forget_positions(self):
        """Delete the positions, as brokers do with those that are not committed again for long."""
        group = self.plan().task.kafka_name
        admin = AdminClient({"bootstrap.servers": self.servers[self.b]})
        admin.delete_consumer_groups([group])[group].result(DEADLINE_SECONDS)


def drain(session):
    """Copy until the end, for a new session only: after an end, a session sees new records late."""
    while session.lag_records() != 0:
        session.copy_batch(0.2)


def copy(session, records):
    """Copy until the session has copied this many records since it was opened."""

    def copied():
        session.copy_batch(0.2)
        return session.totals.copied_records >= records

    eventually(copied, f"{records} records copied")
    assert session.totals.copied_records == records


@pytest.fixture(params=[pytest.param("python", marks=pytest.mark.nightly), "native"])
def pair(request, estate):
    if request.param == "native" and not native.available():
        pytest.skip("the native record loop was not built")
    return Pair(estate, record_loop=request.param)


def numbered(count, partitions=2):
    return [{"value": str(n).encode(), "key": b"k%d" % n, "partition": n % partitions} for n in range(count)]


def values(messages):
    return [message.value() for message in messages]


@pytest.mark.parametrize("pair", ["python", "native"], indirect=True)
def test_records_arrive_unchanged_with_our_headers_last(pair):
    stamp = 1_700_000_000_123
    others = [("trace", b"\x00\xff"), ("empty", b""), ("nothing", None), ("trace", b"twice")]
    pair.produce(
        [
            {"value": b"v", "key": b"k", "partition": 1, "timestamp": stamp, "headers": others},
            {"value": None, "key": b"tombstone", "partition": 1, "timestamp": stamp},
            {"value": b"no key", "key": None, "partition": 1, "timestamp": stamp},
            {"value": b"", "key": b"", "partition": 1, "timestamp": stamp},
        ]
    )
    pair.copy_until_idle()
    copied = pair.copied()
    assert [(m.key(), m.value(), m.partition(), m.timestamp()[1]) for m in copied] == [
        (b"k", b"v", 1, stamp),
        (b"tombstone", None, 1, stamp),
        (None, b"no key", 1, stamp),
        (b"", b"", 1, stamp),
    ]
    assert copied[0].headers()[:4] == others
    (flags_name, flags), (origin_name, born) = copied[0].headers()[4:]
    assert (flags_name, copy_flags.decode([flags])[0]) == ("copy-flags", 1)
    assert origin_name == "copy-origin"
    assert origin.decode([born]) == Origin(1, origin.stream_id(pair.stream), 1, 0, 1)


def test_keys_values_and_headers_of_copies_are_counted(pair):
    """A limit of bytes counts all of them."""
    pair.produce([{"value": b"value", "key": b"key", "partition": 0, "headers": [("h", b"four"), ("n", None)]}])
    assert pair.copy_until_idle().copied_bytes == 5 + 3 + 5 + 1 + (10 + 4) + (11 + 27)


def test_nothing_comes_back(pair):
    pair.produce(numbered(20))
    pair.copy_until_idle()
    assert pair.copy_until_idle(pair.b).copied_records == 0
    assert len(read_all(pair.servers[pair.a], pair.topic)) == 20


def test_a_session_begins_where_the_last_transaction_ended(pair):
    pair.produce(numbered(50))
    pair.copy_until_idle()
    pair.produce(numbered(30))
    assert pair.copy_until_idle().copied_records == 30
    assert len(pair.copied()) == 80


def test_a_session_that_dies_between_produce_and_commit_leaves_nothing_behind(pair, monkeypatch):
    pair.produce(numbered(40))
    dying = pair.session()

    def killed():
        raise RuntimeError("killed")

    monkeypatch.setattr(dying, "_commit", killed)
    with pytest.raises(RuntimeError, match="killed"):
        drain(dying)
    # Its transaction is open on the target until the successor's init_transactions aborts it.
    pair.copy_until_idle()
    copied = pair.copied()
    assert sorted(values(copied), key=int) == [str(n).encode() for n in range(40)]
    dying.close()


def test_a_zombie_commits_nothing_once_its_successor_has_begun(pair):
    pair.produce(numbered(10))
    zombie = pair.session()
    drain(zombie)
    successor = pair.session()
    pair.produce(numbered(10))
    with pytest.raises(CopyFailed) as failed:
        copy(zombie, 20)
    assert failed.value.fenced
    copy(successor, 10)
    zombie.close()
    successor.close()
    assert len(pair.copied()) == 20


def test_what_a_zombie_could_not_commit_comes_by_its_successor(pair):
    """Check that neither the records nor the positions are there: both are one transaction."""
    pair.produce(numbered(10))
    zombie = pair.session()
    drain(zombie)
    pair.session().close()
    pair.produce(numbered(10))
    with pytest.raises(CopyFailed):
        copy(zombie, 20)
    zombie.close()
    assert pair.copy_until_idle().copied_records == 10
    assert len(pair.copied()) == 20


def test_a_session_that_lost_its_lease_while_it_fenced_does_not_begin(pair):
    session = CopySession(pair.plan(), pair.limits)
    with pytest.raises(CopyFailed) as failed:
        session.open(lambda: False)
    assert failed.value.fenced
    session.close()


def test_aborted_records_are_nowhere(pair):
    producer = Producer({"bootstrap.servers": pair.servers[pair.a], "transactional.id": f"app-{pair.mark}"})
    producer.init_transactions(15)
    for outcome in ("committed", "aborted", "committed"):
        producer.begin_transaction()
        producer.produce(pair.topic, outcome.encode(), partition=0)
        producer.flush(15)
        (producer.commit_transaction if outcome == "committed" else producer.abort_transaction)(15)
    pair.copy_until_idle()
    assert values(pair.copied()) == [b"committed", b"committed"]
    assert b"aborted" not in values(read_all(pair.servers[pair.b], pair.copy_topic, "read_uncommitted"))


def test_order_within_a_partition_is_kept_over_many_batches(pair):
    pair.produce(numbered(3000))
    pair.copy_until_idle()
    copied = pair.copied()
    for partition in (0, 1):
        order = [int(m.value()) for m in copied if m.partition() == partition]
        assert order == list(range(partition, 3000, 2))


def test_streams_come_and_go_without_a_new_session(pair, estate):
    other = Pair(estate)
    other.servers, other.a, other.b = pair.servers, pair.a, pair.b
    pair.produce(numbered(10))
    session = pair.session()
    copy(session, 10)
    both = (*pair.plan().streams, *other.plan().streams)
    produce(other.servers[other.a], other.topic, numbered(6))
    session.update(both)
    copy(session, 16)
    session.update(other.plan().streams)
    pair.produce(numbered(4))
    produce(other.servers[other.a], other.topic, numbered(2))
    copy(session, 18)
    assert (len(pair.copied()), len(other.copied())) == (10, 8)
    session.update(both)
    copy(session, 22)
    session.close()
    assert (len(pair.copied()), len(other.copied())) == (14, 8)


def test_partitions_that_a_topic_got_are_copied_in_the_same_session(pair):
    pair.produce([{"value": b"old", "partition": 1}])
    session = pair.session()
    drain(session)
    for servers, topic in ((pair.servers[pair.b], pair.copy_topic), (pair.servers[pair.a], pair.topic)):
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(DEADLINE_SECONDS)
        eventually(lambda a=admin, t=topic: len(a.list_topics(t, 10).topics[t].partitions) == 4, "grown")
    session.update(())  # as while the new number is being applied
    pair.partitions = 4
    session.update(pair.plan().streams)
    pair.produce([{"value": b"new", "partition": 3}])
    copy(session, 2)
    session.close()
    assert sorted((m.partition(), m.value()) for m in pair.copied()) == [(1, b"old"), (3, b"new")]


def test_a_record_of_a_megabyte_passes_although_our_headers_make_it_larger(pair):
    pair.produce([{"value": b"x" * 1_000_000, "partition": 0}], **{"message.max.bytes": 2_000_000})
    pair.copy_until_idle()
    assert [len(m.value()) for m in pair.copied()] == [1_000_000]


def test_small_records_pass_into_a_topic_that_takes_only_small_requests(pair):
    configure(pair.servers[pair.b], pair.copy_topic, {"max.message.bytes": "20000"})
    padding = [("h", b"x" * 500)]
    pair.produce([{"value": b"%04d" % n + b"." * 500, "headers": padding, "partition": n % 2} for n in range(600)])
    pair.copy_until_idle()
    assert len(pair.copied()) == 600


def test_a_target_that_is_gone_ends_the_session_with_the_reason(pair, monkeypatch):
    monkeypatch.setattr(copy_session, "_INIT_SECONDS", 1.0)
    pair.servers[pair.b] = "127.0.0.1:9"
    session = CopySession(pair.plan(), pair.limits)
    with pytest.raises(CopyFailed) as failed:
        session.open(lambda: True)
    session.close()
    assert not failed.value.fenced
    assert pair.b in failed.value.detail


def test_the_position_on_an_empty_log_is_saved_so_that_what_goes_missing_is_noticed(pair):
    session = pair.session()

    def saved():
        session.copy_batch(0.2)
        group = [session._plan.task.kafka_name]
        return positions.read_all(pair.servers[pair.b], {}, group)

    found = eventually(saved, "positions are saved")
    session.close()
    assert set(found) == {(pair.copy_topic, 0), (pair.copy_topic, 1)}


@pytest.mark.parametrize("first", ["the seek", pytest.param("the fetch", marks=pytest.mark.nightly)])
def test_records_that_retention_took_are_told_exactly_and_the_rest_goes_on(pair, monkeypatch, first):
    if first == "the fetch":
        # As on a busy machine now and then: the fetch has failed before the seek, which is refused from then on.
        at_once = Source._check_epoch
        monkeypatch.setattr(Source, "_check_epoch", lambda *args: time.sleep(0.5) or at_once(*args))
    pair.produce(numbered(10))
    session = pair.session()
    drain(session)
    session.close()
    pair.produce(numbered(20))
    admin = AdminClient({"bootstrap.servers": pair.servers[pair.a]})
    (deleted,) = admin.delete_records([TopicPartition(pair.topic, 0, 9)]).values()
    deleted.result(DEADLINE_SECONDS)
    session = pair.session()
    eventually(lambda: session.copy_batch(0.2) and pair.lost, "the gap is told")
    drain(session)
    assert not session.troubles()
    session.close()
    (gone,) = pair.lost
    assert (gone.stream, gone.partition, gone.first_offset, gone.last_offset) == (pair.stream, 0, 5, 8)
    copied = pair.copied()
    assert len([m for m in copied if m.partition() == 0]) == 5 + 6
    assert len([m for m in copied if m.partition() == 1]) == 15


def test_a_topic_that_is_not_there_yet_is_taken_up_when_it_comes_and_holds_up_nobody(pair):
    (stream,) = pair.plan().streams
    late = replace(stream, stream="t/i/e/late", source_topic=f"late.{pair.mark}", target_topic=f"late.{pair.mark}")
    create_topic(pair.servers[pair.b], late.target_topic, 2)
    session = pair.session()
    session.update((stream, late))
    pair.produce(numbered(6))
    copy(session, 6)
    assert session.lag_records() is None, "how far the missing topic lags cannot be known"
    assert {topic for topic, _ in session.troubles()} == {late.source_topic}
    create_topic(pair.servers[pair.a], late.source_topic, 2)
    produce(pair.servers[pair.a], late.source_topic, numbered(8))

    copy(session, 14)
    assert not session.troubles()
    session.close()


@pytest.mark.parametrize("end", ["source", "target"])
def test_another_kafka_cluster_at_a_known_address_is_neither_read_nor_written(pair, end):
    plan = pair.plan()
    stranger = replace(getattr(plan, end), kafka_cluster_id="somebody else's")
    session = CopySession(replace(plan, **{end: stranger}), pair.limits)
    pair.produce(numbered(4))
    with pytest.raises(CopyFailed, match="another Kafka cluster answers"):
        session.open(lambda: True)
    session.close()
    assert pair.copied() == []
