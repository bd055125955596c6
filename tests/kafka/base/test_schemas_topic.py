"""Appending to a schemas topic: what a cluster refused first is the reason that is told."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.schemas import schemas_topic
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic

LOCAL_LIMIT = 10_000


def test_a_record_that_was_refused_before_the_producer_took_no_more_is_the_reason(estate) -> None:
    servers, topic = estate.bootstrap_servers("cluster-1"), f"schemas.{uuid.uuid4().hex[:8]}"
    create_topic(servers, topic, cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": LOCAL_LIMIT})

    def made() -> Iterator[tuple[bytes | None, bytes]]:
        yield None, b"v"  # the cluster refuses it: in a compacted topic every record has a key
        producer.flush(DEADLINE_SECONDS)
        yield b"k", b"v" * 2 * LOCAL_LIMIT  # the producer refuses it

    with pytest.raises(KafkaCallFailed) as refused:
        schemas_topic._append(producer, topic, made(), [])
    assert refused.value.code == KafkaError.INVALID_RECORD
    assert refused.value.reason.startswith("Broker: ")
