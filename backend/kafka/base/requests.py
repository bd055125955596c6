"""Common parts of requests about a cluster's replicas: callables that send them, and refusals in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kafka.errors import for_code
from kafka.protocol.api_message import ApiMessage

from backend.kafka.base.errors import KafkaCallFailed

T = TypeVar("T")

Place = tuple[str, int]
"""A partition: (topic, number)."""
Send = Callable[[ApiMessage], Any]
"""Sends a request to any broker; brokers of a KRaft cluster forward to the controller what it must handle. Raises
KafkaCallFailed."""
SendEach = Callable[[Mapping[int, ApiMessage]], Mapping[int, Any]]
"""Sends each of these brokers its own request; each result is the answer, or a KafkaCallFailed. Raises
KafkaCallFailed if none answers."""

UNKNOWN_TOPIC = 3
NOT_ALLOWED = (29, 31)
UNSUPPORTED = 35
_NEEDS = (
    "the cluster does not let the control plane do this; it needs Alter, Describe, AlterConfigs and "
    "DescribeConfigs on the cluster, and AlterConfigs and DescribeConfigs on topics"
)
_WORDS = {
    UNKNOWN_TOPIC: "there is no such partition; its topic is gone, or never had it",
    7: "the controller did not get to it in time",
    17: "no topic can have this name",
    29: _NEEDS,
    31: _NEEDS,
    37: "there is no such partition",
    38: "it cannot have so many replicas",
    39: "it cannot have its replicas there",
    44: "a policy of the cluster forbids it",
    56: "a disk of the broker has failed",
    60: "it is being reassigned",
    80: "the preferred broker has no replica that is in sync",
    83: "no broker that could lead it has a replica that is in sync",
    85: "it is not being reassigned, so there is nothing to cancel",
}
"""Reasons by Kafka's codes: UNKNOWN_TOPIC_OR_PARTITION, REQUEST_TIMED_OUT, INVALID_TOPIC,
TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
INVALID_REPLICA_ASSIGNMENT, POLICY_VIOLATION, KAFKA_STORAGE_ERROR, REASSIGNMENT_IN_PROGRESS,
PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, NO_REASSIGNMENT_IN_PROGRESS."""


def explained(result: Any) -> str:
    """Return why one item of a request was refused: our words, then the broker's own in parentheses."""
    words = _WORDS.get(result.error_code) or for_code(result.error_code).__name__
    said = getattr(result, "error_message", None)
    return f"{words} ({said})" if said else words


def accepted(answer: Any) -> Any:
    """Return an answer, or a result in it, if it is no refusal. Raises KafkaCallFailed if it is one."""
    if answer.error_code:
        raise KafkaCallFailed(explained(answer), answer.error_code)
    return answer


def in_portions(everything: Sequence[T], at_once: int) -> Iterator[Sequence[T]]:
    """Yield the items in portions of at most `at_once`."""
    for first in range(0, len(everything), at_once):
        yield everything[first : first + at_once]
