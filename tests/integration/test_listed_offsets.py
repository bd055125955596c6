"""Offsets asked of a real broker. (That topics which some brokers knew later are asked for nevertheless is seen by
`Brokers.create`, a hundred times in each run of the tests.)
"""

from __future__ import annotations

import subprocess
import sys
import uuid

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from backend.kafka.listed_offsets import listed_offsets
from backend.settings import PROJECT_ROOT
from tests.estate_fixture import RunningEstate
from tests.kafka import create_topic

MANY = """
import sys, threading
from confluent_kafka.admin import AdminClient
from backend.kafka.log_ends import ends_by

servers, topic = sys.argv[1:]

def ask():
    admin = AdminClient({"bootstrap.servers": servers})
    for number in range(150):
        found = ends_by(admin, [(topic, 0), (f"none-{number}", 0)], 10.0)
        assert found == {(topic, 0): (0, 0)}, found
        if number % 10 == 0:
            admin = AdminClient({"bootstrap.servers": servers})

threads = [threading.Thread(target=ask) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_a_process_that_asks_for_what_nobody_has_again_and_again_lives(estate: RunningEstate) -> None:
    servers, topic = estate.bootstrap_servers("cluster-1"), f"t{uuid.uuid4().hex}"
    create_topic(servers, topic)
    command = [sys.executable, "-X", "faulthandler", "-c", MANY, servers, topic]
    ended = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, "Error" in ended.stderr) == (0, False), ended.stderr[-3000:]


def test_why_a_partition_has_no_offset_is_told_beside_those_that_have_one(estate: RunningEstate) -> None:
    servers, topic = estate.bootstrap_servers("cluster-1"), f"t{uuid.uuid4().hex}"
    create_topic(servers, topic)
    asked = {TopicPartition(topic, number): OffsetSpec.earliest() for number in (0, 7)}
    later = {TopicPartition(topic, 0): OffsetSpec.for_timestamp(1)}
    first, second, third = listed_offsets(AdminClient({"bootstrap.servers": servers}), [asked, {}, later], 10.0)
    assert first[TopicPartition(topic, 0)] == 0 and second == {} and third == {TopicPartition(topic, 0): -1}
    assert isinstance(first[TopicPartition(topic, 7)], KafkaException)
