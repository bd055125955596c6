"""How fast the event log is, beside PostgreSQL without it: python bench/event_log/run.py [--events N].

Starts a PostgreSQL of its own with its usual durability. The peer of a command is the same row inserted into a
bare table in one transaction, without lock, chain, projections or decision: what the database costs anyway.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(PROJECT_ROOT))

import sqlalchemy as sa  # noqa: E402
from alembic import command  # noqa: E402
from alembic.config import Config  # noqa: E402
from sqlalchemy import Engine  # noqa: E402

from backend.dispatch import Decider, Dispatcher  # noqa: E402
from backend.domain import tenant  # noqa: E402
from backend.estate.postgres import PostgresServer  # noqa: E402
from backend.eventlog.engine import create_engine  # noqa: E402
from backend.eventlog.faults import DatabaseUnavailable  # noqa: E402
from backend.eventlog.recorded import Entry, Metadata  # noqa: E402
from backend.eventlog.registry import domain_registry  # noqa: E402
from backend.eventlog.seed import seed  # noqa: E402
from backend.eventlog.store import PostgresEventLog  # noqa: E402
from backend.projections import rebuilding, tenants  # noqa: E402
from backend.projections.catalogue import PROJECTIONS  # noqa: E402

METADATA = Metadata("bench", "bench")
TIME = datetime(2026, 1, 1, tzinfo=UTC)
WRITERS = 8


@contextmanager
def postgres() -> Iterator[Engine]:
    """A migrated database on a server that ends with the block."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        server = PostgresServer(data_dir=Path(folder) / "data", port=port, password=secrets.token_hex(8))
        server.initialise()
        process = subprocess.Popen(server.command(), stderr=subprocess.DEVNULL)
        try:
            owner = create_engine(server.url("postgres"), role=None)
            while process.poll() is None:
                try:
                    with owner.connect() as connection:
                        config = Config(PROJECT_ROOT / "alembic.ini")
                        config.attributes["connection"] = connection
                        command.upgrade(config, "head")
                        connection.execute(
                            sa.text("CREATE TABLE bare (position bigserial PRIMARY KEY, data jsonb)")
                        )
                        connection.commit()
                    break
                except DatabaseUnavailable:
                    time.sleep(0.05)
            owner.dispose()
            engine = create_engine(server.url("postgres"))
            yield engine
            engine.dispose()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def per_second(what: str, count: int, work: Callable[[], object]) -> None:
    started = time.perf_counter()
    work()
    rate = count / (time.perf_counter() - started)
    print(f"{what:<62} {rate:>10,.0f} /s")


def create_tenant(dispatcher: Dispatcher, name: str) -> None:
    created = Decider(None, lambda _, command: [tenant.TenantCreated(tenant=command)], lambda state, _: state)
    dispatcher.execute(created, f"tenant-{name}", name, metadata=METADATA, time=TIME, answer=lambda *_: None)


def insert_bare(engine: Engine, name: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text("INSERT INTO bare (data) VALUES (jsonb_build_object('tenant', cast(:name AS text)))"),
            {"name": name},
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="events to seed, read, verify and fold")
    events = parser.parse_args().events
    registry = domain_registry()
    with postgres() as engine, ThreadPoolExecutor(WRITERS) as pool:
        dispatcher = Dispatcher(engine, registry, PROJECTIONS)
        count = 1000
        per_second(
            "peer: bare inserts, one writer", count, lambda: [insert_bare(engine, f"a{n}") for n in range(count)]
        )
        per_second(
            "commands with projections and chain, one writer",
            count,
            lambda: [create_tenant(dispatcher, f"a{n}") for n in range(count)],
        )
        per_second(
            f"peer: bare inserts, {WRITERS} writers",
            count,
            lambda: list(pool.map(lambda n: insert_bare(engine, f"b{n}"), range(count))),
        )
        per_second(
            f"commands with projections and chain, {WRITERS} writers",
            count,
            lambda: list(pool.map(lambda n: create_tenant(dispatcher, f"b{n}"), range(count))),
        )
        with engine.begin() as connection:
            entries = [
                Entry.of(registry, f"tenant-s{n}", tenant.TenantCreated(tenant=f"s{n}"), METADATA, TIME)
                for n in range(events)
            ]
            per_second("seeding by COPY", events, lambda: seed(connection, registry, entries))
        log = engine.connect()
        store = PostgresEventLog(log, registry)

        def read_all() -> None:
            after = 0
            while page := store.feed(after, 1000):
                after = page[-1].position

        per_second("feed, decoded", events, read_all)
        per_second("verification of the chain", events, store.verify)
        log.close()
        per_second(
            "rebuild of the tenants' projection",
            events,
            lambda: rebuilding.rebuild(engine, registry, tenants.PROJECTION),
        )


if __name__ == "__main__":
    main()
