"""Requests to a cluster before and after one of its brokers is removed for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest

from backend.kafka.base.protocol_client import ProtocolClient, refusal

_NOT_REGISTERED = 102


class UnregisterBrokerRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Request of KIP-631; kafka-python has no class for it, so the JSON file of this name defines its fields."""


class UnregisterBrokerResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Response to UnregisterBrokerRequest."""


def replicas_on(
    bootstrap_servers: str, properties: Mapping[str, str], node: int, timeout_seconds: float
) -> dict[str, int]:
    """Return the number of replicas on a broker by topic, with Kafka's own topics and ongoing reassignments.

    Raises KafkaCallFailed.
    """
    with _client(bootstrap_servers, properties, timeout_seconds) as client:
        answer = client.send(MetadataRequest(topics=None))
    found: Counter[str] = Counter()
    for topic in answer.topics:
        found[topic.name] += sum(node in partition.replica_nodes for partition in topic.partitions)
    return {topic: count for topic, count in found.items() if count}


def unregister(bootstrap_servers: str, properties: Mapping[str, str], node: int, timeout_seconds: float) -> None:
    """Unregister a stopped broker from its cluster; one that the cluster does not know is no error.

    A running broker would not come back by itself: call this only for one that is gone. Raises KafkaCallFailed.
    """
    with _client(bootstrap_servers, properties, timeout_seconds) as client:
        answer = client.send(UnregisterBrokerRequest(broker_id=node))
    if answer.error_code not in (0, _NOT_REGISTERED):
        raise refusal(answer)


@contextmanager
def _client(
    bootstrap_servers: str, properties: Mapping[str, str], timeout_seconds: float
) -> Iterator[ProtocolClient]:
    client = ProtocolClient(bootstrap_servers, properties, timeout_seconds)
    try:
        yield client
    finally:
        client.close()
