"""Snapshots of observations: changes are stored, found again, and deleted when they are old."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.queries.base.observed import cluster_replication
from backend.queries.history import snapshots
from backend.queries.history.snapshot_offsets import list_commits, list_not_followed
from backend.queries.history.snapshot_tables import (
    COMMITS,
    WATCHED,
    Watched,
    looks,
    past_applied,
    past_commits,
    past_replication,
)
from backend.queries.history.snapshots import Snapshot, snapshot_before
from backend.queries.offsets.offset_tables import applied_offsets, group_commits, groups_not_followed
from backend.queries.offsets.offsets import CommitRow, Wanted, list_offsets
from backend.queries.replication.replication import find_past_replication, store_failure, store_health
from tests.postgres.history.snapshots import ALL, STREAM, applied, commit, count, look, seen
from tests.support.database.postgres import Database


def test_each_look_is_found_as_it_was(database: Database) -> None:
    first = look(database)
    commit(database)
    applied(database, "c2", 9)
    second = look(database)
    commit(database, committed_offset=20)
    applied(database, "c2", 18)
    applied(database, "c3", 17)
    commit(database, "audit", "c2", committed_offset=5)
    third = look(database)
    commit(database, committed_offset=20, is_ended=True)
    fourth = look(database)
    commit(database, committed_offset=30)
    fifth = look(database)
    assert seen(database, first) == []
    assert seen(database, second) == [("billing", "c1", 10, [("c2", 9)])]
    both = [("c2", 18), ("c3", 17)]
    assert seen(database, third) == [("billing", "c1", 20, both), ("audit", "c2", 5, [])]
    assert seen(database, fourth) == [("audit", "c2", 5, [])]
    assert seen(database, fifth) == [("billing", "c1", 30, both), ("audit", "c2", 5, [])]
    for wanted in (Wanted(group="audit", limit=9), Wanted(cluster="c2", limit=9)):
        assert seen(database, third, wanted) == [("audit", "c2", 5, [])]
    behind = Wanted(after=("c1", STREAM, 0, "billing"), limit=9)
    assert seen(database, third, behind) == [("audit", "c2", 5, [])]
    assert seen(database, third, Wanted(limit=1)) == [("billing", "c1", 20, both)]
    assert seen(database, third, Wanted(tenants={"globex"}, limit=9)) == []


def test_what_is_as_it_was_is_not_written_again(database: Database) -> None:
    commit(database)
    applied(database, "c2", 9, reason=None, re_read_bound=None)
    with database.engine.begin() as connection:
        store_health(connection, "K1", {"partitions": 3, "declared_topics": {"a": {}}})
    for _ in range(3):
        look(database)
    # Published again, and other topics: nothing of it is stored.
    commit(database, published_at_ms=1_800_000_000_000)
    with database.engine.begin() as connection:
        store_health(connection, "K1", {"partitions": 3, "declared_topics": {"b": {}}})
    look(database)
    assert [count(database, each.past) for each in WATCHED] == [1, 1, 0, 1] and count(database, looks) == 4


def test_replication_and_groups_that_are_not_followed(database: Database) -> None:
    row = {"cluster": "c1", "technical_group": "x", "topic": "t", "reason": "no stream", "seen_at": sa.func.now()}
    with database.engine.begin() as connection:
        connection.execute(sa.insert(groups_not_followed).values(row))
        store_health(connection, "K1", {"partitions": 3, "declared_topics": {}})
    first = look(database)
    with database.engine.begin() as connection:
        connection.execute(sa.update(groups_not_followed).values(reason="another"))
        store_failure(connection, "K1", "it does not answer")
    second = look(database)
    with database.engine.begin() as connection:
        connection.execute(sa.delete(groups_not_followed))
        connection.execute(sa.delete(cluster_replication))
    third = look(database)
    with database.engine.connect() as connection:
        reasons = [[each.reason for each in list_not_followed(connection, 9, at)] for at in (first, second, third)]
        found = [find_past_replication(connection, "K1", at) for at in (first, second, third)]
        nothing = find_past_replication(connection, "K1", None), find_past_replication(connection, None, first)
    assert reasons == [["no stream"], ["another"], []]
    assert [(each.health, each.reason) for each in found] == [
        ({"partitions": 3}, None),
        ({"partitions": 3}, "it does not answer"),
        (None, None),
    ]
    assert {(each.health, each.age_seconds, each.reason) for each in nothing} == {(None, None, None)}


def test_how_old_replication_was_is_told_at_the_moment(database: Database) -> None:
    hours = sa.update(cluster_replication).values(seen_at=sa.func.now() - timedelta(hours=5))
    with database.engine.begin() as connection:
        store_health(connection, "K1", {"partitions": 3, "declared_topics": {}})
    fresh = look(database)
    with database.engine.begin() as connection:
        connection.execute(hours)
    stale = look(database)
    with database.engine.begin() as connection:
        store_failure(connection, "K1", "it does not answer")
    away = look(database)

    def age(at: Snapshot) -> float | None:
        with database.engine.connect() as connection:
            found = find_past_replication(
                connection, "K1", Snapshot(at=at.at, moment=at.at + timedelta(seconds=7))
            )
        return found.age_seconds and round(found.age_seconds)

    assert age(fresh) == 7 and (age(stale) or 0) >= 5 * 3600 and (age(away) or 0) >= 5 * 3600
    for _ in range(2):
        look(database)
    assert count(database, past_replication) == 3


def test_a_group_is_found_by_what_it_was_called_there(database: Database) -> None:
    commit(database, technical_group="old-billing")
    before = look(database)
    commit(database, technical_group="new-billing")
    after = look(database)
    found = {
        (name, at.at): [each[0] for each in seen(database, at, Wanted(group=name, limit=9))]
        for name in ("old-billing", "new-billing", "billing")
        for at in (before, after)
    }
    assert found == {
        ("old-billing", before.at): ["billing"],
        ("old-billing", after.at): [],
        ("new-billing", before.at): [],
        ("new-billing", after.at): ["billing"],
        ("billing", before.at): ["billing"],
        ("billing", after.at): ["billing"],
    }


def test_the_look_of_a_moment_is_the_newest_before_it(database: Database) -> None:
    first, second = look(database), look(database)
    with database.engine.connect() as connection:
        at = snapshot_before(connection, second.at - timedelta(microseconds=1))
        assert at is not None and at.at == first.at and at.seconds_before >= 0
        later = snapshot_before(connection, second.at + timedelta(seconds=5))
        assert later is not None and later.at == second.at and later.seconds_before == 5
        assert snapshot_before(connection, first.at - timedelta(seconds=1)) is None
        assert snapshot_before(connection, None) is None
        assert snapshots.oldest_snapshot(connection) == first.at


def test_a_clock_that_goes_back_mixes_nothing_up(database: Database) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    with database.engine.begin() as connection:
        connection.execute(sa.insert(looks).values(at=ahead))
    commit(database)
    first = look(database)
    commit(database, committed_offset=20)
    second = look(database)
    assert ahead < first.at < second.at
    assert [seen(database, each)[0][2] for each in (first, second)] == [10, 20]


def test_two_never_look_at_the_same_time(database: Database) -> None:
    commit(database)
    with database.engine.begin() as other:
        assert other.scalar(sa.select(snapshots._LOCK))
        assert not snapshots.take_snapshot(database.engine)
    assert count(database, past_commits) == 0 and count(database, looks) == 0
    assert snapshots.take_snapshot(database.engine)


def test_what_changes_while_it_looks_is_seen_by_the_next_look(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a concurrent change: one group returns, another one ends, between two statements of a snapshot."""
    commit(database)
    commit(database, "audit")
    look(database)
    commit(database, is_ended=True)
    look(database)
    begun = snapshots._begun

    def changed(watched: Watched, now: datetime) -> sa.Insert:
        if watched is COMMITS:
            commit(database, committed_offset=20)
            commit(database, "audit", is_ended=True)
        return begun(watched, now)

    monkeypatch.setattr(snapshots, "_begun", changed)
    third = look(database)
    monkeypatch.setattr(snapshots, "_begun", begun)
    fourth = look(database)
    assert seen(database, third) == [("audit", "c1", 10, [])]
    assert seen(database, fourth) == [("billing", "c1", 20, [])]


def test_what_is_too_old_goes_in_pieces(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "FORGOTTEN_AT_ONCE", 2)
    for offset in range(6):
        commit(database, committed_offset=offset)
        last = look(database)
    with database.engine.begin() as connection:
        for table, columns in ((past_commits, ("since", "until")), (looks, ("at",))):
            earlier = {name: table.c[name] - timedelta(hours=3) for name in columns}
            connection.execute(sa.update(table).values(earlier))
    late = look(database)

    def forget() -> int:
        snapshots.forget(database.engine, hours=2, most_rows=100)
        return count(database, past_commits)

    # Five rows had ended before; the sixth still holds, and belongs to the remaining snapshot.
    monkeypatch.setattr(snapshots, "MOST_PIECES", 1)
    assert [forget() for _ in range(4)] == [4, 2, 1, 1] and count(database, looks) == 1
    assert seen(database, late) == [("billing", "c1", 5, [])] and late.at > last.at - timedelta(hours=3)


def test_the_oldest_go_where_they_are_too_many(database: Database) -> None:
    at = []
    for offset in range(10):
        commit(database, committed_offset=offset)
        at.append(look(database))
    snapshots.forget(database.engine, hours=2, most_rows=3)
    with database.engine.connect() as connection:
        assert snapshots.oldest_snapshot(connection) == at[6].at
    # Three that have ended, and the one that holds: the content of the remaining snapshots.
    assert count(database, past_commits) == 4 and count(database, looks) == 4
    assert [seen(database, each)[0][2] for each in at[6:]] == [6, 7, 8, 9]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "end", "apply", "gone"]),
        st.sampled_from(["billing", "audit"]),
        st.sampled_from(["c1", "c2"]),
        st.integers(0, 3),
    ),
    max_size=8,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, min_size=1, max_size=4), st.sampled_from([1, 3, 100]))
def test_a_look_sees_what_the_page_of_now_showed(database: Database, rounds: list[list[Any]], rows: int) -> None:
    with database.engine.begin() as connection:
        for table in (group_commits, applied_offsets, looks, past_commits, past_applied):
            connection.execute(sa.delete(table))
    showed = []
    for steps in rounds:
        for what, group, cluster, number in steps:
            if what == "apply":
                applied(database, cluster, number, origin_cluster="c2" if cluster == "c1" else "c1", group=group)
            elif what == "gone":
                with database.engine.begin() as connection:
                    connection.execute(sa.delete(group_commits).where(group_commits.c.group == group))
            else:
                name = {
                    "committed_at_ms": 1_700_000_000_000 + number // 2,
                    "technical_group": f"{group}-{number % 2}",
                }
                commit(database, group, cluster, committed_offset=number, is_ended=what == "end", **name)
        with database.engine.connect() as connection:
            now: list[CommitRow] = [*list_offsets(connection, ALL)]
        showed.append((look(database), now))
        # Only rows that no remaining snapshot contains.
        snapshots.forget(database.engine, hours=1, most_rows=rows)
    with database.engine.connect() as connection:
        oldest = snapshots.oldest_snapshot(connection)
    assert oldest is not None
    showed = [(at, now) for at, now in showed if at.at >= oldest]
    for at, now in showed:
        with database.engine.connect() as connection:
            then = list_commits(connection, ALL, at)
            for name in ("billing", "billing-0", "billing-1", "audit-0", "nobody"):
                found = list_commits(connection, replace(ALL, group=name), at)
                assert found == [each for each in then if name in (each.group, each.technical_group)]
        assert [vars(each) for each in then] == [
            {name: vars(each)[name] for name in vars(then[0])} for each in now
        ]
