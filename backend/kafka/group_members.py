"""Which groups a cluster has, and who is in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
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


_EMPTY = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


@dataclass(frozen=True)
class GroupMembers:
    """The members of a group; `topics` are those that they read now, none while the group is rebalanced."""

    client_ids: tuple[str, ...]
    topics: frozenset[str]


class GroupAdmin:
    """One cluster's; used by one thread."""

    def __init__(self, config: Mapping[str, Any], seconds: float) -> None:
        """`seconds` that each request may take. Raises KafkaCallFailed."""
        self._seconds = seconds
        try:
            self._admin = AdminClient(dict(config))
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error

    def names(self) -> Mapping[str, bool]:
        """Every group that this user may see -> whether it may have members. Raises KafkaCallFailed."""
        try:
            found = self._admin.list_consumer_groups(request_timeout=self._seconds).result(self._seconds + 1)
        except (KafkaException, TimeoutError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        return {row.group_id: row.state not in _EMPTY for row in found.valid}

    def members(self, groups: Collection[str]) -> Mapping[str, GroupMembers]:
        """Those of the groups that have members; one that cannot be described now is left out. Raises
        KafkaCallFailed."""
        if not groups:
            return {}
        try:
            asked = self._admin.describe_consumer_groups(list(groups), request_timeout=self._seconds)
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        found: dict[str, GroupMembers] = {}
        for group, answer in asked.items():
            try:
                described = answer.result(self._seconds + 1)
            except (KafkaException, TimeoutError):
                continue
            if described.members:
                found[group] = GroupMembers(
                    client_ids=tuple(sorted(member.client_id for member in described.members)),
                    topics=frozenset(
                        part.topic
                        for member in described.members
                        for part in (member.assignment.topic_partitions if member.assignment else None) or ()
                    ),
                )
        return found
