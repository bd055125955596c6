"""Contents of `/metrics`: read at the scrape, so that every process of the API reports the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from backend.api.frame.services import Services
from backend.metrics import family
from backend.program_version import VERSION
from backend.queries.base import events
from backend.queries.clusters import clusters
from backend.queries.distribution import distributors, edge_losses, leases_held
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.distribution.stream_measures import MeasuredStream
from backend.queries.schemas import schema_counts, schemas
from backend.queries.switch import switches
from backend.queries.tenants import applications
from backend.queries.topics.at_risk import records_at_risk
from backend.queries.webhooks import webhook_deliveries
from backend.settings import Settings


class StateCollector(Collector):
    """Collector without counters in the process, which a second process would not have."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Metric]:
        build = family("treeline_build_info")
        build.add_metric([VERSION], 1)
        yield build
        with self._services.reading() as connection:
            yield from self._log(connection)
            yield from _clusters(connection)
            yield from _distributors(connection, self._services.config)
            yield from _schema_targets(connection)
            yield from _switches(connection)
            yield from _webhooks(connection)
        yield from _streams(*self._services.measured())
        for collect in self._services.collectors:
            yield from collect()

    def _log(self, connection: Connection) -> Iterator[Metric]:
        position = family("treeline_event_log_position")
        position.add_metric([], events.head(connection).position)
        lag = family("treeline_projection_lag_events")
        for name, value in self._services.lag_events(connection).items():
            lag.add_metric([name], value)
        leases = family("treeline_lease_held")
        for name, held in leases_held.read(connection).items():
            leases.add_metric([name], float(held))
        fenced = family("treeline_lease_fenced_total")
        for name, times in leases_held.fenced(connection).items():
            fenced.add_metric([name], times)
        yield from (position, lag, leases, fenced)


def _clusters(connection: Connection) -> Iterator[Metric]:
    online = family("treeline_cluster_online")
    failed = family("treeline_application_access_failed")
    at_risk = family("treeline_records_at_risk")
    failures = applications.failures_by_cluster(connection)
    for name, records in records_at_risk(connection).items():
        if records is not None:
            at_risk.add_metric([name], records)
    for row in clusters.list_clusters(connection):
        online.add_metric([row.name], float(row.state != "offline"))
        failed.add_metric([row.name], float(failures.get(row.name, 0)))
    yield from (online, failed, at_risk)


def _distributors(connection: Connection, config: Settings) -> Iterator[Metric]:
    running = family("treeline_distributor_running")
    paused = family("treeline_distributor_paused")
    waits = family("treeline_distributor_wait_seconds")
    objective = family("treeline_distributor_objective_seconds")
    objective.add_metric([], config.distributor_objective_seconds)
    holds = family("treeline_schema_holds_total")
    held = family("treeline_schema_held_seconds_total")
    in_vain = family("treeline_schema_waits_run_out_total")
    lost = family("treeline_losses_unacknowledged")
    possible = family("treeline_possible_losses_unacknowledged")
    aside = family("treeline_set_aside_waiting")
    counts = schema_counts.read(connection, partition_buckets(connection, config))
    waiting = edge_losses.count_open(connection)
    kinds = ((lost, waiting.lost), (possible, waiting.possibly_lost), (aside, waiting.dead_letters))
    for row in distributors.read_distributors(connection):
        of, seen = [row.cluster, row.target, str(row.level)], row.observed
        edge = (row.cluster, row.level)
        paused.add_metric(of, float(row.settings.paused))
        source = [row.cluster, str(row.level)]
        for metric, found in kinds:
            metric.add_metric(source, found[edge].count if edge in found else 0)
        if seen is not None:
            running.add_metric(of, float(seen.state == "running"))
            if seen.wait_seconds is not None:
                waits.add_metric(of, seen.wait_seconds)
        if (schemas := counts.get(edge)) is not None:
            holds.add_metric(of, schemas.holds)
            held.add_metric(of, schemas.held_seconds)
            in_vain.add_metric(of, schemas.waits_run_out)
    yield from (running, paused, waits, objective, holds, held, in_vain, lost, possible, aside)


def _streams(rows: Iterable[MeasuredStream], each: bool) -> Iterator[Metric]:
    by_stream = family("treeline_replication_by_stream")
    by_stream.add_metric([], float(each))
    records = family("treeline_replication_records_total")
    size = family("treeline_replication_bytes_total")
    passed = family("treeline_replication_offsets_total")
    lag = family("treeline_replication_lag_records")
    age = family("treeline_replication_record_age_seconds")
    latency = family("treeline_replication_latency_seconds")
    checkpoint = family("treeline_checkpoint_age_seconds")
    for row in rows:
        of = [row.source, row.target, str(row.level), row.stream]
        records.add_metric(of, row.records)
        size.add_metric(of, row.bytes)
        passed.add_metric(of, row.passed)
        for metric, value in (
            (lag, row.lag_records),
            (age, row.record_age_seconds),
            (latency, row.latency_seconds),
            (checkpoint, row.checkpoint_age_seconds),
        ):
            if value is not None:
                metric.add_metric(of, value)
    yield from (by_stream, records, size, passed, lag, age, latency, checkpoint)


def _schema_targets(connection: Connection) -> Iterator[Metric]:
    running = family("treeline_schema_target_running")
    behind = family("treeline_schema_behind_records")
    for row in schemas.list_schema_targets(connection):
        running.add_metric([row.cluster], float(row.state == "running"))
        if row.behind is not None:
            behind.add_metric([row.cluster], row.behind)
    yield from (running, behind)


def _switches(connection: Connection) -> Iterator[Metric]:
    phase = family("treeline_switch_phase")
    for row in switches.unended_switches(connection):
        phase.add_metric([row.id, row.source, row.target, row.mode, str(row.state)], 1)
    yield phase


def _webhooks(connection: Connection) -> Iterator[Metric]:
    deliveries = family("treeline_webhook_deliveries")
    for webhook, states in webhook_deliveries.count_states(connection).items():
        for state, number in states.items():
            deliveries.add_metric([webhook, state], number)
    yield deliveries
