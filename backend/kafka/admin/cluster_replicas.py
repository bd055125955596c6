"""Placement of all replicas of one cluster: brokers, racks, partitions with leaders and sizes, in few requests.

A cluster of 300,000 partitions takes one request for its topics (an answer of 13 MB), one to each broker for
sizes, and one for each few hundred topics for their configuration. The answers are of different moments: a topic
may be deleted, and a broker go down, between two of them. Unknown values are left out.
"""

from __future__ import annotations

import base64
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeClusterRequest, DescribeLogDirsRequest
from kafka.protocol.metadata import MetadataRequest

from backend.domain.replication.replica_sizes import ReplicaSizes
from backend.domain.replication.replication_health import ObservedBroker, ObservedCluster
from backend.kafka.admin.configs import topic_configs
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.requests import UNSUPPORTED, Place, Send, SendEach, explained

_MIN_INSYNC = "min.insync.replicas"
_AWAY = "it is not there"


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """A partition as its cluster reports it; during a reassignment with both the old and the new brokers."""

    replicas: tuple[int, ...]
    """Broker ids, the preferred leader first."""
    isr: tuple[int, ...]
    leader: int
    """Leader's broker id; -1 if there is none."""
    size_bytes: int
    """Size of its largest replica; 0 if no broker that has one answered."""


@dataclass(frozen=True, kw_only=True)
class ClusterReplicas:
    """Snapshot of a cluster's replicas, including internal topics."""

    cluster_id: str
    """Kafka's own cluster id."""
    brokers: Mapping[int, ObservedBroker]
    partitions: Mapping[Place, PartitionReplicas]
    topic_ids: Mapping[str, str]
    """Topic ids; they change when a topic is deleted and created again."""
    internal_topics: frozenset[str]
    min_insync_replicas: Mapping[str, int]
    """Minimum by topic, without topics whose configuration may not be read."""
    unsized: Mapping[int, str]
    """Brokers that did not report the sizes of their replicas, with the reason."""


def read(metadata: Any, send: Send, send_each: SendEach, *, whole: bool) -> ClusterReplicas:
    """Build the snapshot from the answer to `everything`; values that single brokers do not report are left out.

    `whole`: include sizes and minima, which take a request to each broker and one for each few hundred topics.
    Raises KafkaCallFailed if no broker answers.
    """
    topics = [topic for topic in metadata.topics if not topic.error_code or topic.partitions]
    brokers = brokers_of(send, metadata)
    sizes, unsized = _sizes(send_each, brokers) if whole else ({}, {})
    partitions = {
        (topic.name, each.partition_index): PartitionReplicas(
            replicas=tuple(each.replica_nodes),
            isr=tuple(each.isr_nodes),
            leader=each.leader_id,
            size_bytes=sizes.get((topic.name, each.partition_index), 0),
        )
        for topic in topics
        for each in topic.partitions
    }
    return ClusterReplicas(
        cluster_id=str(metadata.cluster_id),
        brokers=brokers,
        partitions=partitions,
        topic_ids={topic.name: _as_librdkafka_writes_it(topic.topic_id) for topic in topics},
        internal_topics=frozenset(topic.name for topic in topics if topic.is_internal),
        min_insync_replicas=_min_insync(send, [topic.name for topic in topics]) if whole else {},
        unsized=unsized,
    )


def everything() -> MetadataRequest:
    """Return the request for the metadata of all topics."""
    return MetadataRequest(topics=None, allow_auto_topic_creation=False)


def copied(send_each: SendEach, adding: Mapping[Place, Sequence[int]]) -> dict[Place, int]:
    """Return the bytes of these partitions that have arrived on these brokers, summed over the brokers.

    Brokers that do not answer, and replicas that have not started, are left out.
    """
    asked: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (topic, partition), brokers in adding.items():
        for broker in brokers:
            asked[broker][topic].append(partition)
    requests = {broker: DescribeLogDirsRequest(topics=list(topics.items())) for broker, topics in asked.items()}
    found: dict[Place, int] = defaultdict(int)
    for answer in send_each(requests).values():
        for place, size in () if isinstance(answer, KafkaCallFailed) else held_replicas(answer):
            found[place] += size
    return dict(found)


def replica_sizes(send_each: SendEach, seen: ObservedCluster) -> ReplicaSizes | None:
    """Return the sizes of all replicas, with one request to each online broker.

    A broker that does not answer or refuses is left out; None if all are. Raises KafkaCallFailed if none answers.
    """
    here = [broker for broker, each in seen.brokers.items() if each.is_here]
    leaders: dict[Place, tuple[int, int]] = {}
    brokers: dict[int, int] = {}
    for broker, answer in send_each({each: DescribeLogDirsRequest(topics=None) for each in here}).items():
        # Without the right to see them, older brokers answer with no folders at all.
        if isinstance(answer, KafkaCallFailed) or answer.error_code or not answer.results:
            continue
        brokers[broker] = 0
        for place, size in held_replicas(answer):
            brokers[broker] += size
            if place in seen.partitions and seen.partitions[place].leader == broker:
                leaders[place] = broker, size
    return ReplicaSizes(leaders=leaders, brokers=brokers) if brokers else None


def brokers_of(send: Send, metadata: Any) -> dict[int, ObservedBroker]:
    """Return the brokers of an answer to `everything`, and registered brokers that are down.

    Raises KafkaCallFailed.
    """
    found = {broker.node_id: ObservedBroker(broker.rack, is_here=True) for broker in metadata.brokers}
    try:
        answer = send(DescribeClusterRequest(include_fenced_brokers=True))
    except KafkaCallFailed as error:
        if error.code != UNSUPPORTED:
            raise
        return found  # before Kafka 2.8 nobody tells of brokers that are not there
    for broker in answer.brokers if answer.error_code == 0 else ():
        found.setdefault(broker.broker_id, ObservedBroker(broker.rack, is_here=not broker.is_fenced))
    return found


def _sizes(send_each: SendEach, brokers: Mapping[int, ObservedBroker]) -> tuple[dict[Place, int], dict[int, str]]:
    unsized = {broker: _AWAY for broker, seen in brokers.items() if not seen.is_here}
    answers = send_each(
        {broker: DescribeLogDirsRequest(topics=None) for broker in brokers if broker not in unsized}
    )
    sizes: dict[Place, int] = {}
    for broker, answer in answers.items():
        if isinstance(answer, KafkaCallFailed):
            unsized[broker] = answer.reason
            continue
        # With several disks, the others are still reported.
        for each in (answer, *answer.results):
            if each.error_code:
                unsized[broker] = explained(each)
        for place, size in held_replicas(answer):
            if size > sizes.get(place, 0):
                sizes[place] = size
    return sizes, unsized


def held_replicas(answer: Any) -> Iterator[tuple[Place, int]]:
    """Yield the replicas of a broker with their bytes, without those being moved between its disks."""
    for folder in answer.results:
        for topic in folder.topics:
            for each in topic.partitions:
                if not each.is_future_key:
                    yield (topic.name, each.partition_index), each.partition_size


def _min_insync(send: Send, topics: Sequence[str]) -> dict[str, int]:
    found = topic_configs(send, topics, [_MIN_INSYNC])
    return {topic: int(entry.value) for topic, entries in found.items() for entry in entries if entry.value}


def _as_librdkafka_writes_it(topic_id: uuid.UUID) -> str:
    """Return a topic id as librdkafka writes it; Kafka itself writes - and _ for + and /."""
    return base64.b64encode(topic_id.bytes).rstrip(b"=").decode()
