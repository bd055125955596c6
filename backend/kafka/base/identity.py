"""Identity of the Kafka cluster at a known address: another one there must neither be read nor written to."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from backend.kafka.base.client_config import client_config
from backend.kafka.base.probe import ask_of_no_topic


def stranger(
    bootstrap_servers: str, properties: Mapping[str, str], kafka_cluster_id: str | None, timeout_seconds: float
) -> str | None:
    """Return which other Kafka cluster answers, in words; None if it is the one of this id (None: any).

    Uses a client of its own and closes it: see `ask_of_no_topic`. Raises KafkaException, ValueError.
    """
    with AdminClient(client_config(bootstrap_servers, properties)) as admin:
        found = ask_of_no_topic(admin, timeout_seconds).cluster_id
    return None if kafka_cluster_id in (None, found) else f"{found} instead of {kafka_cluster_id}"
