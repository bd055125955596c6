"""Locks that outlast calls to external systems, on a real PostgreSQL."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from sqlalchemy import text

from backend.cluster_requests.offset_lock import setting_offsets
from backend.cluster_requests.replay import replay
from backend.cluster_requests.resetting import Wish, reset
from backend.domain.base.errors import ClusterSilent
from backend.domain.names.names import StreamName
from backend.domain.topics.replica_defaults import ReplicaDefaults
from backend.eventlog import held_lock
from backend.eventlog.engine import create_engine
from backend.eventlog.held_lock import LockBusy, LockLost
from backend.queries.clusters.clusters import ClusterRow
from tests.eventually import eventually
from tests.support.database.postgres import Database

IDLE_MS = 200
NAME = "offsets c1"
ENDED = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
LIMITS = ("lock_timeout", "statement_timeout", "idle_session_timeout")


@pytest.fixture
def engine(database: Database):
    """Return an engine for which PostgreSQL ends a transaction that is idle for 0.2 s."""
    made = create_engine(database.url, idle_in_transaction_timeout_ms=IDLE_MS)
    yield made
    made.dispose()


def take(engine, wait_seconds: float = 0.2) -> int:
    with held_lock.hold(engine, NAME, wait_seconds=wait_seconds) as lock:
        return lock.epoch


def test_a_holder_that_is_busy_elsewhere_for_longer_than_transactions_may_be_idle_stays_alone(engine):
    with held_lock.hold(engine, NAME, wait_seconds=1) as lock:
        time.sleep(3 * IDLE_MS / 1000)
        with pytest.raises(LockBusy, match="has held the lock 'offsets c1' for more than"):
            take(engine)
        lock.check()
    assert take(engine) == lock.epoch + 1


def test_a_holder_whose_connection_has_ended_is_refused_and_its_successor_has_a_higher_epoch(engine, database):
    with held_lock.hold(engine, NAME, wait_seconds=1) as lock:
        lock.check()
        with database.owner.connect() as other:
            other.execute(text(ENDED))
        with held_lock.hold(engine, NAME, wait_seconds=5) as successor:
            assert successor.epoch == lock.epoch + 1
            for _ in range(2):  # also when SQLAlchemy would open another connection
                with pytest.raises(LockLost, match=rf"epoch {lock.epoch}\) was lost"):
                    lock.check()
            successor.check()


def test_a_holder_that_stands_still_loses_the_lock_after_its_life(engine):
    with held_lock.hold(engine, NAME, wait_seconds=1, held_seconds=0.3) as lock:
        assert take(engine, wait_seconds=20) == lock.epoch + 1
        with pytest.raises(LockLost):
            lock.check()


def test_checks_keep_the_lock_for_longer_than_its_life(engine):
    with held_lock.hold(engine, NAME, wait_seconds=1, held_seconds=2) as lock:
        for _ in range(8):
            time.sleep(0.4)
            lock.check()
        with pytest.raises(LockBusy):
            take(engine)


def test_a_higher_epoch_counts_also_where_a_pooler_gave_the_session_away(engine, database):
    with held_lock.hold(engine, NAME, wait_seconds=1) as lock:
        with database.engine.begin() as other:
            other.execute(text("UPDATE held_locks SET epoch = epoch + 1"))
        with pytest.raises(LockLost):
            lock.check()


def test_the_connection_goes_back_with_the_usual_limits(engine):
    def limits() -> list[str]:
        with engine.connect() as connection:
            return [connection.execute(text(f"SHOW {name}")).scalar_one() for name in LIMITS]

    usual = limits()
    with pytest.raises(RuntimeError), held_lock.hold(engine, NAME, wait_seconds=1):
        raise RuntimeError("what was done under the lock has failed")
    assert limits() == usual and engine.pool.checkedout() == 0
    assert take(engine) == 2


@pytest.fixture
def silent_cluster():
    """Accept connections without ever answering."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        yield ClusterRow(
            name="c1", number=1, bootstrap_servers=f"127.0.0.1:{port}", zone=None, properties={}, state="online",
            topic_format="{stream}", group_format="{group}", subject_format="{subject}", reason=None,
            kafka_cluster_id=None, brokers=1, version=1, position=1, defaults=ReplicaDefaults(),
            defaults_before=ReplicaDefaults(),
        )  # fmt: skip


@pytest.mark.nightly  # the lock outlasts calls in the other tests; a mutant of it is caught by test_closing
def test_nobody_else_sets_offsets_while_a_reset_waits_for_its_cluster(engine, silent_cluster):
    wish = Wish(
        cluster=silent_cluster, stream=StreamName("acme", "retail", "prod", "orders"), topic="orders", group="g",
        partitions=(0,), to="earliest",
    )  # fmt: skip
    waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted"
    with ThreadPoolExecutor(1) as thread:
        resetting = thread.submit(reset, engine, wish, {0: 0})
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as looking:
            eventually(lambda: looking.execute(text(waits)).scalar(), "the reset asks the cluster")
        time.sleep(3 * IDLE_MS / 1000)
        with pytest.raises(LockBusy), setting_offsets(engine, "c1", 1.0):
            pass
        assert not resetting.done(), "it still waits for the cluster"
        with pytest.raises(ClusterSilent):
            resetting.result()
    with setting_offsets(engine, "c1", 1.0) as lock:
        lock.check()


def test_two_replays_of_a_stream_take_turns(engine, monkeypatch):
    """Without the lock both would find the record missing, and both would write it."""
    monkeypatch.setattr("backend.cluster_requests.replay._WAIT_SECONDS", 0.2)
    row = SimpleNamespace(origin=(1, 0, 5), stream="acme/retail/prod/orders")
    with held_lock.hold(engine, f"replay {row.stream}", wait_seconds=1), pytest.raises(LockBusy):
        replay(engine, None, row, {}, 1, "quarantine")
