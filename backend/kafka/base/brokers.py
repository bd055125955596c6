"""Brokers of a cluster, as it reports them to clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafka.protocol.metadata import MetadataRequest

from backend.kafka.base.protocol_client import ProtocolClient


class BrokerSeen(NamedTuple):
    """A broker with its advertised address, and its rack if it has one."""

    id: int
    host: str
    port: int
    rack: str | None


def brokers_of(bootstrap_servers: str, properties: Mapping[str, str], timeout_seconds: float) -> list[BrokerSeen]:
    """Return the brokers that are up. Raises KafkaCallFailed, LoginUnsupported."""
    client = ProtocolClient(bootstrap_servers, properties, timeout_seconds)
    try:
        answer = client.send(MetadataRequest(topics=[]))
    finally:
        client.close()
    return [BrokerSeen(each.node_id, each.host, each.port, each.rack) for each in answer.brokers]
