"""Fencing of transactional ids on a cluster, without copying."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException, Producer

from backend.kafka.base import identity
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, sentence

AT_ONCE = 8
"""Number of ids that are worth fencing concurrently."""

_SECONDS = 10.0


def check_identity(bootstrap_servers: str, properties: Mapping[str, str], kafka_cluster_id: str | None) -> None:
    """Raise KafkaCallFailed unless the Kafka cluster of this id answers; None accepts any."""
    try:
        other = identity.stranger(bootstrap_servers, properties, kafka_cluster_id, _SECONDS)
    except (KafkaException, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error
    if other is not None:
        raise KafkaCallFailed(f"another Kafka cluster answers: {other}")


def fence(bootstrap_servers: str, properties: Mapping[str, str], transactional_id: str) -> None:
    """Abort the open transaction of an id and fence all its earlier producers.

    Returns once the coordinator has ended the transaction, so that stable reads see what it had committed.
    Raises KafkaCallFailed.
    """
    try:
        producer = Producer(
            client_config(
                bootstrap_servers,
                properties,
                transactional_id=transactional_id,
                transaction_timeout_ms=int(_SECONDS * 1000),
            )
        )
        producer.init_transactions(_SECONDS)
    except (KafkaException, ValueError) as error:
        raise KafkaCallFailed(f"fencing {transactional_id}: {sentence(error)}") from error
