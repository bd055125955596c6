"""Groups whose clusters lag, and whose worker is killed: no unseen record is skipped anywhere."""

from __future__ import annotations

import time

import pytest

from backend.domain.offsets import offset_map
from tests.eventually import eventually
from tests.support.estate.groups import MAP_TOPIC, Groups, Made, numbered, on_a_stream, path_of
from tests.support.kafka.topics import read_all

NO_OFFSET = -1001


@pytest.fixture
def make_groups(place):
    made = []

    def make(mode, partitions=1):
        made.append(on_a_stream(place.rest, place.servers, mode, partitions))
        return made[-1]

    yield make
    for groups in made:
        groups.delete()


@pytest.mark.nightly
def test_a_margin_that_would_skip_a_record_does_not(make_groups: Made):
    groups = make_groups("margin")
    now = int(time.time() * 1000)
    groups.pause("cluster-4", True)
    try:
        groups.produce("cluster-4", numbered(10, 9000), timestamp=now - 300_000)
        groups.produce("cluster-1", numbered(200), timestamp=now)
        groups.wait_for(210, "cluster-4")
        at = groups.offset_of("cluster-1", "r0199") + 1
        groups.commit("cluster-1", at)
        applied = groups.until_applied("cluster-1", at, 0, "applied", "cluster-4", "cluster-2")
    finally:
        groups.pause("cluster-4", False)
    assert groups.next_value("cluster-4") == "r9000", "made there 300 s ago, and never seen by the group"
    assert applied["cluster-4"]["re_read_bound"] == 200
    assert groups.next_value("cluster-2") == "r0000", "60 s before the last one: all of them"
    assert applied["cluster-2"]["re_read_bound"] >= 200, "markers count, since nobody has looked which they are"


@pytest.mark.nightly
def test_the_offset_rises_as_a_target_catches_up(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(5))
    groups.wait_for(5)
    # Records of cluster-2 reach cluster-5 on this route only; progress made on cluster-1 takes another one.
    groups.pause("cluster-2", True, level=3)
    try:
        groups.produce("cluster-2", numbered(40, 5))
        groups.wait_for(45, "cluster-1")
        at = groups.offset_of("cluster-1", "r0030")
        groups.commit("cluster-1", at)
        row = eventually(lambda: groups.applied("cluster-1", "cluster-5"), "cluster-5 does what it can", 0.2)
        assert row["settled"] is False and row["re_read_bound"] >= 25
        assert groups.next_value("cluster-5") is None
    finally:
        groups.pause("cluster-2", False, level=3)
    groups.until_applied("cluster-1", at)
    assert {groups.next_value(each) for each in groups.servers} == {"r0030"}


@pytest.mark.nightly
def test_progress_leaves_the_map_of_a_cluster_that_was_away_when_the_stream_was_deleted(place, make_groups: Made):
    groups, other = make_groups("exact"), make_groups("exact")
    for each, cluster in ((groups, "cluster-3"), (other, "cluster-1")):
        each.produce(cluster, numbered(5))
        each.wait_for(5)
    groups.go_on_at("cluster-3", "r0003")
    assert on_the_map(groups, "cluster-3")[-1] is not None
    place.link("refuse", "cluster-3")
    groups.delete()
    # Once this is processed, the deletion was known, and cluster-3 could not be notified.
    other.commit("cluster-1", other.offset_of("cluster-1", "r0003"))
    eventually(lambda: other.shown("cluster-1"), "commits elsewhere are translated meanwhile", 0.2)
    place.heal()
    eventually(lambda: on_the_map(groups, "cluster-3")[-1] is None, "it is taken back", 0.5)
    eventually(lambda: groups.shown("cluster-3") is None, "and not shown any more", 0.2)


@pytest.mark.nightly
def test_an_idle_group_is_found_though_the_worker_is_killed_when_its_stream_becomes_known(
    place, make_groups: Made
):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(20))
    groups.wait_for(20)
    at = groups.go_on_at("cluster-1", "r0010")
    groups.rest.ok("PATCH", path_of(groups.place), {"distributed": False})
    eventually(lambda: groups.shown("cluster-1") is None, "nothing is carried over", 0.2)
    groups.rest.ok("PATCH", path_of(groups.place), {"distributed": True})
    for pause in (0.5, 1.0, 2.0, 4.0):  # before, while and after it is read again
        time.sleep(pause)
        place.kill("worker:offsets")
    groups.until_applied("cluster-1", at)
    assert {groups.next_value(each) for each in groups.servers} == {"r0010"}, "without another commit"


@pytest.mark.nightly
def test_what_a_deleted_group_had_made_elsewhere_before_stays_away_though_the_worker_is_killed(
    place, make_groups: Made
):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(20))
    groups.wait_for(20)
    other = groups.another()
    for each in (groups, other):
        each.go_on_at("cluster-2", "r0005")
        each.go_on_at("cluster-1", "r0010")
    groups.delete_group("cluster-1")
    eventually(lambda: groups.shown("cluster-1") is None, "it is listed no more", 0.2)
    place.kill("worker:offsets")
    other.delete_group("cluster-1")
    place.kill("worker:offsets")
    eventually(lambda: other.shown("cluster-1") is None, "nor is the other one", 0.2)
    another = groups.another()
    another.go_on_at("cluster-1", "r0015")
    time.sleep(3)  # time enough to do wrong
    for each in (groups, other):
        assert each.stands("cluster-1")[0] == NO_OFFSET
        assert {each.next_value(cluster) for cluster in ("cluster-2", "cluster-3")} == {"r0010"}
    # A group that continues where its offset was deleted is followed again.
    groups.go_on_at("cluster-1", "r0012")
    assert {groups.next_value(cluster) for cluster in groups.servers} == {"r0012"}


def on_the_map(groups: Groups, cluster: str) -> list[object]:
    """Return what a cluster's map topic has recorded about a group's progress there, in order."""
    said = []
    for message in read_all(groups.servers[cluster], MAP_TOPIC):
        whose, where = offset_map.decode_key(message.key())
        if (whose.stream_name, whose.group, where) == (groups.stream, groups.group, cluster):
            said.append(None if message.value() is None else offset_map.decode_value(message.value()))
    return said


@pytest.mark.nightly
def test_commits_while_the_worker_is_killed(place, make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(400))
    groups.wait_for(400)
    every = [groups, *(groups.another() for _ in range(4))]
    for number in range(100):
        # The group alternates between two clusters; its worker is killed in between, twice.
        n, cluster = number // 5, ("cluster-1", "cluster-3")[number // 5 % 2]
        every[number % 5].commit(cluster, groups.offset_of(cluster, f"r{n * 20:04}"))
        if number % 50 == 20:
            place.kill("worker:offsets")
    last = groups.offset_of("cluster-3", "r0380")
    for each in every:
        each.until_applied("cluster-3", last)
        assert {each.next_value(cluster) for cluster in each.servers} == {"r0380"}
