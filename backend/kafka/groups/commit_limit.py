"""Largest offset commit that a cluster accepts."""

from __future__ import annotations

import contextlib

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from backend.domain.offsets import commit_batches

_OFFSETS_TOPIC = "__consumer_offsets"
_REQUEST_SECONDS = 10.0


def largest_commit(admin: AdminClient) -> int:
    """Return how many bytes of records one offset commit may have on a cluster, see `commit_pieces`.

    Kafka's default applies if the settings of the coordinators' topic cannot be read, or it does not exist yet.
    """
    topic = ConfigResource(ConfigResource.Type.TOPIC, _OFFSETS_TOPIC)
    (answer,) = admin.describe_configs([topic], request_timeout=_REQUEST_SECONDS).values()
    with contextlib.suppress(KafkaException, KeyError, TimeoutError):
        found = answer.result(_REQUEST_SECONDS + 1)
        # A segment must hold the whole batch as well.
        return commit_batches.piece_bytes(
            min(int(found["max.message.bytes"].value), int(found["segment.bytes"].value))
        )
    return commit_batches.piece_bytes()
