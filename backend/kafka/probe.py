"""Who answers at bootstrap servers: cluster id and brokers, or the reason why nobody does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from backend.domain.errors import ClusterUnreachable, FieldError
from backend.kafka.client_config import client_config
from backend.kafka.errors import sentence


@dataclass(frozen=True)
class BrokerFacts:
    """One broker: its id and rack (zone), None if it names none."""

    id: int
    rack: str | None


@dataclass(frozen=True)
class ClusterFacts:
    """What a cluster says of itself."""

    kafka_cluster_id: str
    brokers: tuple[BrokerFacts, ...]


class ConnectionReasons:
    """Collects why a client cannot connect: librdkafka tells it to a callback, its calls only time out."""

    def __init__(self) -> None:
        self.last: str | None = None
        self.all_down = False

    def __call__(self, error: KafkaError) -> None:
        """librdkafka's `error_cb`."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.all_down = True
        else:
            self.last = str(error.str())

    def forget(self) -> None:
        """A call succeeded: what was said before it no longer explains anything."""
        self.last, self.all_down = None, False


def describe(admin: AdminClient, reasons: ConnectionReasons, timeout_seconds: float) -> ClusterFacts:
    """The facts, through an existing client. Raises KafkaException, or TimeoutError once all brokers are down."""
    future = admin.describe_cluster(request_timeout=timeout_seconds)
    deadline = time.monotonic() + timeout_seconds
    while not future.done():
        admin.poll(0.02)
        if reasons.all_down or time.monotonic() > deadline:
            raise TimeoutError(reasons.last or f"no answer within {timeout_seconds:g} s")
    found = future.result()
    reasons.forget()
    brokers = tuple(BrokerFacts(node.id, node.rack) for node in sorted(found.nodes, key=lambda node: node.id))
    return ClusterFacts(found.cluster_id, brokers)


def probe(bootstrap_servers: str, properties: Mapping[str, str], timeout_seconds: float = 5.0) -> ClusterFacts:
    """Connect and ask. Raises ClusterUnreachable with the reason after at most `timeout_seconds`."""
    reasons = ConnectionReasons()
    try:
        admin = AdminClient(client_config(bootstrap_servers, properties, error_cb=reasons))
    except (KafkaException, ValueError) as error:
        raise _unreachable(
            bootstrap_servers, f"the client refuses its configuration: {sentence(error)}"
        ) from error
    try:
        return describe(admin, reasons, timeout_seconds)
    except (KafkaException, TimeoutError) as error:
        raise _unreachable(bootstrap_servers, reasons.last or sentence(error)) from error


def _unreachable(bootstrap_servers: str, reason: str) -> ClusterUnreachable:
    return ClusterUnreachable(
        f"no Kafka cluster answers at {bootstrap_servers}: {reason}; check host, port and security properties, "
        "or add it with accept_offline",
        (FieldError("/bootstrap_servers", reason),),
    )
