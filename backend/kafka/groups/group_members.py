"""Which groups a cluster has, and who is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from backend.kafka.base.errors import KafkaCallFailed, kafka_error, sentence

_EMPTY = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


@dataclass(frozen=True, kw_only=True)
class GroupMember:
    """A client that is in a group, and the topics that it reads now: none while the group is rebalanced."""

    client_id: str
    host: str
    topics: frozenset[str]


class GroupAdmin:
    """One cluster's; used by one thread. All of it raises KafkaCallFailed."""

    def __init__(self, admin: AdminClient, seconds: float) -> None:
        """`seconds` that each request may take."""
        self._admin, self._seconds = admin, seconds

    @classmethod
    def open(cls, config: Mapping[str, Any], seconds: float) -> GroupAdmin:
        """With a client of its own."""
        try:
            return cls(AdminClient(dict(config)), seconds)
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error

    def names(self) -> Mapping[str, bool]:
        """Every group that this user may see -> whether it may have members; fails if a broker does not answer."""
        try:
            found = self._admin.list_consumer_groups(request_timeout=self._seconds).result(self._seconds + 1)
        except (KafkaException, TimeoutError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        if found.errors:
            raise KafkaCallFailed(sentence(found.errors[0]))
        return {row.group_id: row.state not in _EMPTY for row in found.valid}

    def members(self, groups: Sequence[str]) -> dict[str, tuple[GroupMember, ...]]:
        """Who is in each of the groups; a group that is not there has nobody."""
        if not groups:
            return {}
        found: dict[str, tuple[GroupMember, ...]] = {}
        try:
            asked = self._admin.describe_consumer_groups(list(groups), request_timeout=self._seconds)
            for group, answer in asked.items():
                try:
                    described = answer.result(self._seconds + 1)
                except KafkaException as error:
                    inner = kafka_error(error)
                    if inner is None or inner.code() != KafkaError.GROUP_ID_NOT_FOUND:
                        raise
                    found[group] = ()
                    continue
                found[group] = tuple(_member(member) for member in described.members)
        except (KafkaException, TimeoutError, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        return found


def _member(member: Any) -> GroupMember:
    parts = member.assignment.topic_partitions if member.assignment else None
    return GroupMember(
        client_id=member.client_id,
        host=member.host.lstrip("/"),
        topics=frozenset(part.topic for part in parts or ()),
    )
