"""Reading groups' committed offsets; another process queries a cluster whose answers could crash it."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from importlib import metadata

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from structlog.testing import capture_logs

from backend.kafka.groups import group_reader
from backend.kafka.groups.committed import NOTHING
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.support.estate.running import RunningEstate
from tests.support.kafka.speaker import speaking
from tests.support.kafka.topics import create_topic

PROGRAM = """
import sys
from backend.kafka.groups import group_reader
consumer = group_reader.open_consumer({"bootstrap.servers": sys.argv[1]})
for _ in range(3):
    print(group_reader.request_offsets(consumer, {"theirs": None}, 5.0)["theirs"].name(), flush=True)
consumer.close()
"""


def test_a_coordinator_that_has_moved_is_an_answer_and_no_end_of_the_process() -> None:
    with speaking() as (_, address):
        words = [sys.executable, "-c", PROGRAM, address]
        asked = subprocess.run(words, cwd=PROJECT_ROOT, text=True, capture_output=True, timeout=120, check=False)
    assert (asked.returncode, asked.stdout.split()) == (0, ["NOT_COORDINATOR"] * 3), asked.stderr


@pytest.fixture(params=["tested", "untested"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Confluent-kafka is of a version that the reader was tested with, or of another one."""
    if request.param == "untested":
        monkeypatch.setattr(group_reader, "TESTED_VERSIONS", frozenset({"2.3.0"}))
    group_reader._is_tested.cache_clear()
    yield
    group_reader._is_tested.cache_clear()


@pytest.fixture
def reader(estate: RunningEstate) -> Iterator[group_reader.GroupReader]:
    found = group_reader.open_consumer({"bootstrap.servers": estate.bootstrap_servers("cluster-1")})
    yield found
    found.close()


@pytest.mark.usefixtures("version")
def test_offsets_and_metadata_of_any_group_are_told(
    estate: RunningEstate, reader: group_reader.GroupReader
) -> None:
    servers = estate.bootstrap_servers("cluster-1")
    mark = uuid.uuid4().hex[:8]
    topic, groups = f"read.{mark}", [f"g{number}.{mark}" for number in range(40)]
    create_topic(servers, topic, 3)
    for number, group in enumerate(groups):
        member = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
        member.commit(
            offsets=[TopicPartition(topic, 0, number, f"é {number}"), TopicPartition(topic, 2, 7)],
            asynchronous=False,
        )
        member.close()
    every = group_reader.request_offsets(reader, {**dict.fromkeys(groups), f"nobody.{mark}": None}, 60.0)
    assert every.pop(f"nobody.{mark}") == []
    for number, group in enumerate(groups):
        rows = every[group]
        assert not isinstance(rows, KafkaError)
        assert {row.place: (row.offset, row.metadata or "", row.code) for row in rows} == {
            (topic, 0): (number, f"é {number}", 0),
            (topic, 2): (7, "", 0),
        }
    some = group_reader.request_offsets(reader, {groups[3]: [(topic, 0), (topic, 1)]}, 60.0)[groups[3]]
    assert not isinstance(some, KafkaError)
    assert {row.place: row.offset for row in some} == {(topic, 0): 3, (topic, 1): NOTHING}


def test_no_consumer_and_one_that_is_closed_are_refused() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:9"})
    closed = group_reader.open_consumer({"bootstrap.servers": "127.0.0.1:9"})
    closed.close()
    for client in (producer, closed):
        with pytest.raises(KafkaException, match="requested through a consumer"):
            group_reader.request_offsets(client, {"g": None}, 0.2)


@pytest.mark.usefixtures("version")
def test_offsets_that_a_transaction_is_about_to_commit_are_no_stable_ones(
    estate: RunningEstate, reader: group_reader.GroupReader
) -> None:
    servers = estate.bootstrap_servers("cluster-1")
    mark = uuid.uuid4().hex[:8]
    topic, group = f"pending.{mark}", f"g.{mark}"
    create_topic(servers, topic, 1)
    member = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    member.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": mark})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 9)], member.consumer_group_metadata(), 30)
    before = group_reader.request_offsets(reader, {group: [(topic, 0)]}, 30.0)[group]
    pending = group_reader.request_offsets(reader, {group: [(topic, 0)]}, 2.0, require_stable=True)[group]
    producer.commit_transaction(30)

    def committed() -> bool:
        # The coordinator answers the producer before it has written the end of the transaction to the group's log.
        rows = group_reader.request_offsets(reader, {group: [(topic, 0)]}, 30.0, require_stable=True)[group]
        return not isinstance(rows, KafkaError) and [(row.offset, row.code) for row in rows] == [(9, 0)]

    eventually(committed, "the offset is committed")
    member.close()
    assert not isinstance(before, KafkaError) and [row.offset for row in before] == [3]
    assert isinstance(pending, KafkaError) or [row.code for row in pending] == [KafkaError.UNSTABLE_OFFSET_COMMIT]


def test_a_version_that_was_not_tested_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reader, "TESTED_VERSIONS", frozenset({"2.3.0"}))
    group_reader._is_tested.cache_clear()
    with capture_logs() as logged:
        assert [group_reader._is_tested() for _ in range(3)] == [False] * 3
    group_reader._is_tested.cache_clear()
    [told] = logged
    assert told["log_level"] == "warning"
    assert told["reason"] == f"confluent-kafka {metadata.version('confluent-kafka')} was not tested; tested: 2.3.0"


@pytest.mark.usefixtures("version")
def test_a_cluster_that_is_away_is_a_reason() -> None:
    away = group_reader.open_consumer({"bootstrap.servers": "127.0.0.1:9"})
    found = group_reader.request_offsets(away, {"a": None, "b": [("t", 0)]}, 0.2)
    away.close()
    assert all(isinstance(each, KafkaError) for each in found.values())
