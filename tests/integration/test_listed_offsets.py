"""Offsets asked of a real broker. (That topics which some brokers knew later are asked for nevertheless is seen by
`Brokers.create`, a hundred times in each run of the tests.)
"""

from __future__ import annotations

import uuid

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from backend.kafka.listed_offsets import listed_offsets
from tests.estate_fixture import RunningEstate
from tests.kafka import create_topic


def test_why_a_partition_has_no_offset_is_told_beside_those_that_have_one(estate: RunningEstate) -> None:
    servers, topic = estate.bootstrap_servers("cluster-1"), f"t{uuid.uuid4().hex}"
    create_topic(servers, topic)
    asked = {TopicPartition(topic, number): OffsetSpec.earliest() for number in (0, 7)}
    later = {TopicPartition(topic, 0): OffsetSpec.for_timestamp(1)}
    first, second, third = listed_offsets(AdminClient({"bootstrap.servers": servers}), [asked, {}, later], 10.0)
    assert first[TopicPartition(topic, 0)] == 0 and second == {} and third == {TopicPartition(topic, 0): -1}
    assert isinstance(first[TopicPartition(topic, 7)], KafkaException)
