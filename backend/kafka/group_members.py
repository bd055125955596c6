"""Which groups a cluster has, and who is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from backend.kafka.errors import KafkaCallFailed, kafka_error, sentence


@dataclass(frozen=True, kw_only=True)
class GroupMember:
    """A client that is in a group, and the topics that it was given partitions of."""

    client_id: str
    host: str
    topics: frozenset[str]


def names(admin: AdminClient, seconds: float) -> list[str]:
    """Every group that this user may see. Raises KafkaCallFailed, also if one of the brokers does not answer."""
    try:
        found = admin.list_consumer_groups(request_timeout=seconds).result(seconds + 1)
    except (KafkaException, TimeoutError) as error:
        raise KafkaCallFailed(sentence(error)) from error
    if found.errors:
        raise KafkaCallFailed(sentence(found.errors[0]))
    return [group.group_id for group in found.valid]


def members(admin: AdminClient, groups: Sequence[str], seconds: float) -> dict[str, tuple[GroupMember, ...]]:
    """Who is in each of the groups; a group that is not there has nobody. Raises KafkaCallFailed."""
    found: dict[str, tuple[GroupMember, ...]] = {}
    if not groups:
        return found
    try:
        asked = admin.describe_consumer_groups(list(groups), request_timeout=seconds)
        for group, answer in asked.items():
            try:
                described = answer.result(seconds + 1)
            except KafkaException as error:
                inner = kafka_error(error)
                if inner is None or inner.code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise
                found[group] = ()
                continue
            found[group] = tuple(
                GroupMember(
                    client_id=member.client_id,
                    host=member.host.lstrip("/"),
                    topics=frozenset(part.topic for part in member.assignment.topic_partitions),
                )
                for member in described.members
            )
    except (KafkaException, TimeoutError, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error
    return found
