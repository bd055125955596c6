"""Groups of every kind on a real cluster, as the estate's worker observes them and REST lists them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, TopicPartition

from backend.kafka.groups.group_states import GroupStates
from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.estate.groups import Groups, Made, numbered
from tests.support.kafka.topics import create_topic, produce

HERE = "cluster-1"


@contextmanager
def reading(servers: str, group: Groups, protocol: str) -> Iterator[Consumer]:
    """Join a group of either protocol as its only member."""
    config = {
        "bootstrap.servers": servers,
        "group.id": group.name(HERE),
        "group.protocol": protocol,
        "client.id": f"app-{protocol}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(config)
    consumer.subscribe([group.topics[HERE]])
    yield consumer
    consumer.close()


def read(consumer: Consumer, count: int) -> None:
    """Read that many records and commit."""
    left = count

    def done() -> bool:
        nonlocal left
        left -= len(consumer.consume(left, 1.0))
        return left == 0

    eventually(done, f"{count} records are read")
    consumer.commit(asynchronous=False)


def becomes(
    rest: RestClient,
    consumers: Sequence[Consumer],
    name: str,
    *,
    streams: set[str | None] | None = None,
    **wanted: Any,
) -> dict[str, Any]:
    """Wait until the group is observed with these values, while the consumers stay members.

    Names of new streams reach the observer some seconds after their topics; `streams` waits for them.
    """

    def same(row: dict[str, Any]) -> bool:
        if streams is not None and {part["stream"] for part in row["partitions"]} != streams:
            return False
        return all(row[key] == value for key, value in wanted.items())

    def observed() -> dict[str, Any] | None:
        for consumer in consumers:
            consumer.poll(0)
        rows: list[dict[str, Any]] = rest.ok("GET", f"/groups?cluster={HERE}&group={quote(name, safe='')}")[
            "items"
        ]
        return next((row for row in rows if same(row)), None)

    return eventually(observed, f"{name} is observed with {wanted}", 0.3)


def test_groups_of_either_protocol_read_stop_lag_and_catch_up(
    make_groups: Made, rest: RestClient, servers: dict[str, str]
) -> None:
    made: Groups = make_groups("margin", 2)
    groups = {"classic": made, "consumer": made.another()}
    made.produce(HERE, numbered(10), partition=1)
    with ExitStack() as stack:
        members = {key: stack.enter_context(reading(servers[HERE], each, key)) for key, each in groups.items()}
        for consumer in members.values():
            read(consumer, 10)
        for protocol, each in groups.items():
            row = becomes(
                rest,
                [*members.values()],
                each.name(HERE),
                streams={made.stream},
                group=each.group,
                state="Stable",
                protocol=protocol,
                lag_records=0,
            )
            (member,) = row["members"]
            assert (member["client_id"], member["host"]) == (f"app-{protocol}", "127.0.0.1")
            assert member["partitions"] == 2
            owners = {part["partition"]: part["member"] for part in row["partitions"]}
            assert owners == dict.fromkeys((0, 1), member["member_id"])
            assert row["diagnosis"]["code"] == "in-time"
            assert "/".join((row["tenant"], row["instance"], row["environment"])) == "/".join(made.place[:3])
    made.produce(HERE, numbered(7, 10), partition=1)
    for protocol, each in groups.items():
        row = becomes(rest, [], each.name(HERE), state="Empty", protocol=protocol, lag_records=7)
        assert row["diagnosis"]["code"] == "no-members" and "7 records wait" in row["diagnosis"]["text"]
        (late,) = (part for part in row["partitions"] if part["partition"] == 1)
        assert (late["committed_offset"], late["end_offset"], late["member"]) == (10, 17, None)
    with reading(servers[HERE], made, "classic") as consumer:
        read(consumer, 7)
        row = becomes(rest, [consumer], made.name(HERE), state="Stable", lag_records=0)
        assert row["diagnosis"]["code"] == "in-time"


def test_offsets_without_members_on_a_topic_of_no_stream(rest: RestClient, servers: dict[str, str]) -> None:
    topic, name = f"strange.{secrets.token_hex(4)}", f"tool {secrets.token_hex(4)}"
    create_topic(servers[HERE], topic, 1)
    produce(servers[HERE], topic, [{"value": b"v"}] * 5)
    tool = Consumer({"bootstrap.servers": servers[HERE], "group.id": name})
    tool.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    tool.close()
    row = becomes(rest, [], name, lag_records=3)
    assert (row["group"], row["tenant"], row["protocol"], row["state"]) == (None, None, "none", "Empty")
    assert [(each["topic"], each["stream"]) for each in row["partitions"]] == [(topic, None)]
    observations = {each["cluster"]: each for each in rest.ok("GET", "/groups?limit=1")["observations"]}
    assert observations[HERE]["reason"] is None and observations[HERE]["groups"] > 0


@pytest.mark.nightly  # bounds are tested on answers, tests/unit/offsets/test_group_states.py
def test_more_groups_than_a_request_and_than_are_observed(servers: dict[str, str]) -> None:
    mark = secrets.token_hex(4)
    topic = f"many.{mark}"
    create_topic(servers[HERE], topic, 1)
    names = [f"{mark}-{number:03}" for number in range(210)]
    for name in names:
        tool = Consumer({"bootstrap.servers": servers[HERE], "group.id": name})
        tool.commit(offsets=[TopicPartition(topic, 0, int(name[-3:]))], asynchronous=False)
        tool.close()
    states = GroupStates(servers[HERE], {}, 20.0)
    try:
        whole, some = states.observe(100_000), states.observe(205)
    finally:
        states.close()
    assert whole.reason is None
    assert {name: whole.groups[name].committed for name in names} == {
        name: {(topic, 0): int(name[-3:])} for name in names
    }
    assert some.truncated and list(some.groups) == sorted(whole.groups)[:205]
    assert not [name for name in whole.groups if name.startswith("_treeline.")]
