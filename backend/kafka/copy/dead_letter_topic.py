"""The dead-letter topic: records wait there that a target refuses. It accepts what other topics do not.

A record is stored there as it would have been copied, with one more header that holds its id.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from backend.kafka.base.errors import kafka_error
from backend.kafka.base.probe import ConnectionReasons, describe

LARGEST_RECORD_BYTES = 64 * 1024 * 1024
ID_HEADER = "treeline-set-aside"
_ANY_TIME_MS = str(2**63 - 1)
_SECONDS = 10.0
_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(LARGEST_RECORD_BYTES),
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": _ANY_TIME_MS,
    "message.timestamp.before.max.ms": _ANY_TIME_MS,
}


def ensure_topic(admin: AdminClient, topic: str) -> None:
    """Create the topic if it does not exist. Raises KafkaException, TimeoutError."""
    # Without metadata of the topic: brokers may be set to create topics on such requests, with other settings.
    brokers = len(describe(admin, ConnectionReasons(), _SECONDS).brokers)
    new = NewTopic(topic, num_partitions=1, replication_factor=min(3, brokers), config=_CONFIG)
    try:
        admin.create_topics([new], operation_timeout=_SECONDS, request_timeout=_SECONDS)[topic].result(_SECONDS)
    except KafkaException as error:
        inner = kafka_error(error)
        if inner is None or inner.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
