"""Sampling of the newest records of topics for our headers."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, sentence
from backend.kafka.base.message_headers import headers_of

_OFFSET_TAIL = -2000
"""librdkafka's tail offset: minus n is the n-th record before the end."""
_RECORDS = 3
_PARTITIONS = 4
_WAIT_SECONDS = 0.2


def topics_with(
    headers: Collection[str],
    bootstrap_servers: str,
    properties: Mapping[str, str],
    topics: Mapping[str, int],
    seconds: float,
) -> frozenset[str]:
    """Return those of `topics` (name -> number of partitions) with a sampled record that has one of the headers.

    Samples the newest records of some partitions, for at most `seconds`: a hint, no proof. Raises
    KafkaCallFailed.
    """
    places = [(name, p) for name, partitions in topics.items() for p in range(min(partitions, _PARTITIONS))]
    if not places:
        return frozenset()
    try:
        consumer = Consumer(
            client_config(
                bootstrap_servers,
                properties,
                group_id="_treeline.look",
                enable_auto_commit=False,
                enable_partition_eof=True,
                auto_offset_reset="earliest",
                fetch_message_max_bytes=16 * 1024,
            )
        )
    except (KafkaException, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error
    try:
        return _look(consumer, places, set(headers), time.monotonic() + seconds)
    except KafkaException as error:
        raise KafkaCallFailed(sentence(error)) from error
    finally:
        consumer.close()


def _look(consumer: Consumer, places: list[tuple[str, int]], headers: set[str], deadline: float) -> frozenset[str]:
    consumer.assign([TopicPartition(*place, _OFFSET_TAIL - _RECORDS) for place in places])
    found: set[str] = set()
    left = set(places)
    while left and time.monotonic() < deadline:
        messages = consumer.consume(1, _WAIT_SECONDS)
        for message in messages + (consumer.consume(1000, 0) if messages else []):
            topic, partition, error = message.topic(), message.partition(), message.error()
            if topic is None or partition is None:
                continue
            if error is None:
                carried = dict(headers_of(message))
                if not headers.isdisjoint(carried):
                    found.add(topic)
            elif error.code() == KafkaError._PARTITION_EOF or not error.retriable():
                left.discard((topic, partition))
    return frozenset(found)
