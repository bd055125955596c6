"""Interference by other programs with groups, logs and the map affects only themselves."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.domain.offsets import offset_map
from backend.domain.offsets.offset_map import Progress
from tests.eventually import eventually
from tests.kafka.offsets.at_once import at_once
from tests.support.estate.groups import MAP_TOPIC, Groups, Made, group_partition, numbered, path_of
from tests.support.kafka.topics import DEADLINE_SECONDS, produce


def commit_as(servers: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


@pytest.mark.nightly
@at_once
def test_a_stream_that_is_not_distributed_for_a_while(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(20))
    groups.wait_for(20)
    at = groups.go_on_at("cluster-1", "r0010")
    path = path_of(groups.place)
    groups.rest.ok("PATCH", path, {"distributed": False})
    eventually(lambda: groups.shown("cluster-1") is None, "nothing is carried over", 0.2)
    groups.rest.ok("PATCH", path, {"distributed": True})
    groups.until_applied("cluster-1", at)
    assert {groups.next_value(each) for each in groups.servers} == {"r0010"}, "without another commit"


@at_once
@pytest.mark.nightly  # a commit past the end in test_hard_cases
def test_an_offset_that_no_log_has(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(20))
    groups.wait_for(20)
    groups.commit("cluster-1", 2**63 - 1)
    groups.until_applied("cluster-1", 2**63 - 1)
    assert {groups.next_value(each) for each in groups.servers} == {None}
    groups.go_on_at("cluster-1", "r0010")
    assert {groups.next_value(each) for each in groups.servers} == {"r0010"}


@at_once
@pytest.mark.nightly  # test_group_names has names that all keep
def test_a_group_with_a_name_that_nobody_can_keep(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(20))
    groups.wait_for(20)
    long = f"{groups.group}-" + "x" * 9_000
    commit_as(groups.servers["cluster-1"], long, groups.topics["cluster-1"], 5)
    capitals = groups.another(f"App.{groups.group}_EU")
    at = groups.offset_of("cluster-1", "r0010")
    capitals.commit("cluster-1", at)
    capitals.until_applied("cluster-1", at)
    assert {capitals.next_value(each) for each in groups.servers} == {"r0010"}
    listed = groups.rest.ok("GET", "/offsets/not-followed?limit=500")["items"]
    (row,) = [row for row in listed if row["technical_group"].startswith(f"{groups.group}-xxx")]
    assert len(row["technical_group"]) < 300 and row["topic"] == groups.topics["cluster-1"]


@at_once
def test_records_of_the_map_that_nobody_of_us_wrote(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(30))
    groups.wait_for(30)
    key, good = (
        offset_map.encode_key(group_partition(groups), "cluster-1"),
        {"timestamp_ms": 1, "committed_at_ms": 1},
    )
    good |= {"generation": 1, "vector": {"9" * 5_000: [1, 1]}, "offset": 1}
    nowhere = Progress(timestamp_ms=1, committed_at_ms=1, generation=1, vector={}, offset=1)
    records = [
        {"key": key, "value": json.dumps(good).encode(), "partition": 0},
        {"key": offset_map.encode_key(group_partition(groups, group="a\0b"), "cluster-1"), "value": b"{}"},
        *(
            {"key": offset_map.encode_key(each, "cluster-1"), "value": offset_map.encode_value(nowhere)}
            for each in (group_partition(groups, group="a\0b"), group_partition(groups, partition=77))
        ),
    ]
    for cluster in ("cluster-2", "cluster-5"):
        produce(groups.servers[cluster], MAP_TOPIC, records)
    groups.go_on_at("cluster-1", "r0020")
    assert {groups.next_value(each) for each in groups.servers} == {"r0020"}


@at_once
def test_a_group_that_was_there_before_its_stream_was_distributed(make_groups: Made):
    groups = make_groups("exact", distributed=False)
    groups.produce("cluster-1", numbered(20))
    groups.commit("cluster-1", 7)

    def listed() -> bool:
        rows = groups.rest.ok("GET", "/offsets/not-followed?limit=500")["items"]
        return any(row["technical_group"] == groups.name("cluster-1") for row in rows)

    eventually(listed, "it is listed as not followed", 0.3)
    groups.rest.ok("PATCH", path_of(groups.place), {"distributed": True})
    groups.wait_for(20)
    groups.until_applied("cluster-1", 7)
    assert {groups.next_value(each) for each in groups.servers} == {"r0007"}
    assert not listed()


@at_once
def test_offsets_that_others_take_away_are_set_again(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(30))
    groups.wait_for(30)
    groups.go_on_at("cluster-1", "r0020")
    groups.delete_group("cluster-2")
    admin = AdminClient({"bootstrap.servers": groups.servers["cluster-3"]})
    (gone,) = admin.delete_topics([groups.topics["cluster-3"]]).values()
    gone.result(DEADLINE_SECONDS)
    # The topic is re-created, its records are copied again, and the group is set before those that it has not
    # read.
    eventually(lambda: groups.next_value("cluster-2") == "r0020", "it stands on cluster-2 again", 0.5)
    eventually(lambda: _whole(groups, 30), "cluster-3 has its records again", 0.5)
    eventually(lambda: groups.next_value("cluster-3") == "r0020", "it stands on cluster-3 again", 0.5)


def _whole(groups: Groups, count: int) -> bool:
    admin = AdminClient({"bootstrap.servers": groups.servers["cluster-3"]})
    if groups.topics["cluster-3"] not in admin.list_topics(timeout=DEADLINE_SECONDS).topics:
        return False
    groups.forget()
    return len(groups.log("cluster-3")) >= count


@at_once
def test_a_clock_that_is_ahead_holds_back_no_later_commit(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(50))
    groups.wait_for(50)
    at = groups.go_on_at("cluster-1", "r0010")
    shown = groups.shown("cluster-1")
    assert shown is not None
    # The clock of cluster-1 seems to be five minutes ahead.
    ahead = Progress(
        timestamp_ms=shown["timestamp_ms"],
        committed_at_ms=shown["committed_at_ms"] + 300_000,
        generation=1,
        vector={1: (1, at - 1)},
        offset=at,
    )
    record = {
        "key": offset_map.encode_key(group_partition(groups), "cluster-1"),
        "value": offset_map.encode_value(ahead),
    }
    produce(groups.servers["cluster-1"], MAP_TOPIC, [record])
    stamp = f"at={ahead.committed_at_ms}"
    eventually(lambda: stamp in groups.stands("cluster-2")[1], "it has reached cluster-2", 0.3)
    groups.go_on_at("cluster-2", "r0045")
    time.sleep(3)  # time enough to do wrong
    assert {groups.next_value(each) for each in groups.servers} == {"r0045"}
    body = {"cluster": "cluster-2", "stream": groups.stream, "group": groups.group, "to": "earliest"}
    back = groups.rest.ok("POST", "/offsets/reset", body)["offsets"]["0"]
    groups.until_applied("cluster-2", back)
    assert {groups.next_value(each) for each in groups.servers} == {"r0000"}
