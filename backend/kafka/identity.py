"""Who answers at a known address: another Kafka cluster there must neither be read nor written to."""

from __future__ import annotations

from typing import Protocol

from confluent_kafka.admin import ClusterMetadata

_NO_TOPIC = "_treeline.nobody"  # asked for so that the answer is small


class Client(Protocol):
    """Any client of one cluster."""

    def list_topics(self, topic: str, timeout: float, /) -> ClusterMetadata:
        """The cluster's metadata."""


def stranger(client: Client, kafka_cluster_id: str | None, timeout_seconds: float) -> str | None:
    """In words, which other Kafka cluster answers; None if it is the one of this id (None: any).

    Raises KafkaException.
    """
    found = client.list_topics(_NO_TOPIC, timeout_seconds).cluster_id
    return None if kafka_cluster_id in (None, found) else f"{found} instead of {kafka_cluster_id}"
