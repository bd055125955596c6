"""Following commits resumes after a restart before the first unprocessed commit, and no earlier."""

from __future__ import annotations

import secrets
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.domain.offsets import commit_metadata
from backend.domain.offsets.commit_metadata import CommitMark
from backend.kafka.groups.commit_log import CommitLog, Commits
from tests.eventually import eventually
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic
from workers.offsets import store
from workers.offsets.commit_logs import CommitLogs

CLUSTER = "cluster-1"


@pytest.fixture
def topic(servers):
    name = f"commits-{secrets.token_hex(4)}"
    create_topic(servers[CLUSTER], name, 1)
    return name


def commit(servers, group, topic, offset, metadata=""):
    consumer = Consumer({"bootstrap.servers": servers[CLUSTER], "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset, metadata)], asynchronous=False)
    consumer.close()


def test_an_offset_of_ours_behind_a_tombstone_is_there_again(servers, topic):
    """An offset set by Treeline after a tombstone counts, whether both are read at once or one after the other."""
    one, other = f"one-{topic}", f"other-{topic}"
    ours = commit_metadata.encode(
        CommitMark(flags=1, timestamp_ms=1, committed_at_ms=1, generation=1, cluster="cluster-2")
    )
    admin, reader = AdminClient({"bootstrap.servers": servers[CLUSTER]}), None
    for group in (one, other):
        commit(servers, group, topic, 1)
        for gone in admin.delete_consumer_groups([group]).values():
            gone.result(DEADLINE_SECONDS)
    try:
        reader = CommitLog({"bootstrap.servers": servers[CLUSTER]}, {})

        def read(found):
            reader.read(0.1)
            taken = reader.take()
            mine = {key: value for key, value in taken.made.items() if key.topic == topic}
            found.made.update(mine)
            found.set_again |= {key for key in taken.set_again if key.topic == topic}
            return found

        found = Commits()
        eventually(lambda: len(read(found).made) == 2, "both are gone")
        assert set(found.made.values()) == {None}
        commit(servers, one, topic, 2, ours)
        eventually(lambda: {key.group for key in read(found).set_again} == {one}, "one is there again")
        reader.close()
        reader, found = CommitLog({"bootstrap.servers": servers[CLUSTER]}, {}), Commits()
        eventually(lambda: {key.group for key in read(found).set_again} == {one}, "also when all is read at once")
        # The groups are in different partitions of the log, which are read one after the other.
        eventually(lambda: other in {key.group for key in read(found).made}, "the other's end is read, too")
        assert {key.group: value for key, value in found.made.items() if key.group == other} == {other: None}
    finally:
        if reader is not None:
            reader.close()


def test_what_is_left_is_read_again_and_what_came_long_before_it_is_not(servers, topic, database):
    row = SimpleNamespace(name=CLUSTER, bootstrap_servers=servers[CLUSTER], properties={}, kafka_cluster_id="k")
    known = SimpleNamespace(clusters={CLUSTER: row})
    first, logs = CommitLogs(database.engine), CommitLogs(database.engine)
    left, others = f"left-{topic}", [f"done-{number}-{topic}" for number in range(20)]

    def found(reader):
        reader.follow(known)
        made = reader.ready().get(CLUSTER, {})
        return {key.group: (key, value.offset) for key, value in made.items() if value and key.topic == topic}

    def processed(keys):
        pending = {key: value for key, value in first.ready()[CLUSTER].items() if key in keys}
        with database.engine.begin() as connection:
            first.write_positions(connection, row, pending)
        first.mark_processed(CLUSTER, pending)

    try:
        commit(servers, left, topic, 1)
        eventually(lambda: left in found(first), "it is read")
        key, _ = found(first)[left]
        processed({key})
        for group in others:
            commit(servers, group, topic, 5)
        eventually(lambda: set(others) < set(found(first)), "so are those behind it")
        processed({key})
        eventually(lambda: left in found(logs), "another process finds what was left")
        again = set(others) & set(found(logs))
        assert len(again) < len(others), "but not what is in other partitions of the topic"
        processed(set())
        with database.engine.connect() as connection:
            positions = store.read_positions(connection, CLUSTER, "k")
        last = CommitLogs(database.engine)
        assert found(last) == {}
        commit(servers, left, topic, 2)
        eventually(lambda: found(last).get(left, (None, 0))[1] == 2, "it goes on")
        assert set(found(last)) == {left} and positions
        last.close()
    finally:
        first.close()
        logs.close()
