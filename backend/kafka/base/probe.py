"""Probe of bootstrap servers: cluster id and brokers, or the reason why no broker answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from backend.domain.base.errors import ClusterUnreachable, FieldError
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import kafka_error, sentence

# Requests metadata of the brokers alone, not of thousands of topics. No topic can have this name, so no broker
# creates it, whatever its settings.
_NO_TOPIC = "_treeline/none"
_FIRST_PATIENCE_SECONDS = 0.25
_LEAST_SECONDS = 0.01


@dataclass(frozen=True)
class ClusterFacts:
    """Facts that a cluster reports about itself."""

    kafka_cluster_id: str
    brokers: tuple[int, ...]
    """Broker ids."""


class ConnectionReasons:
    """Collector of connection errors: librdkafka reports them to a callback only, its calls just time out."""

    def __init__(self) -> None:
        self.last: str | None = None
        self.all_down = False

    def __call__(self, error: KafkaError) -> None:
        """Record an error; this is librdkafka's `error_cb`."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.all_down = True
        else:
            self.last = str(error.str())

    def forget(self) -> None:
        """Forget earlier errors after a successful call."""
        self.last, self.all_down = None, False


def ask_of_no_topic(admin: AdminClient, timeout_seconds: float) -> ClusterMetadata:
    """Return a broker's metadata of its cluster. Raises KafkaException.

    librdkafka repeats the request for a missing topic once a second as long as the client lives, so do not use
    this with a long-lived client that queries once. An existing topic will not do: brokers may be set to create
    the topics that clients request, and would create it again after its deletion.
    """
    return admin.list_topics(_NO_TOPIC, timeout_seconds)


def describe(admin: AdminClient, reasons: ConnectionReasons, timeout_seconds: float) -> ClusterFacts:
    """Return the facts, through an existing client. Raises KafkaException, TimeoutError if all brokers are down.

    For clients that poll repeatedly: see `ask_of_no_topic`.

    `describe_cluster` is not used: if all brokers of a cluster are fenced (a pause of its only one is enough), the
    answer names none, and librdkafka then aborts the process by an assertion (2.16: its parser of that answer
    gives neither a result nor an error).
    """
    deadline, patience = time.monotonic() + timeout_seconds, _FIRST_PATIENCE_SECONDS
    while (found := _ask(admin, min(patience, max(_LEAST_SECONDS, deadline - time.monotonic())))) is None:
        admin.poll(0)
        if reasons.all_down or time.monotonic() > deadline:
            raise TimeoutError(reasons.last or f"no answer within {timeout_seconds:g} s")
        patience *= 2
    if not found.brokers:
        raise TimeoutError("all its brokers are fenced: none of them answers the controller")
    reasons.forget()
    return ClusterFacts(str(found.cluster_id), tuple(sorted(found.brokers)))


def _ask(admin: AdminClient, seconds: float) -> ClusterMetadata | None:
    """Return a broker's metadata of the cluster; None if there is no answer yet."""
    try:
        return ask_of_no_topic(admin, seconds)
    except KafkaException as error:
        inner = kafka_error(error)
        if inner is not None and inner.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
            return None
        raise


def probe(bootstrap_servers: str, properties: Mapping[str, str], timeout_seconds: float = 5.0) -> ClusterFacts:
    """Connect and read the facts. Raises ClusterUnreachable with the reason after at most `timeout_seconds`."""
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
