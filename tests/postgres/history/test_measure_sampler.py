"""The worker that samples measures each minute, over the rows that other workers and nodes leave."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from backend.deciders import CLUSTER
from backend.domain.base.errors import ClusterSilent
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.offsets.observed_group import GroupPartition
from backend.queries.base.observed import cluster_replication, zone_router_nodes
from backend.queries.history import measure_sources, measure_writing, measures
from backend.queries.history.measure_tables import measure_samples
from backend.queries.offsets.group_store import store_groups
from backend.queries.offsets.group_tables import observed_groups
from backend.queries.offsets.observed_groups import group_row
from backend.queries.replication.replication import store_health, store_sizes
from tests.eventually import eventually
from tests.postgres.history.sampling import ids, rows
from tests.support.api.observations import observe
from tests.support.api.rest import Rest, rest_settings
from tests.support.api.streams import worker_records
from tests.support.database.postgres import Database
from tests.support.zones.zone_reports import report
from workers import measure_sampler
from workers.measure_sampler import MeasureSampler

HEALTH = {
    "conditions": {"under_replicated": {"count": 4}, "without_leader": {"count": 1}},
    "brokers": [{"id": 1, "leaders": 7, "replicas": 9}],
}


class Hands:
    """A clock that is set by hand, for the worker and for the database's minutes."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=30)

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(measure_writing, "database_time", lambda _: hands.minute + timedelta(seconds=15))
    return hands


def worker(database: Database, clock: Hands, **changed: Any) -> MeasureSampler:
    return MeasureSampler(database.engine, rest_settings(database.url, **changed), clock)


def run(sampler: MeasureSampler) -> None:
    sampler.tick()
    eventually(lambda: not sampler.is_running, "the sample has been taken")


def newest(database: Database) -> dict[tuple[str, str], float | None]:
    """Return the values of the newest sample of each series."""
    at = rows(database, 60)[-1][0]
    found: dict[tuple[str, str], float | None] = {}
    with database.engine.connect() as connection:
        values = connection.execute(sa.select(measure_samples.c["values"]).where(measure_samples.c.at == at))
        row: list[float | None] = values.scalar_one()
        for series, number in _series(connection).items():
            found[series] = row[number] if number < len(row) else None
    return found


def _series(connection: sa.Connection) -> Mapping[tuple[str, str], int]:
    numbers = sa.text("SELECT metric, subject, id FROM measure_series")
    return {(row.metric, row.subject): row.id for row in connection.execute(numbers)}


def group(name: str, lag: int, cluster: str = "c1") -> Any:
    offset = GroupPartition(
        topic="acme-retail-prod-orders",
        stream="acme/retail/prod/orders",
        partition=0,
        lag_records=lag,
        records_per_second=2.5,
    )
    return group_row(
        cluster=cluster,
        technical_group=name,
        group=None,
        place=None,
        state="Stable",
        protocol="classic",
        members=(),
        partitions=[offset],
        observed_at=datetime.now(UTC),
    )


def test_values_are_those_of_edges_groups_clusters_brokers_and_zones(
    grown: Rest, database: Database, clock: Hands
) -> None:
    worker_records(grown, RecordOnline(kafka_cluster_id="K1", brokers=1), CLUSTER, "cluster-c1")
    worker_records(grown, RecordOnline(kafka_cluster_id="K2", brokers=1), CLUSTER, "cluster-c2")
    observe(database.engine, "c1", 2, "c2", lag_records=8, wait_seconds=1.5, records_per_second=20.0)
    sampler = worker(database, clock)
    with database.engine.begin() as connection:
        store_health(connection, "K1", HEALTH)
        store_sizes(connection, "K1", {"bytes_in_per_second": 1024.0, "brokers": {"1": 5000}})
        store_groups(connection, "c1", [group("billing", 17), group("old", 3)], datetime.now(UTC))
        hours = timedelta(hours=1)
        old = observed_groups.c.technical_group == "old"
        connection.execute(
            sa.update(observed_groups).where(old).values(observed_at=observed_groups.c.observed_at - hours)
        )
        # Its worker ended an hour ago: nothing is known of it.
        store_health(connection, "K2", HEALTH)
        stale = cluster_replication.c.kafka_cluster_id == "K2"
        connection.execute(
            sa.update(cluster_replication).where(stale).values(seen_at=cluster_replication.c.seen_at - hours)
        )
    run(sampler)
    found = newest(database)
    edges = {"records_per_second": 40.0, "lag_records": 16.0, "wait_seconds": 1.5}
    assert {name: found["edge." + name, "c1:2"] for name in edges} == edges
    assert ("edge.lag_records", "c2:1") not in found, "its tasks have not reported"
    rest = {key: value for key, value in found.items() if not key[0].startswith("edge.")}
    assert rest == {
        ("group.lag_records", "c1/billing"): 17,
        ("group.records_per_second", "c1/billing"): 2.5,
        ("cluster.under_replicated_partitions", "c1"): 4,
        ("cluster.offline_partitions", "c1"): 1,
        ("cluster.bytes_in_per_second", "c1"): 1024,
        ("broker.leaders", "c1/1"): 7,
        ("broker.replicas", "c1/1"): 9,
        ("broker.bytes", "c1/1"): 5000,
    }


def hop(size: int, to_zone: str = "az2") -> dict[str, Any]:
    return {"plane": "fetch", "from_zone": "az1", "to_zone": to_zone, "bytes": size}


def back(size: int) -> dict[str, Any]:
    return {"plane": "route", "from_zone": "az2", "to_zone": "az1", "bytes": size}


def reported(rest: Rest, zone: str, number: int, *hops: dict[str, Any]) -> None:
    answer = rest("POST", "/route-epochs/reports", report(zone, number, 1, traffic=list(hops)))
    assert answer.is_success, answer.text


def test_bytes_between_zones_are_counted_from_the_second_minute_on(
    rest: Rest, database: Database, clock: Hands
) -> None:
    sampler = worker(database, clock)
    crossing = ("zones.cross_zone_bytes", "all")

    def after_a_minute(minutes: int = 1) -> float | None:
        clock.seconds += 60 * minutes
        clock.minute += timedelta(minutes=minutes)
        run(sampler)
        return newest(database).get(crossing)

    reported(rest, "az1", 1, hop(1000), hop(5, "az1"))
    assert after_a_minute() is None, "there is nothing to compare with"
    reported(rest, "az1", 1, hop(1600), hop(9, "az1"), hop(7, "az3"))
    assert after_a_minute() == 607
    assert newest(database)["zones.cross_zone_bytes", "az1>az2"] == 600
    # Another node begins, and counts from the next minute on; one restarts, which its report's row adds up; in a
    # pause nothing is counted.
    reported(rest, "az2", 2, back(50))
    reported(rest, "az1", 1, hop(30))
    assert after_a_minute() == 30
    reported(rest, "az2", 2, back(61))
    assert after_a_minute() == 11
    assert after_a_minute() == 0
    reported(rest, "az1", 1, hop(1030))
    assert after_a_minute(3) is None
    with database.engine.begin() as connection:
        connection.execute(sa.delete(zone_router_nodes).where(zone_router_nodes.c.node == "zr-az2"))
    reported(rest, "az1", 1, hop(1031))
    assert after_a_minute() == 1
    with database.engine.connect() as connection:
        assert measures.list_subjects(connection, "zones.cross_zone_bytes") == [
            "all",
            "az1>az2",
            "az1>az3",
            "az2>az1",
        ]


def test_what_silent_nodes_of_the_zone_router_have_counted_is_not_the_bytes_of_one_minute(
    rest: Rest, database: Database, clock: Hands
) -> None:
    sampler = worker(database, clock)

    def bytes_between_zones(silent: Collection[str] = ()) -> float | None:
        with database.engine.begin() as connection:
            is_silent = zone_router_nodes.c.node.in_(silent)
            ago = sa.func.clock_timestamp() - timedelta(seconds=200)
            connection.execute(sa.update(zone_router_nodes).where(is_silent).values(seen_at=ago))
        clock.seconds += 60
        clock.minute += timedelta(minutes=1)
        run(sampler)
        return newest(database).get(("zones.cross_zone_bytes", "all"))

    reported(rest, "az1", 1, hop(10**9))
    reported(rest, "az2", 2, back(10**9))
    assert bytes_between_zones() is None
    assert bytes_between_zones(silent=["zr-az1"]) == 0
    # It has gone on to count meanwhile.
    reported(rest, "az1", 1, hop(2 * 10**9))
    assert bytes_between_zones() == 0
    reported(rest, "az1", 1, hop(2 * 10**9 + 7))
    assert bytes_between_zones() == 7
    assert bytes_between_zones(silent=["zr-az1", "zr-az2"]) is None
    reported(rest, "az2", 2, back(3 * 10**9))
    assert bytes_between_zones() is None
    reported(rest, "az2", 2, back(3 * 10**9 + 5))
    assert bytes_between_zones() == 5


def test_each_minute_is_sampled_once_by_whichever_worker(grown: Rest, database: Database, clock: Hands) -> None:
    observe(database.engine, "c1", 2, "c2", lag_records=1)
    first, second = worker(database, clock), worker(database, clock)
    for passes in (0, 20, 24, 40, 61):
        clock.seconds += passes
        clock.minute += timedelta(minutes=passes > 30)
        for each in (first, second):
            run(each)
    assert len(rows(database, 60)) == 3
    # The next one is due when the minute begins, which is in 45 s.
    clock.minute += timedelta(minutes=1)
    for passes, many in ((44, 3), (2, 4)):
        clock.seconds += passes
        run(first)
        assert len(rows(database, 60)) == many


def test_a_failure_is_told_and_its_minute_tried_again(
    grown: Rest, database: Database, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe(database.engine, "c1", 2, "c2", lag_records=1)
    sampler = worker(database, clock)
    for error in (ClusterSilent("the database is away"), RuntimeError("surprise")):
        with monkeypatch.context() as patched, capture_logs() as logged:

            def fail(*_: object, error: Exception = error) -> None:
                raise error

            patched.setattr(measure_sampler, "read_current", fail)
            run(sampler)
        assert [each["event"] for each in logged] == ["measures not sampled"]
        assert rows(database, 60) == []
        clock.seconds += 21
    run(sampler)
    assert len(rows(database, 60)) == 1


def test_too_many_series_are_told_once(database: Database, clock: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    def values(connection: sa.Connection, before: object) -> measure_sources.CurrentValues:
        series = {("group.lag_records", f"c1/g{number}"): float(number) for number in range(130)}
        return measure_sources.CurrentValues(values=series, zone_counts={})

    monkeypatch.setattr(measure_sampler, "read_current", values)
    sampler = worker(database, clock, history_most_series=100)
    with capture_logs() as logged:
        for _ in range(3):
            run(sampler)
            clock.seconds += 70
            clock.minute += timedelta(minutes=1)
    told = [each for each in logged if "too many series" in each["event"]]
    assert [each["left_out"] for each in told] == [30]
    assert set(ids(database)) == {f"c1/g{number}" for number in range(30, 130)}
