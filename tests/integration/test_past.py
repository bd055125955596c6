"""What looks see of what is observed: written down as it changes, found again, and let go of when it is old."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.domain.errors import ClusterSilent
from backend.eventlog.engine import create_engine
from backend.projections.clusters import clusters
from backend.queries import past
from backend.queries.observed import cluster_replication
from backend.queries.offset_tables import applied_offsets, group_commits, groups_not_followed
from backend.queries.offsets import CommitRow, Wanted, list_offsets
from backend.queries.past import Look, look_before
from backend.queries.past_offsets import list_commits, list_not_followed
from backend.queries.past_tables import WATCHED, looks, past_applied, past_commits
from backend.queries.replication import find_replication_then, keep_health, keep_reason
from tests.database_fixture import Content, Database
from tests.eventually import eventually
from tests.integration.conftest import rest_settings
from workers import past as keeping
from workers.past import PastKeeper

STREAM = "acme/retail/prod/orders"
ALL = Wanted(limit=1000)


def three_clusters(database_url: str) -> None:
    engine = create_engine(database_url)
    known = {"topic_format": "t", "group_format": "g", "subject_format": "s", "properties": {}, "state": "online"}
    rows = [
        {"name": f"c{n}", "number": n, "bootstrap_servers": "b", "version": 1, "valid_from": n, **known}
        for n in (1, 2, 3)
    ]
    with engine.begin() as connection:
        connection.execute(sa.insert(clusters), rows)
    engine.dispose()


@pytest.fixture
def database_content() -> Content:
    return three_clusters


def commit(database: Database, group: str = "billing", cluster: str = "c1", **changed: Any) -> None:
    """What a group has committed by itself, in the place of what it had."""
    row = {
        "cluster": cluster,
        "stream": STREAM,
        "partition": 0,
        "group": group,
        "technical_group": f"acme-{group}",
        "committed_offset": 10,
        "committed_at_ms": 1_700_000_000_000,
        "published_at_ms": 1_700_000_000_000,
        **changed,
    }
    t = group_commits.c
    with database.engine.begin() as connection:
        connection.execute(sa.delete(group_commits).where(t.group == group, t.cluster == cluster))
        connection.execute(sa.insert(group_commits).values(row))


def applied(database: Database, cluster: str, offset: int, **changed: Any) -> None:
    """What was set for it elsewhere."""
    row = {
        "cluster": cluster,
        "stream": STREAM,
        "partition": 0,
        "group": "billing",
        "technical_group": "acme-billing",
        "state": "applied",
        "origin_cluster": "c1",
        "generation": 1,
        "committed_at_ms": 1_700_000_000_000,
        "offset": offset,
        "mode": "exact",
        **changed,
    }
    with database.engine.begin() as connection:
        connection.execute(sa.delete(applied_offsets).where(applied_offsets.c.cluster == cluster))
        connection.execute(sa.insert(applied_offsets).values(row))


def look(database: Database) -> Look:
    """A look; what it saw is found by what is given back."""
    with database.engine.begin() as connection:
        assert past.take(connection)
        at = connection.execute(sa.select(sa.func.max(looks.c.at))).scalar_one()
    return Look(at=at, moment=at)


def seen(database: Database, at: Look, wanted: Wanted = ALL) -> list[tuple[str, str, int, list[tuple[str, Any]]]]:
    with database.engine.connect() as connection:
        rows = list_commits(connection, wanted, at)
    return [
        (row.group, row.cluster, row.committed_offset, [(each.cluster, each.offset) for each in row.elsewhere])
        for row in rows
    ]


def count(database: Database, table: sa.Table) -> int:
    with database.engine.connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


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
        keep_health(connection, "K1", {"partitions": 3, "declared_topics": {"a": {}}})
    for _ in range(3):
        look(database)
    # Published anew, and other topics: nothing of it is kept.
    commit(database, published_at_ms=1_800_000_000_000)
    with database.engine.begin() as connection:
        keep_health(connection, "K1", {"partitions": 3, "declared_topics": {"b": {}}})
    look(database)
    assert [count(database, each.past) for each in WATCHED] == [1, 1, 0, 1] and count(database, looks) == 4


def test_replication_and_groups_that_are_not_followed(database: Database) -> None:
    row = {"cluster": "c1", "technical_group": "x", "topic": "t", "reason": "no stream", "seen_at": sa.func.now()}
    with database.engine.begin() as connection:
        connection.execute(sa.insert(groups_not_followed).values(row))
        keep_health(connection, "K1", {"partitions": 3, "declared_topics": {}})
    first = look(database)
    with database.engine.begin() as connection:
        connection.execute(sa.update(groups_not_followed).values(reason="another"))
        keep_reason(connection, "K1", "it does not answer")
    second = look(database)
    with database.engine.begin() as connection:
        connection.execute(sa.delete(groups_not_followed))
        connection.execute(sa.delete(cluster_replication))
    third = look(database)
    with database.engine.connect() as connection:
        reasons = [[each.reason for each in list_not_followed(connection, 9, at)] for at in (first, second, third)]
        found = [find_replication_then(connection, "K1", at) for at in (first, second, third)]
        nothing = find_replication_then(connection, "K1", None), find_replication_then(connection, None, first)
    assert reasons == [["no stream"], ["another"], []]
    assert [(each.health, each.reason) for each in found] == [
        ({"partitions": 3}, None),
        ({"partitions": 3}, "it does not answer"),
        (None, None),
    ]
    assert {(each.health, each.age_seconds, each.reason) for each in nothing} == {(None, None, None)}


def test_the_look_of_a_moment_is_the_newest_before_it(database: Database) -> None:
    first, second = look(database), look(database)
    with database.engine.connect() as connection:
        at = look_before(connection, second.at - timedelta(microseconds=1))
        assert at is not None and at.at == first.at and at.seconds_before >= 0
        later = look_before(connection, second.at + timedelta(seconds=5))
        assert later is not None and later.at == second.at and later.seconds_before == 5
        assert look_before(connection, first.at - timedelta(seconds=1)) is None
        assert look_before(connection, None) is None
        assert past.oldest_look(connection) == first.at


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
    with database.engine.begin() as one, database.engine.begin() as other:
        assert past.take(one) and not past.take(other)
    assert count(database, past_commits) == 1 and count(database, looks) == 1


def test_what_is_too_old_goes_in_pieces(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "FORGOTTEN_AT_ONCE", 2)
    for offset in range(6):
        commit(database, committed_offset=offset)
        last = look(database)
    with database.engine.begin() as connection:
        for table, columns in ((past_commits, ("since", "until")), (looks, ("at",))):
            earlier = {name: table.c[name] - timedelta(hours=3) for name in columns}
            connection.execute(sa.update(table).values(earlier))
    late = look(database)

    def forget() -> tuple[bool, int]:
        with database.engine.begin() as connection:
            return past.forget(connection, hours=2, most_rows=100), count(database, past_commits)

    # Five rows had ended before; the sixth still holds, and is what the look that is left saw.
    assert [forget()[0] for _ in range(3)] == [True, True, False]
    assert count(database, past_commits) == 1 and count(database, looks) == 1
    assert seen(database, late) == [("billing", "c1", 5, [])] and late.at > last.at - timedelta(hours=3)


def test_the_oldest_go_where_they_are_too_many(database: Database) -> None:
    at = []
    for offset in range(10):
        commit(database, committed_offset=offset)
        at.append(look(database))
    with database.engine.begin() as connection:
        assert not past.forget(connection, hours=2, most_rows=3)
        assert past.oldest_look(connection) == at[6].at
    # Three that have ended, and the one that holds: all that the looks that are left saw.
    assert count(database, past_commits) == 4 and count(database, looks) == 4
    assert [seen(database, each)[0][2] for each in at[6:]] == [6, 7, 8, 9]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "end", "apply", "forget"]),
        st.sampled_from(["billing", "audit"]),
        st.sampled_from(["c1", "c2"]),
        st.integers(0, 3),
    ),
    max_size=8,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, min_size=1, max_size=4))
def test_a_look_sees_what_the_page_of_now_showed(database: Database, rounds: list[list[Any]]) -> None:
    with database.engine.begin() as connection:
        for table in (group_commits, applied_offsets, looks, past_commits, past_applied):
            connection.execute(sa.delete(table))
    showed = []
    for steps in rounds:
        for what, group, cluster, number in steps:
            if what == "apply":
                applied(database, cluster, number, origin_cluster="c2" if cluster == "c1" else "c1", group=group)
            elif what == "forget":
                with database.engine.begin() as connection:
                    connection.execute(sa.delete(group_commits).where(group_commits.c.group == group))
            else:
                commit(database, group, cluster, committed_offset=number, is_ended=what == "end")
        with database.engine.connect() as connection:
            now: list[CommitRow] = [*list_offsets(connection, ALL)]
        showed.append((look(database), now))
    for at, now in showed:
        with database.engine.connect() as connection:
            then = list_commits(connection, ALL, at)
        assert [vars(each) for each in then] == [
            {name: vars(each)[name] for name in vars(then[0])} for each in now
        ]


# --- the worker


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def keeper(database: Database, clock: Hands, **changed: Any) -> PastKeeper:
    return PastKeeper(database.engine, rest_settings(database.url, **changed), clock)


def ended(worker: PastKeeper) -> None:
    eventually(lambda: not worker.is_looking, "the look has ended")


def test_the_worker_looks_and_then_pauses(database: Database) -> None:
    clock = Hands()
    worker = keeper(database, clock, past_every_seconds=60)
    for passes, many in ((0, 1), (59.9, 1), (0.2, 2), (0, 2), (3600, 3)):
        clock.seconds += passes
        worker.tick()
        ended(worker)
        assert count(database, looks) == many


def test_it_lets_go_of_what_is_old_once_an_hour(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "FORGOTTEN_AT_ONCE", 2)
    clock = Hands()
    worker = keeper(database, clock, past_every_seconds=60, past_rows=1)
    for offset, kept in ((0, 1), (1, 2), (2, 3), (3, 4)):
        commit(database, committed_offset=offset)
        clock.seconds += 60
        worker.tick()
        ended(worker)
        assert count(database, past_commits) == kept
    clock.seconds += 3600
    worker.tick()
    ended(worker)
    # In pieces, but all of it: the one that holds, and one that has ended.
    assert count(database, past_commits) == 2 and count(database, looks) == 3


def test_a_slow_look_is_alone_and_followed_by_a_long_pause(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, go, begun = Hands(), threading.Event(), []

    def slow(_: sa.Connection) -> bool:
        begun.append(clock.seconds)
        assert go.wait(60)
        clock.seconds += 4
        return True

    monkeypatch.setattr(keeping.past, "take", slow)
    worker = keeper(database, clock, past_every_seconds=60)
    worker.tick()
    eventually(lambda: begun, "it looks")
    clock.seconds += 1000
    worker.tick()
    assert begun == [100] and worker.is_looking
    clock.seconds -= 1000
    go.set()
    ended(worker)
    for passes, many in ((190, 1), (7, 2)):
        clock.seconds += passes
        worker.tick()
        ended(worker)
        assert len(begun) == many, "it began 4 s ago, and took them: the next begins after 200"


def test_a_look_that_fails_is_told_and_another_follows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, failures, told = past.take, [RuntimeError("no room"), ClusterSilent("no room")], []

    def fails(connection: sa.Connection) -> bool:
        # What it has written by then is not kept.
        assert take(connection)
        if failures:
            raise failures.pop()
        return True

    monkeypatch.setattr(keeping.past, "take", fails)
    for level in ("warning", "exception"):
        monkeypatch.setattr(keeping.log, level, lambda said, **_: told.append(said))
    clock = Hands()
    worker = keeper(database, clock, past_every_seconds=60)
    for many in (0, 0, 1):
        clock.seconds += 60
        worker.tick()
        ended(worker)
        assert count(database, looks) == many
    assert told == ["what is observed is not kept"] * 2
