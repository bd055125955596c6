"""Offset commits that a coordinator does not take at once: of so many partitions, or with so long vectors.

A few hundred partitions are enough where each position's metadata is nearly as long as Kafka takes it.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from backend.domain.records.marks import METADATA_LIMIT, Mark, encode_metadata
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.groups.group_offsets import GroupOffsets, Setting
from backend.kafka.groups.group_reader import MOVING
from bench.brokers import single_broker_clusters
from tests.eventually import eventually
from tests.kafka.distribution.test_copy_session import Pair, copy
from tests.support.kafka.topics import DEADLINE_SECONDS
from workers.distribution.distributor import DistributorThread

PARTITIONS = 300
PIECE = 100
"""Partitions that this test itself commits at once, which any coordinator takes."""
ORIGINS = 145
MANY = 8000
SIX = {number: (1, 10**10 + number) for number in range(3, 9)}


@pytest.fixture(scope="module")
def pair(estate):
    return Pair(estate, partitions=PARTITIONS)


class LargeBrokers:
    """Two clusters with heaps for so many partitions, which those of the shared estate do not have."""

    def __init__(self, servers):
        self._servers = servers

    def bootstrap_servers(self, cluster):
        return self._servers[cluster]


@pytest.fixture(scope="module")
def large_brokers(tmp_path_factory):
    with single_broker_clusters(tmp_path_factory.mktemp("large"), ["cluster-1", "cluster-2"]) as servers:
        yield LargeBrokers(servers)


def member_of(pair):
    """A consumer of the target in the task's group."""
    group = pair.plan().task.kafka_name
    return Consumer({"bootstrap.servers": pair.servers[pair.b], "group.id": group, "enable.auto.commit": False})


def stand(pair, vector):
    """Have the task's positions on the target say that it holds records of all these origins."""
    metadata = encode_metadata(Mark(1, 1, vector, vector))
    member = member_of(pair)
    for first in range(0, pair.partitions, PIECE):
        rows = [
            TopicPartition(pair.copy_topic, partition, 0, metadata)
            for partition in range(first, min(first + PIECE, pair.partitions))
        ]
        eventually(lambda m=member, r=rows: taken(m, r), "the target has taken positions")
    member.close()
    return metadata


def taken(member, rows):
    """Tell whether the positions were committed.

    A cluster that has just started has no coordinator yet; nothing is committed then.
    """
    try:
        return all(row.error is None for row in member.commit(offsets=rows, asynchronous=False))
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError._WAIT_COORD, KafkaError._TIMED_OUT, *MOVING):
            raise
        return False


def committed(pair):
    """The offset and the metadata's length of each partition of the task."""
    member = member_of(pair)
    rows = member.committed(
        [TopicPartition(pair.copy_topic, partition) for partition in range(pair.partitions)], DEADLINE_SECONDS
    )
    member.close()
    return {row.partition: (row.offset, len(row.metadata or "")) for row in rows}


def filled(pair, vector, every=1):
    """Positions of such vectors, and a record on each `every`-th partition; the length of the metadata."""
    metadata = stand(pair, vector)
    pair.produce([{"value": b"%d" % place, "partition": place} for place in range(0, pair.partitions, every)])
    return len(metadata)


def check_copied(pair, length, every=1):
    """The records, and the position of every partition, are on the target."""
    found = committed(pair)
    assert {place: offset for place, (offset, _) in found.items()} == {
        place: int(place % every == 0) for place in range(pair.partitions)
    }
    assert min(each for _, each in found.values()) >= length
    assert sorted(int(message.value()) for message in pair.copied()) == list(range(0, pair.partitions, every))


def test_positions_that_do_not_fit_into_one_commit_are_committed(pair):
    vector = {number: (1, 10**15 + number) for number in range(3, 3 + ORIGINS)}
    length = filled(pair, vector)
    session = pair.session()
    copy(session, pair.partitions)
    session.close()
    check_copied(pair, length)


def test_offsets_of_a_group_that_do_not_fit_into_one_commit_are_set(pair):
    offsets = GroupOffsets({"bootstrap.servers": pair.servers[pair.b]})
    group, metadata = f"many.{pair.mark}", "m" * (METADATA_LIMIT - 100)
    wanted = {
        (pair.copy_topic, partition): Setting(offset=partition, metadata=metadata)
        for partition in range(PARTITIONS)
    }
    answers = offsets.set({group: wanted})
    assert answers == dict.fromkeys([(group, place) for place in wanted])
    standing = offsets.committed({group: wanted})
    assert {place[1]: each.offset for (_, place), each in standing.items()} == {n: n for n in range(PARTITIONS)}
    assert {each.metadata for each in standing.values()} == {metadata}


@pytest.mark.nightly
def test_an_edge_of_8000_partitions_with_six_origins_moves(large_brokers):
    """The first transaction commits all positions, whichever partitions have records."""
    pair = Pair(large_brokers, partitions=MANY)
    length = filled(pair, SIX, every=MANY // 100)
    plan = pair.plan()
    thread = DistributorThread(plan.task, 1, pair.limits, lambda plan: None, ControlPlane(), plan, 7)
    thread.start()
    try:
        eventually(lambda: thread.state("test").state == "running", "a session is open")
        eventually(lambda: thread.state("test").copied_records >= 100, "all is copied")
    finally:
        thread.stop()
        thread.join()
    check_copied(pair, length, every=MANY // 100)
