"""Groups as their brokers tell of them, also where one of the brokers does not answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace as Told
from typing import Any

import pytest

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.group_states import GROUPS_A_REQUEST, GroupsSeen, GroupStates

LISTED = {
    1: [
        ("plain", "consumer", "Stable", "classic"),
        ("tool", "", "Empty", "classic"),
        ("_treeline.x", "", "Empty", ""),
    ],
    2: [
        ("shared", "share", "Stable", "Share"),
        ("old", "consumer", "Empty", None),
        ("gone", "", "Stable", "Consumer"),
    ],
}
AWAY = KafkaCallFailed("it is down")


class Cluster:
    """Two brokers whose answers are given; `fails` tells which requests one of them does not answer."""

    def __init__(self, fails: Callable[[int, str], bool] = lambda broker, request: False, more: int = 0) -> None:
        self.fails, self.requests = fails, []
        self.listed = {1: LISTED[1] + [(f"g{at:04}", "", "Empty", "classic") for at in range(more)], 2: LISTED[2]}

    def send(self, request: Any) -> Any:
        return Told(brokers=[Told(node_id=1), Told(node_id=2)])

    def send_each(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for broker, request in requests.items():
            name = type(request).__name__.removesuffix("Request")
            self.requests.append((broker, name))
            found[broker] = AWAY if self.fails(broker, name) else getattr(self, name)(broker, request)
        return found

    def ListGroups(self, broker: int, request: Any) -> Any:  # noqa: N802 - called by the request's name
        names = ("group_id", "protocol_type", "group_state", "group_type")
        rows = [Told(**dict(zip(names, each, strict=True))) for each in self.listed[broker]]
        return Told(error_code=0, groups=rows)

    def DescribeGroups(self, broker: int, request: Any) -> Any:  # noqa: N802
        assert request.groups == ["plain"]
        return Told(groups=[Told(group_id="plain", error_code=16)])

    def ConsumerGroupDescribe(self, broker: int, request: Any) -> Any:  # noqa: N802
        return Told(groups=[Told(group_id=each, error_code=69) for each in request.group_ids])

    def ShareGroupDescribe(self, broker: int, request: Any) -> Any:  # noqa: N802
        assigned = Told(topic_partitions=[Told(topic_name="t", partitions=[0, 3])])
        member = Told(member_id="m", client_id="a\0b", client_host="/10.0.0.1", assignment=assigned)
        row = {"group_id": "shared", "error_code": 0, "group_state": "Stable", "members": [member]}
        return Told(groups=[Told(**row)])

    def DescribeShareGroupOffsets(self, broker: int, request: Any) -> Any:  # noqa: N802
        parts = [
            Told(partition_index=0, start_offset=7, error_code=0),
            Told(partition_index=3, start_offset=-1, error_code=0),
        ]
        return Told(
            groups=[Told(group_id="shared", error_code=0, topics=[Told(topic_name="t", partitions=parts)])]
        )

    def OffsetFetch(self, broker: int, request: Any) -> Any:  # noqa: N802
        def row(name: str) -> Any:
            parts = [Told(partition_index=1, committed_offset=5, error_code=0)]
            parts.append(Told(partition_index=2, committed_offset=9, error_code=29))
            return Told(group_id=name, error_code=0, topics=[Told(name="t", partitions=parts)])

        return Told(groups=[row(each.group_id) for each in request.groups])


def seen_on(cluster: Cluster, most: int = 10_000) -> GroupsSeen:
    states = GroupStates("127.0.0.1:9", {}, 1.0)
    states._client = cluster  # type: ignore[assignment]
    return states.observe(most)


def test_every_protocol_members_offsets_and_errors_of_single_groups() -> None:
    groups = seen_on(Cluster()).groups
    assert {name: (each.protocol, each.state) for name, each in groups.items()} == {
        "plain": ("classic", "Stable"),
        "tool": ("none", "Empty"),
        "shared": ("share", "Stable"),
        "old": ("classic", "Empty"),
    }
    (member,) = groups["shared"].members
    assert (member.client_id, member.host, member.partitions) == ("a\ufffdb", "10.0.0.1", [("t", 0), ("t", 3)])
    assert groups["shared"].committed == {("t", 0): 7}
    assert groups["tool"].committed == groups["plain"].committed == {("t", 1): 5}
    assert groups["plain"].reason == "its coordinator is starting or moving to another broker"


@pytest.mark.parametrize(
    "request_name", ["ListGroups", "ShareGroupDescribe", "DescribeShareGroupOffsets", "OffsetFetch"]
)
def test_groups_of_a_broker_that_does_not_answer_are_missing_with_the_reason(request_name: str) -> None:
    cluster = Cluster(lambda broker, name: broker == 2 and name == request_name)
    found = seen_on(cluster)
    assert sorted(found.groups) == ["plain", "tool"]
    assert found.reason == "broker 2 did not answer: it is down"
    at = cluster.requests.index((2, request_name))
    assert 2 not in {broker for broker, _ in cluster.requests[at + 1 :]}, "it is not asked again"


def test_no_broker_answers() -> None:
    with pytest.raises(KafkaCallFailed) as failure:
        seen_on(Cluster(lambda broker, name: True))
    assert failure.value.reason == "broker 1 did not answer: it is down; broker 2 did not answer: it is down"


def test_requests_are_bounded_and_so_are_groups() -> None:
    cluster = Cluster(more=1_000)
    found = seen_on(cluster)
    assert len(found.groups) == 1_004 and not found.truncated
    assert cluster.requests.count((1, "OffsetFetch")) == -(-1_002 // GROUPS_A_REQUEST)
    some = seen_on(Cluster(more=1_000), most=10)
    assert some.truncated and list(some.groups) == [f"g{at:04}" for at in range(10)]


def test_a_name_that_no_table_can_hold_is_left_out_and_said_to_be() -> None:
    cluster = Cluster()
    cluster.listed[1] = [("x" * 601, "", "Empty", "classic"), ("a\0b", "", "Empty", "classic")]
    found = seen_on(cluster)
    assert sorted(found.groups) == ["old", "shared"] and found.truncated
