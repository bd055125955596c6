"""Groups of a cluster and their members."""

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
    """A member of a group and the topics assigned to it: none while the group rebalances."""

    client_id: str
    host: str
    topics: frozenset[str]


class GroupAdmin:
    """Group queries on one cluster; used by one thread. Every method raises KafkaCallFailed."""

    def __init__(self, admin: AdminClient, seconds: float) -> None:
        """`seconds` is the timeout of each request."""
        self._admin, self._seconds = admin, seconds

    @classmethod
    def open(cls, config: Mapping[str, Any], seconds: float) -> GroupAdmin:
        """Open an admin client of its own."""
        try:
            return cls(AdminClient(dict(config)), seconds)
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error

    def names(self) -> Mapping[str, bool]:
        """Return every visible group -> whether it may have members; fails if a broker does not answer."""
        try:
            found = self._admin.list_consumer_groups(request_timeout=self._seconds).result(self._seconds + 1)
        except (KafkaException, TimeoutError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        if found.errors:
            raise KafkaCallFailed(sentence(found.errors[0]))
        return {row.group_id: row.state not in _EMPTY for row in found.valid}

    def members(self, groups: Sequence[str]) -> dict[str, tuple[GroupMember, ...]]:
        """Return the members of each of the groups; a group that does not exist has none."""
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
