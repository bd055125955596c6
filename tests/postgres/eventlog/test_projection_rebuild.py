"""A rebuild gives the rows of live projection, repairs what differs, and lets commands go on meanwhile."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import alembic.command
import pytest
import sqlalchemy as sa
from alembic.config import Config

from backend import deciders
from backend.dispatch import Decider, Dispatcher
from backend.domain.base.errors import DomainError
from backend.domain.clusters.cluster import ClusterAdded, ClusterCameOnline, ClusterRemoved, ClusterWentOffline
from backend.domain.tenants.tenant import TenantCreated
from backend.domain.tenants.tenant_commands import CreateTenant
from backend.domain.topics.replica_defaults import ClusterDefaultsSet, ReplicaDefaults
from backend.eventlog.bulk import copy_rows
from backend.eventlog.bulk_load import bulk_load
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.recorded import Entry
from backend.eventlog.registry import domain_registry
from backend.eventlog.store import PostgresEventLog
from backend.projections import rebuilding, runner, tenants
from backend.projections.catalogue import PROJECTIONS
from backend.projections.clusters import clusters
from backend.projections.memory_rows import MemoryRows
from backend.queries.clusters.clusters import list_clusters
from tests.nightly import some_now
from tests.support.database import histories
from tests.support.database.postgres import PROJECT_ROOT, Database
from tests.support.database.sample_events import METADATA, TIME

REGISTRY = domain_registry()
TABLES = [table for projection in PROJECTIONS for table in projection.tables]


def record(database: Database, history) -> None:
    entries = [Entry.of(REGISTRY, stream, event, METADATA, TIME) for stream, event in history]
    with database.engine.begin() as connection:
        bulk_load(connection, REGISTRY, entries)


def project_one_by_one(database: Database) -> None:
    """Project as commands do it: every change on the connection, none in a batch."""
    with pytest.MonkeyPatch.context() as patch, database.engine.begin() as connection:
        patch.setattr(runner, "BATCH_EVENTS", 1 << 62)
        runner.catch_up(connection, REGISTRY, PROJECTIONS)


def forget(database: Database) -> None:
    with database.engine.begin() as connection:
        for table in TABLES:
            connection.execute(sa.delete(table))
        runner.set_checkpoints(connection, PROJECTIONS, 0)


def rebuild_all(database: Database) -> set[int]:
    return {rebuilding.rebuild(database.engine, REGISTRY, projection) for projection in PROJECTIONS}


def every_row(database: Database) -> dict[str, list[Any]]:
    with database.engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key))]
            for table in TABLES
        }


def head(database: Database) -> int:
    with database.engine.connect() as connection:
        return PostgresEventLog(connection, REGISTRY).head().position


def places(database: Database) -> set[int]:
    with database.engine.connect() as connection:
        return set(runner.positions(connection, PROJECTIONS).values())


@some_now("number", (0, 1, 3, 6), now=(1,))  # histories that fill every table
def test_a_rebuild_of_any_history_gives_the_live_rows(database, number):
    record(database, histories.events(number, 600))
    project_one_by_one(database)
    live = every_row(database)
    assert all(live.values())
    forget(database)
    assert rebuild_all(database) == places(database) == {head(database)}
    assert every_row(database) == live


@some_now("page_events", [10, 64, 1000], now=(1,))
def test_a_batch_of_any_history_gives_the_live_rows(database, monkeypatch, page_events):
    record(database, histories.events(page_events, 400))
    project_one_by_one(database)
    live = every_row(database)
    forget(database)
    monkeypatch.setattr(runner, "PAGE_EVENTS", page_events)
    with database.engine.begin() as connection:
        runner.catch_up(connection, REGISTRY, PROJECTIONS)
    assert every_row(database) == live
    assert places(database) == {head(database)}


def test_an_upgrade_gives_clusters_the_defaults_before_that_a_rebuild_gives(database):
    def added(name, number):
        return f"cluster-{name}", ClusterAdded(
            name=name, number=number, bootstrap_servers="b:9092", zone=None, topic_format="", group_format="",
            subject_format="", properties={}, kafka_cluster_id=None, brokers=None,
        )  # fmt: skip

    def default(name, factor):
        return f"cluster-{name}", ClusterDefaultsSet(replication_factor=factor, min_insync_replicas=None)

    gone, back, removed = (
        ("cluster-c1", event)
        for event in (
            ClusterWentOffline(reason="gone"),
            ClusterCameOnline(kafka_cluster_id="k", brokers=3),
            ClusterRemoved(),
        )
    )
    first = [added("c1", 1), back, default("c1", 2), gone, back, default("c1", 1), gone, default("c1", 2), back]
    again = [removed, added("c2", 2), added("c1", 3), back, default("c1", 3), gone, default("c2", 1)]
    record(database, [*first, *again, default("c1", None), back])
    project_one_by_one(database)
    live = every_row(database)["clusters"]
    with database.owner.connect() as connection:
        config = Config(PROJECT_ROOT / "alembic.ini")
        config.attributes["connection"] = connection
        alembic.command.downgrade(config, "0043_possible_losses")
        alembic.command.upgrade(config, "head")
        connection.commit()
    assert every_row(database)["clusters"] == live
    forget(database)
    rebuild_all(database)
    assert every_row(database)["clusters"] == live
    with database.engine.connect() as connection:
        known = {row.name: row for row in list_clusters(connection)}
    assert known["c1"].defaults_before == ReplicaDefaults(replication_factor=3)
    assert known["c2"].defaults_before == ReplicaDefaults()


def test_a_rebuild_puts_right_what_is_missing_too_much_or_different(database):
    record(database, histories.events(7, 400))
    project_one_by_one(database)
    live, source = every_row(database), random.Random(7)
    with database.engine.begin() as connection:
        for table in TABLES:
            for row in connection.execute(sa.select(table).order_by(*table.primary_key)).all():
                itself = sa.and_(
                    *(table.c[column.name] == row._mapping[column.name] for column in table.primary_key)
                )
                match source.choice(("delete", "end", "double", "leave")):
                    case "delete":
                        connection.execute(sa.delete(table).where(itself))
                    case "end":
                        connection.execute(sa.update(table).where(itself).values(valid_to=10_000))
                    case "double":
                        other = {**row._mapping, "valid_from": row.valid_from + 5000, "valid_to": 9000}
                        connection.execute(sa.insert(table).values(other))
    assert every_row(database) != live
    rebuild_all(database)
    assert every_row(database) == live


def test_a_rebuild_writes_nothing_where_nothing_differs(database):
    record(database, histories.events(8, 200))
    project_one_by_one(database)

    def versions() -> list[Any]:
        with database.engine.connect() as connection:
            written_by = sa.select(clusters.c.name, clusters.c.valid_from, sa.literal_column("xmin::text"))
            return list(connection.execute(written_by.order_by(clusters.c.name, clusters.c.valid_from)))

    before = versions()
    rebuild_all(database)
    assert versions() == before


def test_commands_are_saved_while_a_rebuild_folds_and_are_part_of_it(database):
    """The command inside `apply` would wait for ever if the rebuild held the append lock there."""
    dispatcher = Dispatcher(database.engine, REGISTRY, PROJECTIONS)
    create(dispatcher, "acme")

    def apply_amid_commands(rows, recorded):
        if isinstance(rows, MemoryRows):
            create(dispatcher, f"{recorded.event.tenant}-too")
        tenants.PROJECTION.apply(rows, recorded)

    assert (
        rebuilding.rebuild(database.engine, REGISTRY, replace(tenants.PROJECTION, apply=apply_amid_commands)) > 1
    )
    assert [row[0] for row in every_row(database)["tenants"]] == ["acme", "acme-too"]
    assert places(database) == {head(database)}


def test_commands_that_come_after_the_fold_are_part_of_the_rebuild(database, monkeypatch):
    dispatcher = Dispatcher(database.engine, REGISTRY, PROJECTIONS)
    create(dispatcher, "acme")
    copied = rebuilding.copy_rows

    def copy_amid_commands(connection, table, rows):
        copied(connection, table, rows)
        create(dispatcher, f"after-{table.name.replace('_', '-')}")

    monkeypatch.setattr(rebuilding, "copy_rows", copy_amid_commands)
    rebuilding.rebuild(database.engine, REGISTRY, tenants.PROJECTION)
    rebuilt = every_row(database)
    assert len(rebuilt["tenants"]) == 1 + len(tenants.PROJECTION.tables)
    forget(database)
    project_one_by_one(database)
    assert every_row(database) == rebuilt


def test_rebuilds_among_many_writers_lose_nothing_and_refuse_nobody(database):
    """Four writers run beside rebuilds of every projection; no command is asked to retry."""
    record(database, histories.events(9, 300))
    project_one_by_one(database)
    dispatcher = Dispatcher(database.engine, REGISTRY, PROJECTIONS)
    done = threading.Event()

    def write(number: int) -> int:
        saved = 0
        source = random.Random(number)
        for _, (decider, stream, command) in zip(range(80), histories.commands(source), strict=False):
            try:
                saved += len(execute(dispatcher, decider, stream, command).events)
            except DatabaseUnavailable:
                raise
            except DomainError:
                continue
        return saved

    def rebuild_until_done() -> int:
        rounds = 0
        while not done.is_set() or rounds == 0:
            rebuild_all(database)
            rounds += 1
        return rounds

    before = head(database)
    with ThreadPoolExecutor(6) as pool:
        rebuilders = [pool.submit(rebuild_until_done) for _ in range(2)]
        try:
            saved = sum(pool.map(write, range(4)))
        finally:
            done.set()
        assert all(rebuilder.result() for rebuilder in rebuilders)
    assert saved > 40
    assert head(database) == before + saved
    assert places(database) == {head(database)}
    after = every_row(database)
    forget(database)
    project_one_by_one(database)
    assert every_row(database) == after


def test_a_restored_log_is_projected_by_rebuilds(database, monkeypatch):
    monkeypatch.setattr(runner, "PAGE_EVENTS", 50)
    rebuilt = []
    rebuild = rebuilding.rebuild
    monkeypatch.setattr(rebuilding, "rebuild", lambda *args: rebuilt.append(args[2].name) or rebuild(*args))
    dispatcher = Dispatcher(database.engine, REGISTRY, PROJECTIONS)
    record(database, histories.events(10, 300))
    dispatcher.catch_up()
    assert rebuilt == [projection.name for projection in PROJECTIONS]
    after = every_row(database)
    record(database, [("tenant-late", TenantCreated(tenant="late"))])
    dispatcher.catch_up()
    assert len(rebuilt) == len(PROJECTIONS), "one event more is applied, not a reason to fold all"
    assert len(every_row(database)["tenants"]) == len(after["tenants"]) + 1
    assert places(database) == {head(database)}


def test_a_database_that_goes_away_during_a_copy_is_unavailable(database):
    def rows():
        yield ("acme", 1, 1, None)
        with database.owner.begin() as other:
            other.execute(sa.text("SELECT pg_terminate_backend(:process)"), {"process": process})
        for number in range(200_000):
            yield (f"t{number}", 1, 2, None)

    with pytest.raises(DatabaseUnavailable), database.engine.connect() as connection:
        process = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
        copy_rows(connection, tenants.tenants, rows())


def create(dispatcher: Dispatcher, name: str) -> None:
    execute(dispatcher, deciders.TENANT, f"tenant-{name}", CreateTenant(tenant=name))


def execute(dispatcher: Dispatcher, decider: Decider[Any, Any], stream: str, command: Any):
    return dispatcher.execute(
        decider, stream, command, metadata=METADATA, time=TIME, answer=lambda _, outcome: outcome
    )
