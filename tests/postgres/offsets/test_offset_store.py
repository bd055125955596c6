"""Tables of translator and committers, in a real database."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from backend.domain.offsets.commit_rules import OwnCommit
from backend.domain.records.log_index import Prefix
from workers.distribution import checkpoints
from workers.offsets import store
from workers.offsets.store import LastKnown

STREAM = "acme/retail/prod/orders"
COMMIT = {
    "partition": 0, "group": "app", "technical_group": "t", "committed_offset": 5, "committed_at_ms": 7,
    "timestamp_ms": None, "safe_timestamp_ms": None, "vector": {"1": [1, 4]}, "published_at_ms": 1,
    "whole": True, "incarnation": 3, "broker_ms": 6, "topic_incarnation": 2, "is_ended": False,
    "kafka_cluster_id": "k", "read_at": 11,
}  # fmt: skip
APPLIED = {
    "partition": 0, "group": "app", "technical_group": "t", "state": "waiting", "reason": "r",
    "origin_cluster": "c2", "generation": 1, "committed_at_ms": 9, "offset": 3, "mode": "exact",
    "re_read_bound": 0, "settled": True, "applied_at_ms": 1, "incarnation": 1, "set_for_ms": 8,
    "progress_digest": "d",
}  # fmt: skip


@pytest.fixture
def connection(database):
    with database.engine.begin() as found:
        yield found


def test_what_came_before_a_commit(connection):
    store.write_commits(connection, [{"cluster": "c1", "stream": STREAM, **COMMIT}])
    store.write_applied(connection, [{"cluster": "c1", "stream": STREAM, **APPLIED}])
    whose, other = store.group_partition(STREAM, 0, "app"), store.group_partition(STREAM, 1, "app")
    # Values of the offset that was set: what is known of a newer commit was not applied.
    assert store.read_orders(connection, "c1", "k", [whose, other]) == {whose: (OwnCommit(5, 7, 6, 11), 8)}
    elsewhere = store.read_orders(connection, "c1", "another Kafka", [whose])
    assert elsewhere == {whose: (OwnCommit(5, 7, 6), 8)}, "its log has other places"
    assert store.read_orders(connection, "c2", "k", [whose]) == {}
    assert store.read_orders(connection, "c1", "k", []) == {}


def test_what_was_known_of_an_offset_that_is_gone(connection):
    whose, other = store.group_partition(STREAM, 0, "app"), store.group_partition(STREAM, 1, "app")

    def commit(cluster, at, **more):
        row = {"cluster": cluster, "stream": STREAM, **COMMIT, "committed_at_ms": at, **more}
        store.write_commits(connection, [row])

    def known(cluster="c1"):
        return store.read_last_known(connection, cluster, "k", [whose, other])

    def last(own, topic_incarnation, lives_elsewhere):
        return {whose: LastKnown(own=own, topic_incarnation=topic_incarnation, lives_elsewhere=lives_elsewhere)}

    assert known() == {}
    store.write_applied(connection, [{"cluster": "c1", "stream": STREAM, **APPLIED, "incarnation": 5}])
    assert known() == last(None, 5, False)
    commit("c1", 7)
    commit("c3", 7, partition=1)
    assert known() == last(OwnCommit(5, 7, 6, 11), 5, False)
    commit("c2", 8)
    assert known() == last(OwnCommit(5, 7, 6, 11), 5, True)
    assert known("c2") == last(OwnCommit(5, 8, 6, 11), 2, True)
    store.end_commits(connection, [("c2", STREAM, 0, "app")])
    assert not known()[whose].lives_elsewhere, "what has ended itself is nothing to be afraid of"
    commit("c2", 7)
    assert known()[whose].lives_elsewhere, "the group has committed there again"


def test_ends_are_cleared_up_with_the_last_progress(connection):
    places = [(cluster, STREAM, 0, "app") for cluster in ("c1", "c2")]
    for cluster, stream, _, _ in places:
        store.write_commits(connection, [{"cluster": cluster, "stream": stream, **COMMIT}])
    store.end_commits(connection, places[:1])
    assert store.read_orphaned_ends(connection, 10) == []
    store.forget_commits(connection, places[1:])
    (found,) = store.read_orphaned_ends(connection, 10)
    assert (found.cluster, found.technical_group, found.is_ended) == ("c1", "t", True)


@pytest.mark.nightly  # the others write a few rows by the same statements
def test_however_many_there_are_at_once(connection):
    """PostgreSQL refuses some 10,000 keys as a list."""
    groups = [f"app{number}" for number in range(20_000)]
    group_partitions = [store.group_partition(STREAM, 0, group) for group in groups]
    places = [("c1", STREAM, 0, group) for group in groups]
    row = {"cluster": "c1", "stream": STREAM, **COMMIT}
    store.write_commits(connection, [{**row, "group": group} for group in groups])
    applied = {"cluster": "c1", "stream": STREAM, **APPLIED}
    store.write_applied(connection, [{**applied, "group": group} for group in groups])
    store.write_not_followed(connection, [("c1", group, "t", "r") for group in groups])
    assert len(store.read_orders(connection, "c1", "k", group_partitions)) == 20_000
    assert len(store.read_last_known(connection, "c1", "k", group_partitions)) == 20_000
    assert store.read_marks(connection, {("c1", f"{STREAM}{n}", 0): 1 for n in range(20_000)}) == {}
    store.end_commits(connection, places)
    store.forget_not_followed(connection, [("c1", group, "t") for group in groups])
    assert store.read_not_followed(connection) == []
    assert len(store.read_orphaned_ends(connection, 30_000)) == 20_000
    store.forget_commits(connection, places)
    store.forget_applied(connection, places)
    assert store.read_last_known(connection, "c1", "k", group_partitions) == {}
    assert checkpoints.read(connection, "c1", [(f"{STREAM}{n}", 0) for n in range(40_000)]) == {}


def test_what_a_whole_reading_did_not_find_is_listed_no_more(connection):
    store.write_not_followed(connection, [("c1", "gone", "t", "r"), ("c2", "gone", "t", "r")])
    since = datetime.now(UTC)
    store.write_not_followed(connection, [("c1", "there", "t", "r")])
    store.forget_unseen(connection, "c1", since)
    assert sorted(store.read_not_followed(connection)) == [("c1", "there", "t"), ("c2", "gone", "t")]


def test_what_groups_committed_tells_of_a_logs_beginning(connection):
    for group, offset, incarnation in (("app", 5, 3), ("other", 9, 3), ("old", 7, 2)):
        row = {**COMMIT, "group": group, "committed_offset": offset, "incarnation": incarnation}
        store.write_commits(connection, [{"cluster": "c1", "stream": STREAM, **row}])
    at_5, at_9 = (Prefix(offset=offset, seen={1: (1, 4)}) for offset in (5, 9))
    found = store.read_prefixes(connection, ("c1", STREAM, 0), 3, 20)
    assert sorted(found, key=lambda each: each.offset) == [at_5, at_9]
    assert store.read_prefixes(connection, ("c1", STREAM, 0), 3, 8) == [at_5]
    assert store.read_prefixes(connection, ("c1", STREAM, 1), 3, 20) == []


def test_streams_and_clusters_that_are_no_more_are_forgotten(connection):
    gone = "acme/retail/prod/gone"
    for cluster, stream in (("c1", STREAM), ("c1", gone), ("c3", STREAM)):
        store.write_commits(connection, [{"cluster": cluster, "stream": stream, **COMMIT}])
        store.write_applied(connection, [{"cluster": cluster, "stream": stream, **APPLIED}])
        store.write_positions(connection, cluster, "k", {0: 5})
        store.write_not_followed(connection, [(cluster, "g", "t", "r")])

    def others(members=("c1", "c2")):
        found = store.read_progress_of_others(connection, [STREAM], members)
        return sorted((each.cluster, each.group_partition.stream_name) for each in found)

    before = [("c1", gone), ("c3", STREAM)]
    assert others() == before and others(["c1", "c2", "c3"]) == before[:1]
    store.keep(connection, [STREAM], ["c1", "c2"])
    assert others() == before, "until they are taken back from the map"
    assert len(store.read_applied(connection, "c1")) == 2, "what its committer holds is its own to forget"
    assert store.read_applied(connection, "c3") == []
    assert (store.read_positions(connection, "c1", "k"), store.read_positions(connection, "c3", "k")) == (
        {0: 5},
        {},
    )
    assert store.read_not_followed(connection) == [("c1", "g", "t")]


@pytest.mark.parametrize("name", ["x" * 9_000, "a\0b", "\ud800", "line\nbreak", "x" * 250])
def test_a_group_of_any_name_can_be_listed(connection, name):
    other = name + "!"
    store.write_not_followed(
        connection, [("c1", name, "t", "first"), ("c1", other, "t", "r"), ("c1", name, "t", "r")]
    )
    names = [group for _, group, _ in store.read_not_followed(connection)]
    assert len(set(names)) == 2 and all(each.isprintable() and len(each) < 300 for each in names)
    store.forget_not_followed(connection, [("c1", name, "t")])
    assert [group for _, group, _ in store.read_not_followed(connection)] == [store.shown_group(other)]
