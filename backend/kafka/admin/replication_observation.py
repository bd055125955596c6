"""Polling of a cluster's replication: brokers, leaders and ISR in three requests, two of them small.

The settings that replication is judged by change rarely and are read separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DescribeTopicPartitionsRequest

from backend.domain.replication.replication_health import (
    ObservedCluster,
    ObservedPartition,
    PartitionDescribed,
    TopicSettings,
)
from backend.kafka.admin.cluster_replicas import brokers_of
from backend.kafka.admin.configs import broker_configs, topic_configs
from backend.kafka.admin.reassignments import Moving
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.requests import UNSUPPORTED, Place, Send, SendEach, in_portions

_MIN_INSYNC = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
_LAG_TIME = "replica.lag.time.max.ms"
_SESSION = "broker.session.timeout.ms"
_TOPICS_AT_ONCE = 500
_PARTITIONS_AT_ONCE = 2_000
"""Partitions of an answer; brokers have their own limit (`max.request.partition.size.limit`)."""


def read(metadata: Any, send: Send, moving: Mapping[Place, Moving]) -> ObservedCluster:
    """Build the observation from the answer to `cluster_replicas.everything`.

    `moving`: reassignments that were requested before the answer: one that has ended since is harmless, and an
    unreported one would look like missing replicas.

    Raises KafkaCallFailed.
    """
    partitions = {}
    for topic in metadata.topics:
        for each in topic.partitions:
            place = topic.name, each.partition_index
            _, adding, removing = moving.get(place, ((), (), ()))
            if each.replica_nodes:
                partitions[place] = ObservedPartition(
                    tuple(each.replica_nodes), tuple(each.isr_nodes), each.leader_id, adding, removing
                )
    return ObservedCluster(
        cluster_id=str(metadata.cluster_id),
        brokers=brokers_of(send, metadata),
        partitions=partitions,
    )


def topic_settings(send: Send, topics: Sequence[str]) -> dict[str, TopicSettings]:
    """Return the settings that replication is judged by, except of unreadable topics. Raises KafkaCallFailed."""
    found = {}
    for topic, entries in topic_configs(send, topics, [_MIN_INSYNC, _UNCLEAN]).items():
        values = {entry.name: entry.value for entry in entries}
        if values.get(_MIN_INSYNC):
            found[topic] = TopicSettings(int(values[_MIN_INSYNC]), values.get(_UNCLEAN) == "true")
    return found


def describe(
    send: Send, topics: Sequence[str], most_at_once: int = _PARTITIONS_AT_ONCE
) -> dict[Place, PartitionDescribed] | None:
    """Return leader, ISR and eligible leader replicas (KIP-966) of all partitions, each of a single moment.

    None if the cluster does not support the request (before Kafka 3.7).

    Raises KafkaCallFailed.
    """
    found: dict[Place, PartitionDescribed] = {}
    try:
        for some in in_portions(topics, _TOPICS_AT_ONCE):
            cursor = None
            while True:  # brokers answer with a limited number of partitions, and a cursor
                asked = DescribeTopicPartitionsRequest(
                    topics=[(name,) for name in some], response_partition_limit=most_at_once, cursor=cursor
                )
                answer = send(asked)
                for topic in answer.topics:
                    for each in topic.partitions:
                        found[topic.name, each.partition_index] = PartitionDescribed(
                            each.leader_id, tuple(each.isr_nodes), tuple(each.eligible_leader_replicas or ())
                        )
                if answer.next_cursor is None:
                    break
                cursor = DescribeTopicPartitionsRequest.Cursor(
                    topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
                )
    except KafkaCallFailed as error:
        if error.code != UNSUPPORTED:
            raise
        return None
    return found


def lag_times_ms(send_each: SendEach, brokers: Iterable[int]) -> dict[int, int]:
    """Return `replica.lag.time.max.ms` of brokers, except those that do not report it.

    Raises KafkaCallFailed if none answers.
    """
    return _numbers(send_each, brokers, _LAG_TIME)


def session_times_ms(send_each: SendEach, brokers: Iterable[int]) -> dict[int, int]:
    """Return `broker.session.timeout.ms` of brokers: the controller fences one without a heartbeat for so long.

    The controller's own value counts; a controller that is no broker as well may have another one in its file.

    Brokers that do not report it are left out. Raises KafkaCallFailed if none answers.
    """
    return _numbers(send_each, brokers, _SESSION)


def _numbers(send_each: SendEach, brokers: Iterable[int], key: str) -> dict[int, int]:
    found = {}
    for broker, entries in broker_configs(send_each, brokers, [key]).items():
        for entry in () if isinstance(entries, KafkaCallFailed) else entries:
            if entry.value:
                found[broker] = int(entry.value)
    return found
