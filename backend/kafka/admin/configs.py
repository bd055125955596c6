"""Configuration of topics and brokers: reading some entries of many, and changing single ones (KIP-339)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.requests import (
    NOT_ALLOWED,
    UNKNOWN_TOPIC,
    Send,
    SendEach,
    accepted,
    explained,
    in_portions,
)

TOPIC, BROKER = 2, 4
"""Kinds of resources that have a configuration."""
OF_THE_TOPIC, OF_THE_BROKER = 1, 2
"""`config_source` of entries that were set on this resource itself; all others are defaults."""
SET, DELETE, APPEND, SUBTRACT = range(4)
_ASKED_AT_ONCE = 500
_CHANGED_AT_ONCE = 200

Change = tuple[str, int, str | None]
"""(Key, operation, value). Lists get and lose single entries, so that others' entries are never overwritten."""


def topic_configs(send: Send, names: Sequence[str], keys: Iterable[str]) -> dict[str, list[Any]]:
    """Return these entries of topics, as Kafka answers them. Raises KafkaCallFailed.

    Topics that are gone or may not be read are left out.
    """
    found: dict[str, list[Any]] = {}
    for some in in_portions(names, _ASKED_AT_ONCE):
        answer = send(DescribeConfigsRequest(resources=[(TOPIC, name, list(keys)) for name in some]))
        for result in answer.results:
            if result.error_code not in (UNKNOWN_TOPIC, *NOT_ALLOWED):
                found[result.resource_name] = list(accepted(result).configs)
    return found


def broker_configs(
    send_each: SendEach, brokers: Iterable[int], keys: Iterable[str]
) -> dict[int, list[Any] | KafkaCallFailed]:
    """Return these entries of brokers; each broker is queried for its own."""
    requests = {
        broker: DescribeConfigsRequest(resources=[(BROKER, str(broker), list(keys))]) for broker in brokers
    }
    found: dict[int, list[Any] | KafkaCallFailed] = {}
    for broker, answer in send_each(requests).items():
        try:
            found[broker] = (
                answer if isinstance(answer, KafkaCallFailed) else list(accepted(answer.results[0]).configs)
            )
        except KafkaCallFailed as error:
            found[broker] = error
    return found


def change_topics(send: Send, changes: Mapping[str, Sequence[Change]]) -> dict[str, str]:
    """Change existing topics; return the refused ones, as `topic NAME`, with reasons. Raises KafkaCallFailed."""
    refused: dict[str, str] = {}
    for some in in_portions(sorted(topic for topic, each in changes.items() if each), _CHANGED_AT_ONCE):
        resources = [(TOPIC, topic, list(changes[topic])) for topic in some]
        answer = send(IncrementalAlterConfigsRequest(resources=resources, validate_only=False))
        for result in answer.responses:
            if result.error_code not in (0, UNKNOWN_TOPIC):
                refused[f"topic {result.resource_name}"] = explained(result)
    return refused


def change_brokers(send_each: SendEach, changes: Mapping[int, Sequence[Change]]) -> dict[str, str]:
    """Change brokers, each by a request to itself; return the refused ones, as `broker ID`, with reasons."""
    requests = {
        broker: IncrementalAlterConfigsRequest(resources=[(BROKER, str(broker), list(each))], validate_only=False)
        for broker, each in changes.items()
    }
    refused: dict[str, str] = {}
    for broker, answer in send_each(requests).items():
        if isinstance(answer, KafkaCallFailed):
            refused[f"broker {broker}"] = answer.reason
        elif answer.responses[0].error_code:
            refused[f"broker {broker}"] = explained(answer.responses[0])
    return refused
