"""Reading groups' committed offsets; another process queries a cluster whose answers could crash it."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from backend.kafka.groups import group_reader
from backend.settings import PROJECT_ROOT
from tests.estate_fixture import RunningEstate
from tests.integration.speaker import speaking
from tests.kafka import create_topic

PROGRAM = """
import sys
from backend.kafka.groups import group_reader
consumer = group_reader.open_consumer({"bootstrap.servers": sys.argv[1]})
for _ in range(3):
    print(group_reader.ask(consumer, {"theirs": None}, 5.0)["theirs"].name(), flush=True)
consumer.close()
"""


def test_a_coordinator_that_has_moved_is_an_answer_and_no_end_of_the_process() -> None:
    with speaking() as (_, address):
        words = [sys.executable, "-c", PROGRAM, address]
        asked = subprocess.run(words, cwd=PROJECT_ROOT, text=True, capture_output=True, timeout=120, check=False)
    assert (asked.returncode, asked.stdout.split()) == (0, ["NOT_COORDINATOR"] * 3), asked.stderr


@pytest.fixture
def reader(estate: RunningEstate) -> Iterator[Consumer]:
    found = group_reader.open_consumer({"bootstrap.servers": estate.bootstrap_servers("cluster-1")})
    yield found
    found.close()


def test_offsets_and_metadata_of_any_group_are_told(estate: RunningEstate, reader: Consumer) -> None:
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
    every = group_reader.ask(reader, {**dict.fromkeys(groups), f"nobody.{mark}": None}, 60.0)
    assert every.pop(f"nobody.{mark}") == []
    for number, group in enumerate(groups):
        rows = every[group]
        assert not isinstance(rows, KafkaError)
        assert {row.place: (row.offset, row.metadata or "", row.code) for row in rows} == {
            (topic, 0): (number, f"é {number}", 0),
            (topic, 2): (7, "", 0),
        }
    some = group_reader.ask(reader, {groups[3]: [(topic, 0), (topic, 1)]}, 60.0)[groups[3]]
    assert not isinstance(some, KafkaError)
    assert {row.place: row.offset for row in some} == {(topic, 0): 3, (topic, 1): group_reader.NOTHING}


def test_no_consumer_and_one_that_is_closed_are_refused() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:9"})
    closed = group_reader.open_consumer({"bootstrap.servers": "127.0.0.1:9"})
    closed.close()
    for client in (producer, closed):
        with pytest.raises(KafkaException, match="requested through a consumer"):
            group_reader.ask(client, {"g": None}, 0.2)


def test_a_cluster_that_is_away_is_a_reason() -> None:
    away = group_reader.open_consumer({"bootstrap.servers": "127.0.0.1:9"})
    found = group_reader.ask(away, {"a": None, "b": [("t", 0)]}, 0.2)
    away.close()
    assert all(isinstance(each, KafkaError) for each in found.values())
