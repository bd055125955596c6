"""Throughput of the event log compared with bare PostgreSQL: python bench/event_log/run.py [--events N].

Starts a PostgreSQL of its own with its usual durability, and prints a Markdown table. The peer of a command is the
same row inserted into a bare table in one transaction, without lock, chain, projections or decision: the cost of
the database alone. The peer of a rebuild and of recording many outcomes at once is to do it one by one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(PROJECT_ROOT), str(PROJECT_ROOT / "bench")]

import history  # noqa: E402  beside this file
import sqlalchemy as sa  # noqa: E402
from history import METADATA, TIME  # noqa: E402
from local_postgres import postgres  # noqa: E402
from sqlalchemy import Connection, Engine  # noqa: E402

from backend import deciders  # noqa: E402
from backend.dispatch import Directed, Dispatcher  # noqa: E402
from backend.domain.tenants import stream_records, tenant_commands  # noqa: E402
from backend.eventlog.bulk_load import bulk_load  # noqa: E402
from backend.eventlog.registry import domain_registry  # noqa: E402
from backend.eventlog.store import PostgresEventLog  # noqa: E402
from backend.projections import rebuilding, runner, streams  # noqa: E402
from backend.projections.catalogue import PROJECTIONS  # noqa: E402

WRITERS = 8
COMMANDS = 1000
ROW_BY_ROW_EVENTS = 5000  # enough to measure its rate
STREAMS = 200
AT_ONCE = 500  # as workers/topics/recording.py


def bare_table(connection: Connection) -> None:
    """Create the table of the peer."""
    connection.execute(sa.text("CREATE TABLE bare (position bigserial PRIMARY KEY, data jsonb)"))


def per_second(what: str, count: int, work: Callable[[], object]) -> None:
    started = time.perf_counter()
    work()
    rate = count / (time.perf_counter() - started)
    print(f"| {what} | {rate:,.0f} /s |", flush=True)


def create_tenant(dispatcher: Dispatcher, name: str) -> None:
    command = tenant_commands.CreateTenant(tenant=name)
    dispatcher.execute(deciders.TENANT, f"tenant-{name}", command, metadata=METADATA, time=TIME, answer=no_answer)


def no_answer(*_: object) -> None:
    """Return nothing: commands of the bench have no answer."""


def insert_bare(engine: Engine, name: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text("INSERT INTO bare (data) VALUES (jsonb_build_object('tenant', cast(:name AS text)))"),
            {"name": name},
        )


def commands(engine: Engine, dispatcher: Dispatcher) -> None:
    numbers = range(COMMANDS)
    with ThreadPoolExecutor(WRITERS) as pool:
        for writers, run, mark in ((1, map, "a"), (WRITERS, pool.map, "b")):
            bare = partial(insert_bare, engine)
            per_second(
                f"peer: bare inserts, writers: {writers}",
                COMMANDS,
                lambda: deque(run(bare, [f"{mark}{n}" for n in numbers]), 0),  # noqa: B023  called at once
            )
            create = partial(create_tenant, dispatcher)
            per_second(
                f"commands with chain and projections, writers: {writers}",
                COMMANDS,
                lambda: deque(run(create, [f"{mark}{n}" for n in numbers]), 0),  # noqa: B023  called at once
            )


def recording(dispatcher: Dispatcher) -> None:
    """Declare 200 streams, for which the reconcile loop records the topics of five clusters."""
    place = {"instance": "main", "environment": "prod"}
    for name, at_once in (("one", 1), ("many", AT_ONCE)):
        setting_up = [
            tenant_commands.CreateTenant(tenant=name),
            tenant_commands.CreateInstance(instance="main", known_trees=frozenset({"main"})),
            tenant_commands.CreateEnvironment(**place),
            *(tenant_commands.DeclareStream(**place, stream=f"s{n}") for n in range(STREAMS)),
        ]
        outcomes = [
            stream_records.RecordApplied(
                **place, stream=f"s{n}", cluster=cluster, topic_id=f"{n}-{cluster}", replication_factor=3
            )
            for n in range(STREAMS)
            for cluster in history.CLUSTERS
        ]

        def record(these: Sequence[object], stream: str = f"tenant-{name}") -> None:
            directed = [Directed(deciders.TENANT, stream, each, METADATA) for each in these]
            dispatcher.execute_many(directed, time=TIME)

        record(setting_up)
        what = "one a transaction" if at_once == 1 else f"{at_once} a transaction"
        per_second(
            f"{'peer: ' if at_once == 1 else ''}topics recorded ({STREAMS} streams, 5 clusters), {what}",
            len(outcomes),
            lambda: [record(outcomes[n : n + at_once]) for n in range(0, len(outcomes), at_once)],  # noqa: B023
        )


def reading(engine: Engine, events: int) -> None:
    with engine.connect() as connection:
        store = PostgresEventLog(connection, domain_registry())

        def read_all() -> None:
            after = 0
            while page := store.feed(after, 1000):
                after = page[-1].position

        per_second("feed, decoded", events, read_all)
        per_second("verification of the chain", events, store.verify)


def projecting(engine: Engine, dispatcher: Dispatcher, events: int) -> None:
    registry = domain_registry()

    def add(first_tenant: int, count: int) -> None:
        with engine.begin() as connection:
            bulk_load(connection, registry, history.entries(registry, first_tenant, count))

    def catch_up() -> None:
        with engine.begin() as connection:
            runner.catch_up(connection, registry, PROJECTIONS)

    together = runner.BATCH_EVENTS
    for first, what in ((0, "peer: streams and topics projected row by row"), (100, "the same in batches")):
        add(first, ROW_BY_ROW_EVENTS)
        runner.BATCH_EVENTS = together if first else events
        per_second(what, ROW_BY_ROW_EVENTS, catch_up)
    runner.BATCH_EVENTS = together
    add(1000, events - 2 * ROW_BY_ROW_EVENTS)
    rebuild = partial(rebuilding.rebuild, engine, registry, streams.PROJECTION)
    per_second("rebuild of streams and topics, rows missing", events, rebuild)
    per_second("rebuild of streams and topics, rows sound", events, rebuild)
    dispatcher.catch_up()
    with ThreadPoolExecutor(1) as pool:
        rebuilding_now = pool.submit(rebuild)
        waits = []
        while not rebuilding_now.done():
            started = time.perf_counter()
            create_tenant(dispatcher, f"meanwhile-{len(waits)}")
            waits.append(time.perf_counter() - started)
    print(f"| longest wait of {len(waits)} commands during a rebuild | {max(waits) * 1000:,.0f} ms |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="events to seed, read, verify and fold")
    events = parser.parse_args().events
    registry = domain_registry()
    print(f"| event log, {events:,} events | figure |\n|---|---:|")
    with postgres(bare_table) as engine:
        dispatcher = Dispatcher(engine, registry, PROJECTIONS)
        commands(engine, dispatcher)
        recording(dispatcher)
        with engine.connect() as connection:
            entries = list(history.entries(registry, 0, events))
            per_second("seeding by COPY", events, lambda: bulk_load(connection, registry, entries))
            connection.rollback()
        projecting(engine, dispatcher, events)
        reading(engine, events)


if __name__ == "__main__":
    main()
