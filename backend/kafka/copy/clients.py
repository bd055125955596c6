"""Kafka clients of a copy session: their configuration, with reasons."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from backend.domain.distribution.edges import EdgePlan, Endpoint, StreamOnEdge
from backend.kafka.base import identity
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import CopyFailed, copy_failed
from backend.kafka.base.liveness import Alive
from backend.kafka.copy import dead_letter_topic
from backend.kafka.copy.source import Place, Source
from backend.kafka.groups.group_reader import GroupReader

_PRODUCER_QUEUE_KBYTES = 65536
_LARGEST_REQUEST_BYTES = 950_000
"""Below librdkafka's `batch.size`, so that it sends a batch in one request."""
_REQUEST_SHARE = 0.95
"""Fraction of a topic's limit: the sizes of batched records are upper bounds, and the batch's own header is not
counted."""
_REQUEST_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class CopyLimits:
    """Limits of one session; see backend/settings.py."""

    batch_records: int
    transaction_timeout_ms: int
    fetch_wait_max_ms: int
    fetch_buffer_kbytes: int
    quarantine_topic: str = "_treeline.quarantine"
    record_loop: str = "auto"
    """One of auto, native, python."""


def open_producer(plan: EdgePlan, limits: CopyLimits) -> Producer:
    """Open the task's transactional producer on the target. Raises KafkaException, ValueError."""
    return Producer(
        client_config(
            plan.target.bootstrap_servers,
            plan.target.properties,
            transactional_id=plan.task.kafka_name,
            transaction_timeout_ms=limits.transaction_timeout_ms,
            # A backlog fills a request sooner; short, since records are in flight while positions are sent.
            linger_ms=5,
            compression_type=plan.compression,
            message_max_bytes=dead_letter_topic.LARGEST_RECORD_BYTES,
            queue_buffering_max_messages=limits.batch_records * 2,
            queue_buffering_max_kbytes=_PRODUCER_QUEUE_KBYTES,
            batch_num_messages=100_000,
        )
    )


def open_group_member(plan: EdgePlan) -> GroupReader:
    """Open a consumer of the target that never subscribes: it reads and writes positions in its group."""
    return GroupReader(
        client_config(
            plan.target.bootstrap_servers,
            plan.target.properties,
            group_id=plan.task.kafka_name,
            enable_auto_commit=False,
        )
    )


def open_admin(endpoint: Endpoint) -> AdminClient:
    """Open an admin client of one endpoint."""
    return AdminClient(client_config(endpoint.bootstrap_servers, endpoint.properties))


def open_source(
    plan: EdgePlan,
    limits: CopyLimits,
    lost: Callable[[Place, int, int, str], None],
    truncated: Callable[[Place, int, int], None],
) -> Source:
    """Open the reader of the source; `lost` and `truncated` are the callbacks of `Source`."""
    return Source(
        plan.source.name,
        client_config(
            plan.source.bootstrap_servers,
            plan.source.properties,
            group_id=plan.task.kafka_name,
            fetch_wait_max_ms=limits.fetch_wait_max_ms,
            queued_max_messages_kbytes=limits.fetch_buffer_kbytes,
            fetch_message_max_bytes=limits.fetch_buffer_kbytes * 1024 // 4,
            # Pause after a full buffer; librdkafka's 1 s would idle a buffer that was drained sooner.
            fetch_queue_backoff_ms=20,
            check_crcs=True,
        ),
        lost,
        truncated,
    )


def check_identity(where: str, endpoint: Endpoint) -> None:
    """Check that the endpoint is the expected Kafka cluster: another one must neither be read nor written to.

    Raises CopyFailed.
    """
    try:
        other = identity.stranger(
            endpoint.bootstrap_servers, endpoint.properties, endpoint.kafka_cluster_id, _REQUEST_SECONDS
        )
    except (KafkaException, ValueError) as error:
        raise copy_failed(f"{where}: reading the cluster id of {endpoint.name}", error) from error
    if other is not None:
        raise CopyFailed(f"{where}: another Kafka cluster answers as {endpoint.name}: {other}")


def learn_partitions(where: str, producer: Producer, streams: Iterable[StreamOnEdge], alive: Alive) -> None:
    """Have the producer request the partitions of topics that it knew before they were expanded.

    librdkafka would refuse records for partitions that it does not know yet, for up to five minutes. Raises
    CopyFailed if the target does not have them yet, KafkaException.
    """
    for row in streams:
        alive()
        known = producer.list_topics(row.target_topic, _REQUEST_SECONDS).topics[row.target_topic].partitions
        missing = [partition for partition in row.partitions if partition not in known]
        if missing:
            raise CopyFailed(f"{where}: {row.target_topic} has no partition {missing[0]} yet")


def largest_requests(admin: AdminClient, topics: Collection[str]) -> dict[str, int]:
    """Return the bytes that each topic accepts at once: `max.message.bytes` limits the batch, not a record.

    Kafka's default is used where the topic's settings may not be read.
    """
    wanted = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in sorted(topics)]
    found = dict.fromkeys(topics, _LARGEST_REQUEST_BYTES)
    for resource, answer in admin.describe_configs(wanted, request_timeout=_REQUEST_SECONDS).items():
        with contextlib.suppress(KafkaException):
            taken = int(answer.result(_REQUEST_SECONDS + 1)["max.message.bytes"].value)
            found[resource.name] = min(_LARGEST_REQUEST_BYTES, int(taken * _REQUEST_SHARE))
    return found
