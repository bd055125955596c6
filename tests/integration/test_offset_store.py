"""What translator and committers write down, in a real database."""

from __future__ import annotations

import pytest

from backend.domain.committing import OwnCommit
from backend.domain.log_index import Prefix
from workers.offsets import store

STREAM = "acme/retail/prod/orders"
COMMIT = {
    "partition": 0, "group": "app", "technical_group": "t", "committed_offset": 5, "committed_at_ms": 7,
    "timestamp_ms": None, "safe_timestamp_ms": None, "vector": {"1": [1, 4]}, "published_at_ms": 1,
    "whole": True, "incarnation": 3, "broker_ms": 6,
}  # fmt: skip
APPLIED = {
    "partition": 0, "group": "app", "technical_group": "t", "state": "waiting", "reason": "r",
    "origin_cluster": "c2", "generation": 1, "committed_at_ms": 9, "offset": 3, "mode": "exact",
    "re_read_bound": 0, "settled": True, "applied_at_ms": 1, "incarnation": 1, "set_for_ms": 8,
}  # fmt: skip


@pytest.fixture
def connection(database):
    with database.engine.begin() as found:
        yield found


def test_what_came_before_a_commit(connection):
    store.write_commits(connection, [{"cluster": "c1", "stream": STREAM, **COMMIT}])
    store.write_applied(connection, [{"cluster": "c1", "stream": STREAM, **APPLIED}])
    whose, other = store.follower(STREAM, 0, "app"), store.follower(STREAM, 1, "app")
    # Of the one that was set: what is known of a newer one is not what stood there.
    assert store.read_orders(connection, "c1", [whose, other]) == {whose: (OwnCommit(5, 7, 6), 8)}
    assert store.read_orders(connection, "c2", [whose]) == {}
    assert store.read_orders(connection, "c1", []) == {}


def test_what_groups_committed_tells_of_a_logs_beginning(connection):
    for group, offset, incarnation in (("app", 5, 3), ("other", 9, 3), ("old", 7, 2)):
        row = {**COMMIT, "group": group, "committed_offset": offset, "incarnation": incarnation}
        store.write_commits(connection, [{"cluster": "c1", "stream": STREAM, **row}])
    at_5, at_9 = (Prefix(offset=offset, seen={1: (1, 4)}) for offset in (5, 9))
    assert store.read_prefixes(connection, ("c1", STREAM, 0), 3, 20) == [at_9, at_5]
    assert store.read_prefixes(connection, ("c1", STREAM, 0), 3, 8) == [at_5]
    assert store.read_prefixes(connection, ("c1", STREAM, 1), 3, 20) == []


def test_streams_and_clusters_that_are_no_more_are_forgotten(connection):
    gone = "acme/retail/prod/gone"
    for cluster, stream in (("c1", STREAM), ("c1", gone), ("c3", STREAM)):
        store.write_commits(connection, [{"cluster": cluster, "stream": stream, **COMMIT}])
        store.write_applied(connection, [{"cluster": cluster, "stream": stream, **APPLIED}])
        store.write_positions(connection, cluster, "k", {0: 5})
        store.write_not_followed(connection, [(cluster, "g", "t", "r")])
    others = store.read_followers_of_others(connection, [STREAM])
    assert others == [("c1", store.follower(gone, 0, "app"), "t")]
    store.keep(connection, [STREAM], ["c1", "c2"])
    assert store.read_followers_of_others(connection, [STREAM]) == others, "until they are taken back from the map"
    assert store.read_followers_of_others(connection, [gone]) == [("c1", store.follower(STREAM, 0, "app"), "t")]
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
