"""Commits of a consumer before it is moved, on a cluster that answers what the test wants."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from treeline_client import configuration, reader
from treeline_client.answers import Answer, Destination

from tests.support.api.control_plane import TOKEN

SAYS = Destination(cluster="cluster-1", bootstrap_servers="b:1", topic_format="t-{topic}", group_format="{group}")
MARK = "treeline-client:1;gen=3"


class OneCluster:
    """Replaces librdkafka's consumer; three partitions are assigned, from 2 to 10, 11 and 12."""

    def __init__(self, conf):
        self.on_commit = conf["on_commit"]
        self.sent: list[list[TopicPartition]] = []
        self.commits: dict[int, TopicPartition] = {}
        self.ends = {0: 10, 1: 11, 2: 12}
        self.failing = False
        self.closed = False

    def assignment(self):
        return [TopicPartition("t-orders", number, OFFSET_INVALID) for number in range(3)]

    def position(self, partitions):
        return [TopicPartition(p.topic, p.partition, OFFSET_INVALID) for p in partitions]

    def committed(self, partitions, timeout):
        assert 0 < timeout < 5
        if self.failing:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        nothing = TopicPartition("t-orders", 0, OFFSET_INVALID)
        return [
            TopicPartition(p.topic, p.partition, self.commits.get(p.partition, nothing).offset) for p in partitions
        ]

    def offsets_for_times(self, partitions, timeout):
        assert 0 < timeout < 5
        assert {p.offset for p in partitions} <= {OFFSET_BEGINNING, OFFSET_END}
        found = [2 if p.offset == OFFSET_BEGINNING else self.ends[p.partition] for p in partitions]
        return [TopicPartition(p.topic, p.partition, at) for p, at in zip(partitions, found, strict=True)]

    def commit(self, offsets, asynchronous):
        assert not self.closed
        if asynchronous:
            self.sent.append(offsets)
            return None
        self.commits.update({one.partition: one for one in offsets})
        return offsets

    def close(self):
        self.closed = True

    def found(self):
        return {number: (one.offset, one.metadata) for number, one in self.commits.items()}


@pytest.fixture
def opened(monkeypatch):
    monkeypatch.setattr(reader, "Consumer", OneCluster)
    answer = Answer(
        destination=SAYS, generation=3, hold=False, ttl_ms=1000, hold_ms=10_000, distributor_timeout_ms=5000,
        distributor_distance=2, emergency=False, arrived=False, next=None,
    )  # fmt: skip
    given = {
        "treeline.url": "http://localhost", "treeline.token": TOKEN, "treeline.tenant": "acme",
        "treeline.instance": "retail", "treeline.environment": "prod", "treeline.cache.directory": "",
        "group.id": "billing", "auto.commit.interval.ms": 0,
    }  # fmt: skip

    def make(**more):
        read = configuration.read({**given, **{key.replace("__", "."): value for key, value in more.items()}})
        return reader.Reader(read, answer, None)

    return make


def give(made, offset, partition=0):
    made.give(Message(topic="t-orders", partition=partition, offset=offset, value=b"v"))


@pytest.mark.parametrize("failed", [True, False])
def test_a_commit_that_failed_or_was_not_answered_is_made_again_at_the_end(opened, failed):
    heard = []
    made = opened(on_commit=lambda error, partitions: heard.append((error, partitions[0].topic)))
    give(made, 6)
    made.commit_in_time()
    made.commit_in_time()
    assert [one[0].offset for one in made.consumer.sent] == [7], "it is on its way"
    error = KafkaError(KafkaError._TRANSPORT)
    if failed:
        made.consumer.on_commit(error, made.consumer.sent[0])
    made.close()
    assert made.consumer.found() == {0: (7, MARK)}
    assert heard == [(error, "orders")] * failed


def test_a_commit_that_was_answered_is_not_made_again(opened):
    heard = []
    made = opened(on_commit=lambda error, partitions: heard.append((error, partitions[0].offset)))
    give(made, 6)
    made.commit_in_time()
    made.consumer.on_commit(None, made.consumer.sent[0])
    made.commit_in_time()
    made.close()
    assert (made.consumer.found(), len(made.consumer.sent), heard) == ({}, 1, [(None, 7)])


def test_a_commit_by_hand_that_was_not_answered_is_made_again_and_nothing_else(opened):
    made = opened(enable__auto__commit=False)
    give(made, 6)
    made.commit([TopicPartition("orders", 0, 4, "mine")], asynchronous=True)
    made.close(moving=True)
    assert made.consumer.found() == {0: (4, "mine")}


def begun(made):
    """Partition 0 was read, the group has a commit on 1, and 2 got records that were not polled."""
    made.begin(made.consumer.assignment())
    give(made, 6)
    made.consumer.commits[1] = TopicPartition("t-orders", 1, 3)
    made.consumer.ends[2] = 15
    return made


def test_where_it_begins_to_read_is_committed_before_a_move(opened):
    made = begun(opened())
    made.close(moving=True)
    assert made.consumer.found() == {0: (7, MARK), 1: (3, None), 2: (12, MARK)}


def test_one_that_was_assigned_from_its_beginning_begins_there(opened):
    made = opened()
    made.begin([TopicPartition("t-orders", number, OFFSET_BEGINNING) for number in range(3)])
    made.close(moving=True)
    assert {offset for offset, _ in made.consumer.found().values()} == {2}


def test_an_end_that_was_not_known_is_asked_for_at_the_close(opened, monkeypatch):
    def silent(*_):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    with monkeypatch.context() as while_it_joins:
        while_it_joins.setattr(OneCluster, "offsets_for_times", silent)
        made = begun(opened())
    made.close(moving=True)
    assert made.consumer.found()[2] == (15, MARK)


def test_what_was_given_and_not_stored_is_given_again(opened):
    made = begun(opened(enable__auto__offset__store=False))
    give(made, 13, partition=2)
    give(made, 14, partition=2)
    made.close(moving=True)
    assert made.consumer.found() == {0: (6, MARK), 1: (3, None), 2: (13, MARK)}


@pytest.mark.parametrize(
    ("more", "moving"), [({"auto__offset__reset": "earliest"}, True), ({}, False)], ids=["earliest", "not moved"]
)
def test_nothing_but_what_was_read_is_committed_where_that_loses_nothing(opened, more, moving):
    made = begun(opened(**more))
    made.close(moving)
    assert made.consumer.found() == {0: (7, MARK), 1: (3, None)}


def test_nothing_takes_the_place_of_commits_that_are_not_known(opened):
    made = begun(opened())
    made.consumer.failing = True
    assert not made.close(moving=True)
    assert made.consumer.found() == {0: (7, MARK), 1: (3, None)}
    assert not made.consumer.closed, "the group would begin elsewhere as if it had committed nothing"
    made.consumer.failing = False
    assert made.close(moving=True) and made.consumer.closed
