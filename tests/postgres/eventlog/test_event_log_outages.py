"""A database that is gone, full or lost in mid-commit is an error; success means that the event was saved."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from backend.dispatch import Answer, Decider, Dispatcher, IdempotencyKey
from backend.domain.base.errors import Kind
from backend.eventlog import engine as engine_module
from backend.eventlog.engine import create_engine
from backend.eventlog.faults import DatabaseUnavailable, OutcomeUnknown
from backend.queries.base import events as queries
from tests.support.database.postgres import TEMPLATE, RunningPostgres, create_database, migrate
from tests.support.database.sample_events import METADATA, TIME, Pay, decide, evolve, registry
from tests.support.machine.disks import full, needs_root, small_disk

PURSE = Decider(0, decide, evolve)


def pay(dispatcher: Dispatcher, key: str, during=lambda connection: None) -> Answer:
    def answer(connection, outcome) -> Answer:
        during(connection)
        return Answer(200, {"version": outcome.version})

    return dispatcher.execute(
        PURSE,
        "purse",
        Pay(1),
        metadata=METADATA,
        time=TIME,
        idempotency=IdempotencyKey(key, key),
        answer=answer,
    )


def count_events(engine) -> int:
    with engine.connect() as connection:
        report = queries.verification(connection)
        assert report.ok, report
        return report.events


def test_a_database_that_is_away_is_unavailable_until_it_is_back(own_postgres):
    engine = create_engine(own_postgres.url)
    dispatcher = Dispatcher(engine, registry(), ())
    pay(dispatcher, "first")
    own_postgres.kill()
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable) as refused:
            pay(dispatcher, "second")
        assert refused.value.kind is Kind.UNAVAILABLE
        assert own_postgres.server.password not in refused.value.detail
    own_postgres.start()
    assert pay(dispatcher, "second").body == {"version": 2}
    assert count_events(engine) == 2
    engine.dispose()


def test_a_database_lost_in_mid_command_saves_nothing(own_postgres):
    engine = create_engine(own_postgres.url)
    dispatcher = Dispatcher(engine, registry(), ())

    def lose_it(connection) -> None:
        own_postgres.kill()
        connection.execute(sa.text("SELECT 1"))

    with pytest.raises(DatabaseUnavailable) as refused:
        pay(dispatcher, "first", lose_it)
    assert not isinstance(refused.value, OutcomeUnknown)
    own_postgres.start()
    assert count_events(engine) == 0
    engine.dispose()


def test_a_connection_lost_before_the_commit_is_not_a_success(database):
    dispatcher = Dispatcher(database.engine, registry(), ())

    def cut(connection) -> None:
        backend = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        with database.owner.begin() as owner:
            # Returns when the backend has ended.
            owner.execute(sa.text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": backend})

    sa.event.listen(database.engine, "commit", cut, once=True)  # just before the commit is sent
    with pytest.raises(OutcomeUnknown):
        pay(dispatcher, "first")
    assert count_events(database.engine) == 0
    assert pay(dispatcher, "first").body == {"version": 1}
    assert count_events(database.engine) == 1


def test_more_requests_than_connections_are_told_to_come_back(database, monkeypatch):
    monkeypatch.setattr(engine_module, "POOL_SIZE", 1)
    monkeypatch.setattr(engine_module, "MOST_CONNECTIONS", 1)
    monkeypatch.setattr(engine_module, "CONNECT_TIMEOUT_SECONDS", 0.05)
    small = create_engine(database.url)
    with small.connect(), pytest.raises(DatabaseUnavailable, match="Too many"):
        pay(Dispatcher(small, registry(), ()), "first")
    small.dispose()


class SwallowingProxy:
    """Forwards to PostgreSQL; on command, it delivers the next message and drops the reply to it."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.swallow = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._upstream))
            for pair in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_reply: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if is_reply and self.swallow.is_set():
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_a_commit_whose_reply_is_lost_is_unknown_and_its_repeat_adds_nothing(database, postgres):
    proxy = SwallowingProxy(postgres.server.port)
    lossy = create_engine(make_url(database.url).set(port=proxy.port))
    sa.event.listen(lossy, "commit", lambda _: proxy.swallow.set())
    with pytest.raises(OutcomeUnknown):
        pay(Dispatcher(lossy, registry(), ()), "first")
    # It was saved: the worst case. The caller does not know, and repeats the request.
    assert count_events(database.engine) == 1
    repeated = pay(Dispatcher(database.engine, registry(), ()), "first")
    assert repeated.body == {"version": 1}
    assert count_events(database.engine) == 1
    lossy.dispose()
    proxy.close()


@needs_root
def test_a_full_disk_is_unavailable_and_never_a_false_success(tmp_path):
    with small_disk(tmp_path / "disk", megabytes=120) as disk:
        _fill(disk)


def _fill(disk: Path) -> None:
    running = RunningPostgres(disk / "data", options={"max_wal_size": "32MB"})
    running.start()
    create_database(running.server, TEMPLATE)
    migrate(running.url)
    engine = create_engine(running.url)
    dispatcher = Dispatcher(engine, registry(), ())
    answered, refused = [], []

    def attempt(key: str) -> None:
        try:
            answered.append(pay(dispatcher, key).body["version"])
        except DatabaseUnavailable as error:
            refused.append(error)

    attempt("before")
    with full(disk):
        number = 0
        while len(refused) < 3:
            attempt(f"during-{number}")
            number += 1
            # Fills the rest of the log's segment, so that the next commit needs a new one.
            _write_ahead(engine)
    running.kill()  # a PANIC may have ended it already; either way it is restarted
    running.start()
    saved_while_refused = count_events(engine) - len(answered)
    assert answered == sorted(set(answered))
    assert 0 <= saved_while_refused <= sum(isinstance(error, OutcomeUnknown) for error in refused)
    attempt("after")
    assert len(answered) >= 2
    engine.dispose()
    running.kill()


def _write_ahead(engine) -> None:
    rows = "INSERT INTO projection_checkpoints SELECT md5(random()::text), 1 FROM generate_series(1, 20000)"
    with suppress(DatabaseUnavailable), engine.begin() as connection:
        connection.execute(sa.text(rows))
