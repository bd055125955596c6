"""Observation of all groups of a cluster: states, members with their partitions, and committed offsets.

A broker lists the groups that it coordinates, so it is also the one to ask for their members and offsets: requests
for hundreds of groups each, and no look-up of coordinators. librdkafka sends two requests or more for each group
instead, which is too many for ten thousand groups; hence kafka-python's connections (decision 76). Brokers must be
of Kafka 3.0 or newer (KIP-709).
"""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from backend.domain.distribution.assignment import OWN_GROUPS
from backend.domain.offsets.observed_group import UNKNOWN
from backend.kafka.base.errors import KafkaCallFailed, LoginUnsupported
from backend.kafka.base.protocol_client import ProtocolClient
from backend.kafka.base.requests import Place
from backend.kafka.groups.group_requests import (
    ConsumerGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
)

GROUPS_A_REQUEST = 200
CLASSIC, CONSUMER, SHARE, NONE = "classic", "consumer", "share", "none"
_CONSUMER_PROTOCOL = "consumer"
"""Protocol type of classic groups whose members are consumers; Kafka Connect's workers have another one."""
_WITHOUT_MEMBERS = ("Empty", "Dead")
_GONE = 69
"""GROUP_ID_NOT_FOUND: the group was deleted since it was listed."""
_MOVING = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
_LONGEST_NAME = 600
"""Longest name of an observed group, in characters: PostgreSQL indexes no text of more than some 2,700 bytes."""
_UNREADABLE = "\ufffd"


@dataclass(frozen=True, kw_only=True)
class MemberState:
    """A member of a group and the partitions assigned to it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: Sequence[Place]


@dataclass(kw_only=True)
class GroupState:
    """A group as one observation found it."""

    name: str
    state: str
    """State in Kafka's words."""
    protocol: str
    """`classic`, `consumer`, `share`, or `none`: offsets that no member has ever committed."""
    members: Sequence[MemberState] = ()
    committed: dict[Place, int] = field(default_factory=dict)
    """Committed offsets; of a share group, the offsets before which all records are acknowledged."""
    reason: str | None = None
    """Reason for which members or offsets could not be read."""


@dataclass(frozen=True, kw_only=True)
class GroupsSeen:
    """Groups of a cluster as one observation found them."""

    groups: Mapping[str, GroupState]
    reason: str | None
    """Brokers that did not answer, with the reason: groups that they coordinate are missing."""
    truncated: bool
    """True if the cluster has more groups than were to be observed, or names that cannot be stored."""


class GroupStates:
    """Observer of one cluster's groups, with connections kept; for one thread. Methods raise KafkaCallFailed."""

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str], seconds: float) -> None:
        """Create the client without connecting; `seconds` is the timeout of each request."""
        try:
            self._client = ProtocolClient(bootstrap_servers, properties, seconds)
        except LoginUnsupported as error:
            raise KafkaCallFailed(error.reason) from error

    def close(self) -> None:
        """Close the connections; the next observation opens new ones."""
        self._client.close()

    def observe(self, most: int) -> GroupsSeen:
        """Return the groups of the cluster without Treeline's own, at most `most`, by name."""
        metadata = self._client.send(MetadataRequest(topics=[]))
        failed: dict[int, str] = {}
        listed: dict[str, tuple[int, GroupState]] = {}
        truncated = False
        for broker, answer in self._ask({each.node_id: _list_request() for each in metadata.brokers}, failed):
            if answer.error_code:
                failed[broker] = _words(answer.error_code)
                continue
            for row in answer.groups:
                if len(row.group_id) > _LONGEST_NAME or "\0" in row.group_id:
                    truncated = True
                elif not row.group_id.startswith(OWN_GROUPS):
                    listed[row.group_id] = broker, _listed(row)
        if len(failed) == len(metadata.brokers):
            raise KafkaCallFailed(_reason(failed))
        names = sorted(listed)[:most]
        truncated = truncated or len(names) < len(listed)
        found = {name: listed[name] for name in names}
        for kind in (_Members(CLASSIC), _Members(CONSUMER), _Members(SHARE), _Offsets(SHARE), _Offsets()):
            self._add(kind, found, failed)
        groups = {name: state for name, (_, state) in found.items()}
        return GroupsSeen(groups=groups, reason=_reason(failed) if failed else None, truncated=truncated)

    def _add(
        self, kind: _Members | _Offsets, found: dict[str, tuple[int, GroupState]], failed: dict[int, str]
    ) -> None:
        """Add what one kind of request tells to the groups; groups that are gone are removed."""
        wanted: dict[int, list[str]] = defaultdict(list)
        for name, (broker, state) in found.items():
            if broker not in failed and kind.concerns(state):
                wanted[broker].append(name)
        for first in range(0, max(map(len, wanted.values()), default=0), GROUPS_A_REQUEST):
            batches = {broker: names[first : first + GROUPS_A_REQUEST] for broker, names in wanted.items()}
            requests = {broker: kind.request(names) for broker, names in batches.items() if names}
            for _, answer in self._ask(requests, failed):
                for row in answer.groups:
                    if row.group_id not in found:
                        continue
                    state = found[row.group_id][1]
                    if row.error_code == _GONE:
                        del found[row.group_id]
                    elif row.error_code:
                        state.reason = state.reason or _words(row.error_code)
                    else:
                        kind.read(row, state)
        for name, (broker, _) in list(found.items()):
            # What its broker does not tell now, the last observation did.
            if broker in failed:
                del found[name]

    def _ask(self, requests: Mapping[int, ApiMessage], failed: dict[int, str]) -> Iterator[tuple[int, Any]]:
        """Yield (broker, answer), and note the brokers that do not answer; those are not asked again."""
        wanted = {broker: request for broker, request in requests.items() if broker not in failed}
        for broker, answer in self._client.send_each(wanted).items():
            if isinstance(answer, KafkaCallFailed):
                failed[broker] = answer.reason
            else:
                yield broker, answer


class _Members:
    """Request for the members of groups of one protocol that have some."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol

    def concerns(self, state: GroupState) -> bool:
        """Tell whether the group is one to describe by this request."""
        return state.protocol == self._protocol and state.state not in _WITHOUT_MEMBERS

    def request(self, names: Sequence[str]) -> ApiMessage:
        """Return the request for these groups."""
        if self._protocol == CLASSIC:
            return DescribeGroupsRequest(groups=list(names), include_authorized_operations=False)
        kind = ConsumerGroupDescribeRequest if self._protocol == CONSUMER else ShareGroupDescribeRequest
        return kind(group_ids=list(names), include_authorized_operations=False)

    def read(self, row: Any, state: GroupState) -> None:
        """Store an answer about one group."""
        state.state = row.group_state or state.state
        if self._protocol == CLASSIC:
            is_consumers = row.protocol_type == _CONSUMER_PROTOCOL
            state.members = [
                _member(each, each.group_instance_id, assigned(each.member_assignment) if is_consumers else ())
                for each in row.members
            ]
            return
        state.members = [
            _member(
                each,
                each.instance_id if self._protocol == CONSUMER else None,
                [
                    (topic.topic_name, partition)
                    for topic in each.assignment.topic_partitions
                    for partition in topic.partitions
                ],
            )
            for each in row.members
        ]


class _Offsets:
    """Request for all committed offsets of groups: of share groups, or of all others."""

    def __init__(self, protocol: str | None = None) -> None:
        self._is_share = protocol == SHARE

    def concerns(self, state: GroupState) -> bool:
        """Tell whether the group's offsets are read by this request."""
        return (state.protocol == SHARE) == self._is_share

    def request(self, names: Sequence[str]) -> ApiMessage:
        """Return the request for these groups; without topics, it is for all of them."""
        if self._is_share:
            return DescribeShareGroupOffsetsRequest(groups=[(name, None) for name in names])
        # From version 10 on, topics have ids instead of names.
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup
        groups = [wanted(group_id=name, member_id=None, member_epoch=-1, topics=None) for name in names]
        return OffsetFetchRequest(groups=groups, require_stable=False, min_version=8, max_version=9)

    def read(self, row: Any, state: GroupState) -> None:
        """Store an answer about one group."""
        for topic in row.topics:
            # Thousands of groups name the same topics.
            name = sys.intern(topic.topic_name if self._is_share else topic.name)
            for each in topic.partitions:
                offset = each.start_offset if self._is_share else each.committed_offset
                if each.error_code == 0 and offset >= 0:
                    state.committed[name, each.partition_index] = offset


def assigned(assignment: bytes) -> list[Place]:
    """Return the partitions of a classic member's assignment; none if it is not one of Kafka's consumers."""
    found: list[Place] = []
    try:
        _, topics = struct.unpack_from(">hi", assignment)
        at = 6
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", assignment, at)
            topic = assignment[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (count,) = struct.unpack_from(">i", assignment, at)
            found += [(topic, each) for each in struct.unpack_from(f">{count}i", assignment, at + 4)]
            at += 4 + 4 * count
    except (struct.error, UnicodeDecodeError):
        # Before a rebalance ends it is empty; clients in other languages may have a format of their own.
        return []
    return found


def _list_request() -> ApiMessage:
    return ListGroupsRequest(states_filter=[], types_filter=[], min_version=4)


def _listed(row: Any) -> GroupState:
    protocol = (row.group_type or CLASSIC).lower()
    if protocol == CLASSIC and not row.protocol_type:
        protocol = NONE
    return GroupState(name=row.group_id, state=row.group_state or UNKNOWN, protocol=protocol)


def _member(row: Any, instance_id: str | None, partitions: Sequence[Place]) -> MemberState:
    return MemberState(
        member_id=_text(row.member_id),
        client_id=_text(row.client_id),
        host=_text(row.client_host).lstrip("/"),
        instance_id=None if instance_id is None else _text(instance_id),
        partitions=partitions,
    )


def _text(given: str) -> str:
    # Clients choose their names, and the database stores no NUL.
    return given.replace("\0", _UNREADABLE)


def _words(code: int) -> str:
    if code in _MOVING:
        return "its coordinator is starting or moving to another broker"
    kind = for_code(code)
    return str(kind.description or kind.__name__)


def _reason(failed: Mapping[int, str]) -> str:
    return "; ".join(f"broker {broker} did not answer: {reason}" for broker, reason in sorted(failed.items()))
