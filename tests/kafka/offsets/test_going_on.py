"""A group continues elsewhere where it stood: no record is skipped, re-reads stay within the bound."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import TopicPartition

from backend.domain.offsets import commit_metadata
from tests.eventually import eventually
from tests.kafka.offsets.at_once import at_once
from tests.support.estate.groups import RETAIL, Made, numbered
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import DEADLINE_SECONDS

FLAGS_OF_CLUSTER_1 = {"cluster-2": 2, "cluster-3": 3, "cluster-4": 4, "cluster-5": 5}


@at_once
def test_exact_with_one_producing_cluster_nothing_comes_again(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(300))
    groups.wait_for(300)
    at = groups.offset_of("cluster-1", "r0120")
    groups.commit("cluster-1", at)
    applied = groups.until_applied("cluster-1", at)
    for cluster, row in applied.items():
        assert groups.next_value(cluster) == "r0120"
        assert (row["mode"], row["re_read_bound"], row["offset"]) == ("exact", 0, groups.stands(cluster)[0])
        mark = commit_metadata.decode(groups.stands(cluster)[1])
        assert mark is not None
        assert (mark.flags, mark.cluster, mark.generation) == (FLAGS_OF_CLUSTER_1[cluster], "cluster-1", 1)
    item = groups.shown("cluster-1")
    assert item is not None and groups.stands("cluster-1") == (at, "")
    # The next hop: a commit where the group continued is progress like any other.
    groups.go_on_at("cluster-5", "r0200")
    assert {groups.next_value(cluster) for cluster in groups.servers} == {"r0200"}


@at_once
def test_margin_is_taken_off_once(make_groups: Made):
    groups = make_groups("margin", margin_seconds=2)
    for number in range(60):
        groups.produce("cluster-2", numbered(1, number))
        time.sleep(0.1)
    groups.wait_for(60)
    times = {m.value().decode(): m.timestamp()[1] for m in groups.messages("cluster-2")}
    at = groups.offset_of("cluster-2", "r0050")
    groups.commit("cluster-2", at)
    for cluster, row in groups.until_applied("cluster-2", at).items():
        # The last record read is r0049. Kafka returns the first offset of that time or later, also a marker's.
        consumer = groups.consumer(cluster)
        since = TopicPartition(groups.topics[cluster], 0, times["r0049"] - 2_000)
        (told,) = consumer.offsets_for_times([since], DEADLINE_SECONDS)
        consumer.close()
        assert row["offset"] == told.offset < groups.offset_of(cluster, "r0049")
        assert (row["mode"], row["re_read_bound"]) == (
            "margin",
            groups.offset_of(cluster, "r0050") - row["offset"],
        )


@at_once
def test_an_environment_that_becomes_exact_takes_its_groups_further_at_once(make_groups: Made):
    groups = make_groups("margin", margin_seconds=3_600)
    groups.produce("cluster-1", numbered(20))
    groups.wait_for(20)
    at = groups.offset_of("cluster-1", "r0015")
    groups.commit("cluster-1", at)
    groups.until_applied("cluster-1", at)
    assert groups.next_value("cluster-3") == "r0000"
    environment = f"{RETAIL}/{groups.place[2]}"
    groups.rest.ok("PATCH", environment, {"offset_mode": "exact"})
    try:
        eventually(lambda: groups.next_value("cluster-3") == "r0015", "it goes on where it has read to", 0.2)
    finally:
        groups.rest.ok("PATCH", environment, {"offset_mode": "margin"})


@at_once
def test_a_group_at_work_there_is_left_alone(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(50))
    groups.wait_for(50)
    consumer = groups.consumer("cluster-3", **{"auto.offset.reset": "earliest"})
    consumer.subscribe([groups.topics["cluster-3"]])
    eventually(lambda: consumer.poll(0.5), "the group reads on cluster-3")
    at = groups.offset_of("cluster-1", "r0040")
    groups.commit("cluster-1", at)
    (row,) = groups.until_applied("cluster-1", at, 0, "has-members", "cluster-3").values()
    assert row["offset"] is None and "left alone" in row["reason"]
    assert groups.stands("cluster-3")[0] < 0
    body = {"cluster": "cluster-3", "stream": groups.stream, "group": groups.group, "to": "earliest"}
    done, tried = (groups.rest("POST", f"/offsets/reset{query}", body) for query in ("", "?dry_run=true"))
    assert (tried.status_code, tried.json()["detail"]) == (done.status_code, done.json()["detail"])
    assert done.status_code == 409 and "has members on cluster-3" in done.json()["detail"]
    consumer.close()
    groups.until_applied("cluster-1", at)
    assert groups.next_value("cluster-3") == "r0040"


@at_once
def test_the_newer_commit_counts_and_nothing_goes_back(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(100))
    groups.wait_for(100)
    first, later = groups.offset_of("cluster-1", "r0050"), groups.offset_of("cluster-4", "r0030")
    groups.commit("cluster-1", first)
    groups.until_applied("cluster-1", first)
    groups.commit("cluster-4", later)
    groups.until_applied("cluster-4", later)
    assert {groups.next_value(cluster) for cluster in groups.servers} == {"r0030"}
    assert groups.stands("cluster-4") == (later, ""), "what it committed by itself stays its own"


@at_once
def test_an_operators_reset_goes_back_too(make_groups: Made):
    first = make_groups("exact")
    first.produce("cluster-1", numbered(60))
    first.wait_for(60)
    at = first.offset_of("cluster-1", "r0045")
    groups = {"earliest": first, "20": first.another(), "latest": first.another()}
    for each in groups.values():
        each.commit("cluster-1", at)
    set_to = {}
    for to, each in groups.items():
        each.until_applied("cluster-1", at)
        body = {"cluster": "cluster-2", "stream": each.stream, "group": each.group, "to": to}
        tried = each.rest.ok("POST", "/offsets/reset?dry_run=true", body)
        assert each.next_value("cluster-2") == "r0045"
        assert each.rest.ok("POST", "/offsets/reset", body) == tried
        set_to[to] = tried["offsets"]["0"]
    for to, each in groups.items():
        each.until_applied("cluster-2", set_to[to])
        expected = {"earliest": "r0000", "latest": None}.get(to, each.next_value("cluster-2"))
        assert {each.next_value(cluster) for cluster in each.servers} == {expected}
    after = first.rest.ok("GET", "/events/head")["position"] - 100
    events = first.rest.ok("GET", f"/events?after={max(0, after)}&limit=1000")["items"]
    told = {row["data"]["group"]: row["data"]["to"] for row in events if row["name"] == "GroupOffsetsReset"}
    assert {to: told[each.group] for to, each in groups.items()} == {to: to for to in groups}


@pytest.mark.nightly  # test_group_names shows and resets them by the same commands
def test_the_commands_show_and_reset_them(estate: RunningEstate, make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(20))
    groups.wait_for(20)
    at = groups.go_on_at("cluster-1", "r0015")
    shown = json.loads(estate.treeline("get", "offsets", groups.group, "--json").stdout)
    assert shown["items"] == [groups.shown("cluster-1")]
    lines = estate.treeline("get", "offsets", groups.group).stdout.splitlines()
    cells = next([cell.strip() for cell in line.split("│")] for line in lines if groups.group in line)
    assert cells[1:6] == [groups.group, groups.stream, "0", "cluster-1", str(at)]
    assert sum("applied" in line for line in lines) == len(groups.servers) - 1
    refused = estate.treeline("get", "offsets", groups.group, "--at", "3")
    assert (refused.returncode, refused.stdout) == (2, "") and "leave out --at" in refused.stderr
    reset = ("offsets", "reset", groups.stream, groups.group, "--cluster", "cluster-3", "--to", "earliest")
    assert estate.treeline(*reset, "--dry-run").returncode == 0
    assert groups.next_value("cluster-3") == "r0015"
    done = estate.treeline(*reset, "--json")
    assert done.returncode == 0, done.stderr
    groups.until_applied("cluster-3", json.loads(done.stdout)["offsets"]["0"])
    assert {groups.next_value(cluster) for cluster in groups.servers} == {"r0000"}
