"""Consumers during moves: their own thread closes and opens them, and nothing stale is committed."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.serialization import StringDeserializer
from treeline_client import ClientClosed, StaleGeneration, SwitchingConsumer
from treeline_client.reader import Reader

from tests.kafka.client.conftest import technical
from tests.nightly import some_now
from tests.support.kafka import topics as kafka

DEADLINE_SECONDS = 90.0
GROUPS = {"cluster-1": "acme-prod-{}", "cluster-2": "g-acme-prod-{}"}


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def filled(clusters, topic) -> str:
    """Return the topic with thirty records on each cluster, ten a partition: `cluster-1 0` to `cluster-1 29`."""
    for cluster in clusters.values():
        records = [{"value": f"{cluster.name} {n}", "partition": n % 3} for n in range(30)]
        kafka.produce(cluster.servers, technical(cluster.name, topic), records)
    return topic


def conf(plane, group, **more):
    return plane.conf(group_id=group, auto_offset_reset="earliest", **more)


def read(consumer, count) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        message = consumer.poll(DEADLINE_SECONDS)
        assert message is not None, f"only {len(found)} of {count} records came"
        assert message.error() is None
        found.append(message)
    return found


def move(plane, consumer, to="cluster-2"):
    """Make a planned move while the consumer is polled."""
    plane.hold(to)
    while not any(report["phase"] == "closed" for report in plane.reports.values()):
        assert consumer.poll(0.05) is None
    plane.move(to)


def commits(clusters, cluster, topic, group) -> dict[int, TopicPartition]:
    """Return the commits of a group on a cluster, by partition."""
    reader = Consumer({"bootstrap.servers": clusters[cluster].servers, "group.id": GROUPS[cluster].format(group)})
    places = [TopicPartition(technical(cluster, topic), number) for number in range(3)]
    found = {place.partition: place for place in reader.committed(places, DEADLINE_SECONDS) if place.offset >= 0}
    reader.close()
    return found


def test_a_subscription_goes_along_with_a_last_commit_and_logical_names(plane, clusters, filled, group):
    heard: list[tuple[str, str]] = []

    def listener(what):
        return lambda consumer, partitions: heard.extend((what, p.topic) for p in partitions)

    with SwitchingConsumer(conf(plane, group)) as consumer:
        consumer.subscribe([filled], listener("assign"), listener("revoke"), listener("lost"))
        messages = read(consumer, 30)
        assert {m.topic() for m in messages} == {filled}
        assert {m.value().decode().split()[0] for m in messages} == {"cluster-1"}
        assert sorted(p.partition for p in consumer.assignment()) == [0, 1, 2]
        move(plane, consumer)
        left = commits(clusters, "cluster-1", filled, group)
        assert {number: place.offset for number, place in left.items()} == {0: 10, 1: 10, 2: 10}
        assert {place.metadata for place in left.values()} == {"treeline-client:1;gen=3"}
        again = read(consumer, 30)
        assert {m.value().decode().split()[0] for m in again} == {"cluster-2"}
        assert (consumer.generation(), consumer.cluster()) == (4, "cluster-2")
        assert consumer.metrics().switches == 1
    assert heard == [(what, filled) for what in ("assign", "revoke", "assign", "revoke") for _ in range(3)]
    assert plane.reports == {}, "the client said unregister"
    assert {p.offset for p in commits(clusters, "cluster-2", filled, group).values()} == {10}


def test_an_assignment_goes_along_to_where_the_group_is_there(plane, clusters, filled, group):
    other = Consumer(
        {"bootstrap.servers": clusters["cluster-2"].servers, "group.id": GROUPS["cluster-2"].format(group)}
    )
    other.commit(offsets=[TopicPartition(technical("cluster-2", filled), 1, 4)], asynchronous=False)
    other.close()
    with SwitchingConsumer(conf(plane, group)) as consumer:
        consumer.assign([TopicPartition(filled, 1, 7), TopicPartition(filled, 2, 0)])
        consumer.pause([TopicPartition(filled, 2)])
        assert [m.offset() for m in read(consumer, 3)] == [7, 8, 9]
        assert consumer.position([TopicPartition(filled, 1)])[0].offset == 10
        move(plane, consumer)
        assert [(m.partition(), m.offset()) for m in read(consumer, 6)] == [(1, offset) for offset in range(4, 10)]
        consumer.resume([TopicPartition(filled, 2)])
        assert {m.partition() for m in read(consumer, 10)} == {2}


def test_listeners_may_commit_by_hand_at_the_end(plane, clusters, filled, group):
    with SwitchingConsumer(conf(plane, group, enable_auto_commit=False)) as consumer:
        consumer.subscribe([filled], on_revoke=lambda mine, _: mine.commit(asynchronous=False))
        read(consumer, 30)
        move(plane, consumer)
        assert {p.offset for p in commits(clusters, "cluster-1", filled, group).values()} == {10}


@pytest.mark.nightly  # test_last_commits, with a mutant
def test_where_it_begins_to_read_goes_along_if_nothing_was_read(plane, clusters, filled, group):
    assigned: list[int] = []
    with SwitchingConsumer(plane.conf(group_id=group)) as consumer:
        consumer.subscribe([filled], on_assign=lambda _, found: assigned.extend(p.partition for p in found))
        while not assigned:
            assert consumer.poll(0.05) is None
        # It is polled all the time, and must not reach this before the consumer closes.
        consumer.pause([TopicPartition(filled, 1)])
        name = technical("cluster-1", filled)
        kafka.produce(clusters["cluster-1"].servers, name, [{"value": "not polled", "partition": 1}])
        move(plane, consumer)
        left = commits(clusters, "cluster-1", filled, group)
        assert [left[number].offset for number in range(3)] == [10, 10, 10]
        assert {place.metadata for place in left.values()} == {"treeline-client:1;gen=3"}


@pytest.mark.nightly  # names of members: test_location
def test_cluster_and_discovery_know_it_by_the_same_name(plane, clusters, filled, group):
    """A plan uses the name to recognize group members that use discovery."""
    with SwitchingConsumer(conf(plane, group)) as consumer:
        consumer.subscribe([filled])
        read(consumer, 30)
        admin = AdminClient({"bootstrap.servers": clusters["cluster-1"].servers})
        (found,) = admin.describe_consumer_groups([GROUPS["cluster-1"].format(group)]).values()
        (member,) = found.result(DEADLINE_SECONDS).members
        assert [name.rpartition("-")[0] for name in plane.reports] == [member.client_id] == ["treeline"]


def test_an_abort_opens_it_where_it_was(plane, clusters, filled, group):
    with SwitchingConsumer(conf(plane, group)) as consumer:
        consumer.subscribe([filled])
        read(consumer, 30)
        plane.hold("cluster-2")
        while not any(report["phase"] == "closed" for report in plane.reports.values()):
            consumer.poll(0.05)
        plane.abort()
        kafka.produce(clusters["cluster-1"].servers, technical("cluster-1", filled), [{"value": "cluster-1 30"}])
        assert [m.value() for m in read(consumer, 1)] == [b"cluster-1 30"]
        assert consumer.generation() == 3
        assert consumer.metrics().aborts == 1


@pytest.mark.nightly  # the producer's stays
def test_an_abort_after_offsets_were_set_leaves_a_busy_one_as_it_is(plane, clusters, filled, group):
    """The application processes and commits its messages meanwhile; none of them is re-read."""
    with SwitchingConsumer(conf(plane, group, enable_auto_commit=False)) as consumer:
        consumer.subscribe([filled])
        messages = read(consumer, 30)
        member = consumer.memberid()
        plane.hold("cluster-2")
        plane.wait(lambda: consumer.metrics().phase == "settling")
        plane.abort(offsets_were_set=True)
        plane.wait_reported("active", generation=4)
        for message in messages:
            consumer.commit(message=message, asynchronous=False)
        left = commits(clusters, "cluster-1", filled, group)
        assert {place.offset for place in left.values()} == {10}
        assert consumer.memberid() == member
        kafka.produce(clusters["cluster-1"].servers, technical("cluster-1", filled), [{"value": "cluster-1 30"}])
        (message,) = read(consumer, 1)
        assert (message.value(), message.topic().generation) == (b"cluster-1 30", 4)
        assert (consumer.generation(), consumer.metrics().aborts, consumer.metrics().switches) == (4, 1, 0)
        move(plane, consumer)
        assert {m.value().decode().split()[0] for m in read(consumer, 30)} == {"cluster-2"}
        with pytest.raises(StaleGeneration):
            consumer.commit(message=messages[-1], asynchronous=False)


def test_one_whose_last_commit_is_not_acknowledged_has_not_closed(plane, clusters, filled, group, monkeypatch):
    commit, refused = Reader.commit, []

    def refuse(reader, offsets, asynchronous):
        if len(refused) < 3:
            refused.append(offsets)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return commit(reader, offsets, asynchronous)

    with SwitchingConsumer(conf(plane, group)) as consumer:
        consumer.subscribe([filled])
        read(consumer, 30)
        monkeypatch.setattr(Reader, "commit", refuse)
        move(plane, consumer)
        assert len(refused) == 3
        left = commits(clusters, "cluster-1", filled, group)
        assert {place.offset for place in left.values()} == {10}


def test_a_promise_ends_when_the_control_plane_is_gone(plane, clusters, filled, group):
    plane.says(hold_ms=1500)
    with SwitchingConsumer(conf(plane, group)) as consumer:
        consumer.subscribe([filled])
        read(consumer, 30)
        plane.hold("cluster-2")
        while not any(report["phase"] == "closed" for report in plane.reports.values()):
            consumer.poll(0.05)
        plane.stop()
        kafka.produce(clusters["cluster-1"].servers, technical("cluster-1", filled), [{"value": "cluster-1 30"}])
        assert [m.value() for m in read(consumer, 1)] == [b"cluster-1 30"]
        assert consumer.metrics().promises_run_out == 1


@pytest.mark.nightly  # the same of a producer in test_starting
def test_its_wall_clock_may_be_anything(plane, clusters, filled, group, monkeypatch):
    """The clock changes while the consumer reads, is closed, and resumes; brokers' clocks order its commits."""
    with SwitchingConsumer(conf(plane, group)) as consumer:
        consumer.subscribe([filled])
        read(consumer, 10)
        monkeypatch.setattr(time, "time", lambda: 4_000_000_000.0)
        read(consumer, 20)
        plane.hold("cluster-2")
        while not any(report["phase"] == "closed" for report in plane.reports.values()):
            assert consumer.poll(0.05) is None
        monkeypatch.setattr(time, "time", lambda: 1.0)
        assert sum(place.offset for place in commits(clusters, "cluster-1", filled, group).values()) == 30
        plane.move("cluster-2")
        assert {m.value().split()[0] for m in read(consumer, 30)} == {b"cluster-2"}
        assert consumer.metrics().promises_run_out == 0


@some_now("mode", ["emergency", "planned"], now=(0,))
def test_one_that_was_not_held_leaves_a_silent_cluster_at_once(plane, clusters, filled, group, mode):
    lost: list[int] = []
    old = clusters["cluster-1"]
    with SwitchingConsumer(conf(plane, group)) as consumer:
        consumer.subscribe([filled], on_lost=lambda _, partitions: lost.extend(p.partition for p in partitions))
        first = read(consumer, 30)
        old.pause()
        try:
            plane.move("cluster-2", mode)
            plane.wait(lambda: [r.get("still_in") for r in plane.reports.values()] == ["3"])
            assert [r["generation"] for r in plane.reports.values()] == ["4"], "it knows, but nobody has polled"
            again = read(consumer, 30)
            plane.wait(lambda: all("still_in" not in r for r in plane.reports.values()))
        finally:
            old.go_on()
        assert {m.value().decode().split()[0] for m in again} == {"cluster-2"}
        assert sorted(lost) == [0, 1, 2]
        with pytest.raises(StaleGeneration):
            consumer.commit(message=first[-1])


def test_what_was_read_in_an_earlier_generation_is_not_committed(plane, clusters, filled, group):
    place = TopicPartition(filled, 0, 5)
    with SwitchingConsumer(conf(plane, group, enable_auto_commit=False)) as consumer:
        consumer.subscribe([filled])
        old = read(consumer, 30)[-1]
        assert consumer.commit(message=old, asynchronous=False)[0].topic == filled
        assert consumer.commit(offsets=[place], asynchronous=False)[0].offset == 5
        move_and_refuse(plane, consumer, old, place)
        new = read(consumer, 30)[-1]
        for stale in (
            lambda: consumer.commit(message=old),
            lambda: consumer.store_offsets(message=old),
            lambda: consumer.commit(offsets=[place], generation=3),
            lambda: consumer.commit(offsets=[TopicPartition(filled, 0, 11)]),
            lambda: consumer.store_offsets(offsets=[TopicPartition(filled, 0, 12)]),
        ):
            with pytest.raises(StaleGeneration) as refused:
                stale()
            assert refused.value.args[0].code() == KafkaError.ILLEGAL_GENERATION
            assert "cluster-2 in generation 4" in str(refused.value)
        assert commits(clusters, "cluster-2", filled, group) == {}
        consumer.commit(message=new, asynchronous=False)
        consumer.commit(offsets=[TopicPartition(filled, 0, 11)], generation=4, asynchronous=False)
        assert commits(clusters, "cluster-2", filled, group)[0].offset == 11
        assert consumer.metrics().stale_commits_refused == 8


def move_and_refuse(plane, consumer, old, place):
    """Make a move; between the clusters, every commit and every request for a position is refused."""
    plane.hold("cluster-2")
    while not any(report["phase"] == "closed" for report in plane.reports.values()):
        consumer.poll(0.05)
    for stale in (
        lambda: consumer.commit(message=old),
        lambda: consumer.commit(offsets=[place]),
        lambda: consumer.commit(),
        lambda: consumer.position([place]),
    ):
        with pytest.raises(StaleGeneration):
            stale()
    plane.move("cluster-2")


def test_everything_takes_and_gives_logical_names(plane, clusters, filled, group):
    committed: list[str] = []

    def on_commit(error, partitions):
        committed.extend(p.topic for p in partitions)

    with SwitchingConsumer({**conf(plane, group, enable_auto_commit=False), "on_commit": on_commit}) as consumer:
        assert list(consumer.list_topics(filled, DEADLINE_SECONDS).topics) == [filled]
        assert filled in consumer.list_topics(timeout=DEADLINE_SECONDS).topics
        assert consumer.get_watermark_offsets(TopicPartition(filled, 0), DEADLINE_SECONDS) == (0, 10)
        (at_time,) = consumer.offsets_for_times([TopicPartition(filled, 0, 0)], DEADLINE_SECONDS)
        assert (at_time.topic, at_time.offset) == (filled, 0)
        consumer.incremental_assign([TopicPartition(filled, 0, 0)])
        read(consumer, 10)
        consumer.seek(TopicPartition(filled, 0, 4))
        (message,) = read(consumer, 1)
        assert message.offset() == 4
        assert StringDeserializer()(message.value()) == "cluster-1 12"
        assert isinstance(message, Message)
        consumer.commit(message=message)
        while not committed:
            consumer.poll(0.1)
        assert set(committed) == {filled}
        (found,) = consumer.committed([TopicPartition(filled, 0)], DEADLINE_SECONDS)
        assert (found.topic, found.offset) == (filled, 5)
        consumer.incremental_unassign([TopicPartition(filled, 0)])
        assert consumer.assignment() == []
        with pytest.raises(ValueError, match="pattern"):
            consumer.subscribe(["^orders.*"])
        with pytest.raises(KafkaException):
            consumer.commit()
    with pytest.raises(ClientClosed):
        consumer.poll(0)


def test_consume_gives_messages_of_one_generation_at_a_time(plane, clusters, filled, group):
    with SwitchingConsumer(conf(plane, group)) as consumer:
        consumer.subscribe([filled])
        assert len(consumer.consume(30, DEADLINE_SECONDS)) == 30
        stop = threading.Event()

        def switch() -> None:
            plane.hold("cluster-2")
            plane.wait_reported("closed")
            plane.move("cluster-2")
            stop.set()

        thread = threading.Thread(target=switch)
        thread.start()
        found = consumer.consume(30, DEADLINE_SECONDS)
        thread.join()
        assert {m.topic().generation for m in found} == {4}
        assert len(found) == 30
