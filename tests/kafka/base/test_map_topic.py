"""Publishing the offset map: the cluster's first refusal is the reason that is reported."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from backend.domain.offsets.offset_map import GroupPartition
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.map_topic import MapPublisher
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic

LOCAL_LIMIT = 10_000


def test_a_record_that_was_refused_before_the_producer_took_no_more_is_the_reason(estate) -> None:
    servers, topic = estate.bootstrap_servers("cluster-1"), f"map.{uuid.uuid4().hex[:8]}"
    # Every record is older when it arrives, for the producer waits 5 ms for more.
    create_topic(servers, topic, message_timestamp_before_max_ms="1")
    publisher = MapPublisher({"bootstrap.servers": servers, "message.max.bytes": LOCAL_LIMIT}, "cluster-1", topic)

    def made() -> Iterator[tuple[GroupPartition, None]]:
        yield group_partition("a group"), None  # the cluster refuses it
        publisher._producer.flush(DEADLINE_SECONDS)
        yield group_partition("g" * 2 * LOCAL_LIMIT), None  # the producer refuses it

    with pytest.raises(KafkaCallFailed, match=f"^cluster-1: {topic}: Broker: Invalid timestamp"):
        publisher.publish(made())
    publisher.close()


def group_partition(group: str) -> GroupPartition:
    return GroupPartition(
        tenant="acme", instance="retail", environment="prod", stream="orders", partition=0, group=group
    )
