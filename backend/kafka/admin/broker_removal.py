"""What a cluster is asked before one of its brokers is taken away for good, and told afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest

from backend.kafka.base.protocol_client import ProtocolClient, refusal

_NOT_REGISTERED = 102


class UnregisterBrokerRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """KIP-631; kafka-python has no class for it, so its fields are in the file of this name beside this module."""


class UnregisterBrokerResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """The answer to it."""


def replicas_on(
    bootstrap_servers: str, properties: Mapping[str, str], node: int, timeout_seconds: float
) -> dict[str, int]:
    """Replicas on a broker by topic, Kafka's own topics too, and those that a reassignment brings or takes away.

    Raises KafkaCallFailed.
    """
    with _client(bootstrap_servers, properties, timeout_seconds) as client:
        answer = client.ask(MetadataRequest(topics=None))
    found: Counter[str] = Counter()
    for topic in answer.topics:
        found[topic.name] += sum(node in partition.replica_nodes for partition in topic.partitions)
    return {topic: count for topic, count in found.items() if count}


def unregister(bootstrap_servers: str, properties: Mapping[str, str], node: int, timeout_seconds: float) -> None:
    """Make a cluster forget a broker that has stopped; nothing to do if it does not know it.

    A broker that runs would not come back by itself: this is for one that is gone. Raises KafkaCallFailed.
    """
    with _client(bootstrap_servers, properties, timeout_seconds) as client:
        answer = client.ask(UnregisterBrokerRequest(broker_id=node))
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
