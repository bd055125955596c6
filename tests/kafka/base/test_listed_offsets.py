"""Offsets requested from a real broker.

(Requests for topics that some brokers learn of later are covered by `Brokers.create`, a hundred times in each test
run.)
"""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from backend.kafka.logs.listed_offsets import listed_offsets
from backend.kafka.logs.log_ends import ends_by
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import create_topic


class OneAtATime(AdminClient):
    """Client that refuses a second request before the answer, which librdkafka may not survive."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.going: list[Future[ListOffsetsResultInfo]] = []

    def list_offsets(self, *asked: Any, **how: Any) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        assert all(each.done() for each in self.going), "it is asked twice at once"
        answers = super().list_offsets(*asked, **how)
        self.going += answers.values()
        return answers


def test_a_client_is_asked_one_thing_at_a_time(estate: RunningEstate) -> None:
    servers, topic = estate.bootstrap_servers("cluster-1"), f"t{uuid.uuid4().hex}"
    create_topic(servers, topic)
    admin = OneAtATime({"bootstrap.servers": servers})
    for undecided_too in (False, True):
        found = ends_by(admin, [(topic, 0), (f"none-{topic}", 0)], 10.0, undecided_too=undecided_too)
        assert found == {(topic, 0): (0, 0)}
    assert len(admin.going) >= 8, "first and last offsets, of both, twice"


def test_why_a_partition_has_no_offset_is_told_beside_those_that_have_one(estate: RunningEstate) -> None:
    servers, topic = estate.bootstrap_servers("cluster-1"), f"t{uuid.uuid4().hex}"
    create_topic(servers, topic)
    asked = {TopicPartition(topic, number): OffsetSpec.earliest() for number in (0, 7)}
    later = {TopicPartition(topic, 0): OffsetSpec.for_timestamp(1)}
    first, second, third = listed_offsets(AdminClient({"bootstrap.servers": servers}), [asked, {}, later], 10.0)
    assert first[TopicPartition(topic, 0)] == 0 and second == {} and third == {TopicPartition(topic, 0): -1}
    assert isinstance(first[TopicPartition(topic, 7)], KafkaException)
