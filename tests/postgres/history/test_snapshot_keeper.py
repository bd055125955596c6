"""The worker that takes a snapshot each minute: when it runs, that it runs alone, and what follows a failure."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from backend.domain.base.errors import ClusterSilent
from backend.queries.history import snapshots
from backend.queries.history.snapshot_tables import (
    REPLICATION,
    Watched,
    looks,
    past_commits,
)
from tests.eventually import eventually
from tests.postgres.history.snapshots import commit, count, look
from tests.support.api.rest import rest_settings
from tests.support.database.postgres import Database
from workers import snapshots as keeping
from workers.snapshots import SnapshotKeeper


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def keeper(database: Database, clock: Hands, **changed: Any) -> SnapshotKeeper:
    return SnapshotKeeper(database.engine, rest_settings(database.url, **changed), clock)


def ended(worker: SnapshotKeeper) -> None:
    eventually(lambda: not worker.is_running, "the look has ended")


def test_the_worker_looks_and_then_pauses(database: Database) -> None:
    clock = Hands()
    worker = keeper(database, clock, past_every_seconds=60)
    for passes, many in ((0, 1), (59.9, 1), (0.2, 2), (0, 2), (3600, 3)):
        clock.seconds += passes
        worker.tick()
        ended(worker)
        assert count(database, looks) == many


def test_it_lets_go_of_what_is_too_much(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "FORGOTTEN_AT_ONCE", 2)
    clock = Hands()
    worker = keeper(database, clock, past_every_seconds=60, past_rows=1)
    for offset in range(7):
        commit(database, committed_offset=offset)
        look(database)
    clock.seconds += 60
    worker.tick()
    ended(worker)
    # In batches, but all of it: the one that holds, and one that has ended.
    assert count(database, past_commits) == 2


def test_a_slow_look_is_alone_and_followed_by_a_long_pause(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, go, begun = Hands(), threading.Event(), []

    def slow(_: sa.Engine) -> bool:
        begun.append(clock.seconds)
        assert go.wait(60)
        clock.seconds += 4
        return True

    monkeypatch.setattr(keeping.snapshots, "take_snapshot", slow)
    worker = keeper(database, clock, past_every_seconds=60)
    worker.tick()
    eventually(lambda: begun, "it looks")
    clock.seconds += 1000
    worker.tick()
    assert begun == [100] and worker.is_running
    clock.seconds -= 1000
    go.set()
    ended(worker)
    for passes, many in ((190, 1), (7, 2)):
        clock.seconds += passes
        worker.tick()
        ended(worker)
        assert len(begun) == many, "it began 4 s ago, and took them: the next begins after 200"


def test_a_look_that_fails_keeps_nothing_is_told_and_another_follows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(database)
    begun, failures, told, clock = (
        snapshots._begun,
        [RuntimeError("no room"), ClusterSilent("no room")],
        [],
        Hands(),
    )

    def fails(watched: Watched, now: datetime) -> sa.Insert:
        # After offsets were written; and it takes long to fail.
        if failures and watched is REPLICATION:
            clock.seconds += 30
            raise failures.pop()
        return begun(watched, now)

    monkeypatch.setattr(snapshots, "_begun", fails)
    for level in ("warning", "exception"):
        monkeypatch.setattr(keeping.log, level, lambda said, **_: told.append(said))
    worker = keeper(database, clock, past_every_seconds=60)
    for many in (0, 0, 1):
        clock.seconds += 60
        worker.tick()
        ended(worker)
        assert count(database, looks) == count(database, past_commits) == many
    assert told == ["observations not stored in the history"] * 2


def test_without_a_thread_it_tries_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = keeper(database, Hands())

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", none)
        with pytest.raises(RuntimeError):
            worker.tick()
    worker.tick()
    ended(worker)
    assert count(database, looks) == 1
