"""The contents of /metrics: each documented metric, under its name, with its labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from backend.api.app import create_app
from backend.deciders import CLUSTER, EDGE
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.distribution.edge_losses import RecordReplacement
from backend.metrics import METRICS
from backend.queries.base.observed import leases
from backend.queries.distribution import stream_measures
from tests.postgres.webhooks.test_webhook_deliveries import ASIDE, LOSS
from tests.support.api.observations import observe
from tests.support.api.rest import Rest, rest_settings
from tests.support.api.worker_records import record
from tests.support.database.postgres import Database
from workers.distribution import task_states
from workers.distribution.task_states import TaskState

ORDERS, ITEMS = "acme/retail/prod/orders", "acme/retail/prod/items"
OTHERS = {"treeline_schema_unreadable_records", "treeline_schema_topic_read"}
"""Metrics of the registries, which a process follows; tests/kafka/schemas has them."""

LATER = sa.text("clock_timestamp() + interval '1 hour'")
"""A time in the future, so that observations count, however slow the machine is."""


def scraped(rest: Rest) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return name -> labels -> value."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(rest("GET", "./metrics").text):
        assert family.documentation
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = {tuple(sorted(each.labels.items())): each.value for each in family.samples}
    return found


def value(rest: Rest, name: str, **labels: str) -> float | None:
    return scraped(rest)[name].get(tuple(sorted(labels.items())))


def measured(database: Database, unit: str, epoch: int = 1, stream: str = ORDERS, **facts: Any) -> None:
    row = {"unit": unit, "stream": stream, "epoch": epoch, "records": 0, "bytes": 0, "passed": 0, "lag_records": 0}
    row |= {"newest_ms": None, "copied_ms": None, "latency_ms": None, "checkpoint_ms": None, **facts}
    with database.engine.begin() as connection:
        stream_measures.write(connection, [row])


def now_ms(database: Database) -> int:
    with database.engine.connect() as connection:
        return int(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp()) * 1000")).scalar_one())


@contextmanager
def telling(database: Database, **changes: Any) -> Iterator[Rest]:
    """Yield another application on the same database."""
    with TestClient(create_app(rest_settings(database.url, **changes))) as client:
        yield Rest(client)


EDGE_OF = {"source": "c1", "target": "c2", "level": "2"}
FIRST, SECOND = "distributor:c1:2:0", "distributor:c1:2:1"


def test_every_metric_is_there_as_it_is_described(tenant: Rest, database: Database) -> None:
    observe(database.engine, "c1", 2, "c2")
    at = now_ms(database)
    measured(database, FIRST, newest_ms=at, copied_ms=at, latency_ms=5, checkpoint_ms=at)
    tenant("POST", "/webhooks", {"name": "ops", "url": "https://receiver.example/", "events": ["gap"]})
    found = scraped(tenant)
    assert found.keys() == METRICS.keys() - OTHERS
    for name, samples in found.items():
        for labels in samples:
            assert {label for label, _ in labels} == set(METRICS[name].labels), name


def test_streams_are_measured_by_distributor(tenant: Rest, database: Database) -> None:
    observe(database.engine, "c1", 2, "c2", seen_at=LATER)
    at = now_ms(database)
    first = {"records": 3, "bytes": 30, "passed": 7, "newest_ms": at - 60_000, "copied_ms": at, "latency_ms": 250}
    measured(database, FIRST, **{**first, "lag_records": 4})
    second = {"records": 5, "bytes": 50, "passed": 5, "newest_ms": at - 900_000, "copied_ms": at, "latency_ms": 50}
    measured(database, SECOND, **second)
    of = {**EDGE_OF, "stream": ORDERS}
    assert value(tenant, "treeline_replication_records_total", **of) == 8
    assert value(tenant, "treeline_replication_bytes_total", **of) == 80
    assert value(tenant, "treeline_replication_offsets_total", **of) == 12
    assert value(tenant, "treeline_replication_lag_records", **of) == 4
    assert value(tenant, "treeline_replication_latency_seconds", **of) == 0.25
    age = value(tenant, "treeline_replication_record_age_seconds", **of)
    # Of the task in which records wait; time has passed since.
    assert age is not None and 60 <= age < 900
    measured(database, FIRST, **first)
    assert value(tenant, "treeline_replication_record_age_seconds", **of) == 0, "nothing waits"


def test_how_long_records_wait_is_told_with_how_long_they_may(tenant: Rest, database: Database) -> None:
    observe(database.engine, "c1", 2, "c2", lag_records=4, wait_seconds=75.5)
    observe(database.engine, "c2", 1, "c3", lag_records=None)
    assert scraped(tenant)["treeline_distributor_wait_seconds"] == {tuple(sorted(EDGE_OF.items())): 75.5}
    with telling(database, distributor_objective_seconds=20) as rest:
        assert value(rest, "treeline_distributor_objective_seconds") == 20


def test_how_old_a_copy_is_where_no_record_has_a_time_is_not_known(tenant: Rest, database: Database) -> None:
    observe(database.engine, "c1", 2, "c2", seen_at=LATER)
    measured(database, FIRST, lag_records=4)
    of = {**EDGE_OF, "stream": ORDERS}
    assert value(tenant, "treeline_replication_lag_records", **of) == 4
    assert value(tenant, "treeline_replication_record_age_seconds", **of) is None, "it is not 0: something waits"


def test_what_was_slow_before_says_nothing_of_now(tenant: Rest, database: Database) -> None:
    at, of = now_ms(database), {**EDGE_OF, "stream": ORDERS}
    measured(database, FIRST, copied_ms=at - 61_000, latency_ms=900_000)
    assert value(tenant, "treeline_replication_latency_seconds", **of) is None
    measured(database, SECOND, copied_ms=at, latency_ms=40)
    assert value(tenant, "treeline_replication_latency_seconds", **of) == 0.04
    measured(database, SECOND, epoch=2)
    assert value(tenant, "treeline_replication_latency_seconds", **of) == 0.04, "its predecessor's, still of now"
    measured(database, SECOND, epoch=2, copied_ms=at)
    assert value(tenant, "treeline_replication_latency_seconds", **of) is None, "its records had no time"


def test_a_checkpoint_is_old_only_where_records_were_copied_since(tenant: Rest, database: Database) -> None:
    at, of = now_ms(database), {**EDGE_OF, "stream": ORDERS}
    measured(database, FIRST, copied_ms=at - 9_000_000, checkpoint_ms=at - 8_999_000)
    assert value(tenant, "treeline_checkpoint_age_seconds", **of) == 0, "it is idle"
    measured(database, SECOND, copied_ms=at, checkpoint_ms=at - 7000)
    assert value(tenant, "treeline_checkpoint_age_seconds", **of) == 7


def test_counts_go_on_with_another_holder(tenant: Rest, database: Database) -> None:
    of = {**EDGE_OF, "stream": ORDERS}
    at = now_ms(database)
    for epoch, records, total in ((1, 3, 3), (1, 7, 7), (2, 2, 9), (2, 4, 11), (4, 1, 12), (2, 9, 12)):
        times = {"copied_ms": at, "latency_ms": 7} if epoch == 1 else {}
        measured(database, FIRST, epoch, records=records, bytes=10 * records, passed=records, **times)
        assert value(tenant, "treeline_replication_offsets_total", **of) == total
        assert value(tenant, "treeline_replication_records_total", **of) == total
        assert value(tenant, "treeline_replication_bytes_total", **of) == 10 * total
    assert value(tenant, "treeline_replication_latency_seconds", **of) == 0.007, "what is not known is kept"


def test_what_nobody_looks_at_has_no_lag(tenant: Rest, database: Database) -> None:
    of = {**EDGE_OF, "stream": ORDERS}
    measured(database, FIRST, lag_records=4, newest_ms=1)
    assert value(tenant, "treeline_replication_lag_records", **of) is None
    observe(database.engine, "c1", 2, "c2", lag_records=None)
    assert value(tenant, "treeline_replication_lag_records", **of) is None
    observe(database.engine, "c1", 2, "c2", lag_records=4, seen_at=LATER)
    assert value(tenant, "treeline_replication_lag_records", **of) == 4


def test_many_streams_are_told_by_distributor(tenant: Rest, database: Database) -> None:
    # Its workers go on writing, however long the scrapes take.
    observe(database.engine, "c1", 2, "c2", seen_at=LATER)
    observe(database.engine, "c2", 2, "c1")
    at = now_ms(database)
    for unit, stream, records in ((FIRST, ORDERS, 3), (SECOND, ORDERS, 4), (FIRST, ITEMS, 5)):
        measured(
            database, unit, stream=stream, records=records, lag_records=records, copied_ms=at, latency_ms=records
        )
    measured(database, "distributor:c2:2:0", records=9)
    with telling(database, metrics_most_streams=3) as rest:
        assert value(rest, "treeline_replication_by_stream") == 1
        assert value(rest, "treeline_replication_records_total", **EDGE_OF, stream=ITEMS) == 5
    for most in (2, 1):  # fewer than there are; so few that nothing needs to be counted
        with telling(database, metrics_most_streams=most) as rest:
            found = scraped(rest)
        assert found["treeline_replication_by_stream"] == {(): 0}
        whole = tuple(sorted({**EDGE_OF, "stream": ""}.items()))
        assert len(found["treeline_replication_records_total"]) == 2
        assert found["treeline_replication_records_total"][whole] == 12
        assert found["treeline_replication_lag_records"][whole] == 12
        assert found["treeline_replication_latency_seconds"][whole] == 0.005
    # A stream with an unknown lag does not hide the others.
    measured(database, FIRST, stream=ITEMS, lag_records=None)
    with telling(database, metrics_most_streams=1) as rest:
        assert value(rest, "treeline_replication_lag_records", **EDGE_OF, stream="") == 7


def test_streams_are_told_as_they_were_a_moment_ago(tenant: Rest, database: Database) -> None:
    of = {**EDGE_OF, "stream": ORDERS}
    with telling(database, metrics_keep_seconds=3600) as rest:
        for records in (3, 4):
            measured(database, FIRST, records=records)
            assert value(rest, "treeline_replication_records_total", **of) == 3
    assert value(tenant, "treeline_replication_records_total", **of) == 4


def test_rows_of_what_is_no_more_are_forgotten(tenant: Rest, database: Database) -> None:
    measured(database, FIRST, records=3)
    measured(database, SECOND, records=4)
    with database.engine.begin() as connection:
        stream_measures.forget_others(connection, [FIRST], [ORDERS])
    assert value(tenant, "treeline_replication_records_total", **EDGE_OF, stream=ORDERS) == 3
    with database.engine.begin() as connection:
        stream_measures.forget_others(connection, [FIRST], [ITEMS])
    assert scraped(tenant)["treeline_replication_records_total"] == {}


def test_waits_for_schemas_are_counted_on_while_a_task_changes_hands(tenant: Rest, database: Database) -> None:
    observe(database.engine, "c1", 2, "c2", schema_holds=4, schema_held_seconds=1.5, schema_waits_run_out=2)

    def told() -> list[float | None]:
        names = ("holds", "held_seconds", "waits_run_out")
        return [value(tenant, f"treeline_schema_{name}_total", **EDGE_OF) for name in names]

    assert told() == [8, 3.0, 4]
    with database.engine.begin() as connection:
        connection.execute(sa.delete(leases))
    assert told() == [8, 3.0, 4], "nobody has a lease"
    state = {"holder": "w:2", "state": "running", "reason": None, "target": "c2", "lag_records": 0, "position": 1}
    state |= {"records_per_second": 0.0, "copied_records": 0, "copied_bytes": 0, "unreadable_flags": 0}
    for epoch, run_out in ((2, 0), (2, 1), (1, 9)):
        with database.engine.begin() as connection:
            written = TaskState(unit=FIRST, epoch=epoch, schema_waits_run_out=run_out, **state)
            task_states.write(connection, [written])
    assert told() == [8, 3.0, 5]


def test_who_is_told_to_wait_is_told_so(tenant: Rest, database: Database) -> None:
    assert value(tenant, "treeline_distributor_paused", **EDGE_OF) == 0
    assert tenant("PATCH", "/trees/main/distributors/c1/2", {"paused": True}).status_code < 300
    assert value(tenant, "treeline_distributor_paused", **EDGE_OF) == 1


def test_a_cluster_that_answers_and_a_distributor_that_runs_are_1_and_all_others_0(
    tenant: Rest, database: Database
) -> None:
    for number, cluster in enumerate(("c1", "c2"), 1):
        command = RecordOnline(kafka_cluster_id=f"K{number}", brokers=1)
        record(database.engine, command, CLUSTER, f"cluster-{cluster}")
    told = [value(tenant, "treeline_cluster_online", cluster=name) for name in ("c1", "c2", "c3")]
    assert told == [1, 1, 0]
    for state, running in (("running", 1), ("degraded", 0), ("blocked", 0), ("starting", 0)):
        observe(database.engine, "c1", 2, "c2", state)
        assert value(tenant, "treeline_distributor_running", **EDGE_OF) == running, state


def test_leases_losses_and_deliveries(tenant: Rest, database: Database) -> None:
    for command in (LOSS, ASIDE):
        record(database.engine, replace(command, level=2), EDGE, "edge-c1-2")
    possible = RecordReplacement(
        cluster="c1",
        level=2,
        target=LOSS.target,
        stream=LOSS.stream,
        incarnation=2,
        partitions=((7, 5, 0),),
    )
    record(database.engine, possible, EDGE, "edge-c1-2")
    names = (
        "treeline_losses_unacknowledged",
        "treeline_possible_losses_unacknowledged",
        "treeline_set_aside_waiting",
    )
    for name in names:
        assert value(tenant, name, source="c1", level="2") == 1
        assert value(tenant, name, source="c2", level="2") == 0
    assert tenant("POST", "/losses/acknowledge", {"cluster": "c1", "level": 2}).status_code == 200
    assert [value(tenant, name, source="c1", level="2") for name in names] == [0, 0, 1], "a record waits on"
    assert value(tenant, "treeline_lease_held", lease="reconcile") == 0
    with database.engine.begin() as connection:
        expires_at = sa.text("clock_timestamp() + interval '1 hour'")
        row = {"unit": "reconcile", "holder": "w:1", "epoch": 1, "expires_at": expires_at}
        connection.execute(sa.insert(leases).values(row))
    assert value(tenant, "treeline_lease_held", lease="reconcile") == 1
    tenant("POST", "/webhooks", {"name": "ops", "url": "https://receiver.example/", "events": ["gap"]})
    assert value(tenant, "treeline_webhook_deliveries", webhook="ops", state="failed") == 0
