"""`/livez`, `/readyz` and `/metrics`, for whoever watches the process; open to everybody, without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from backend.api.requests import SharedServices
from backend.api.services import Services
from backend.domain.errors import DomainError
from backend.queries import applications, clusters, distributors, events, schemas, switches
from backend.queries.at_risk import records_at_risk

router = APIRouter(tags=["health"])

_MIGRATION = sa.select(sa.table("alembic_version", sa.column("version_num")).c.version_num)


@router.get("/livez")
def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get("/readyz")
def readyz(services: SharedServices) -> Response:
    """Whether requests can be served: database reachable and migrated, projections at the log's head."""
    checks: dict[str, Any] = {"database": "ok", "migrations": "unknown", "projections": "unknown"}
    try:
        with services.reading() as connection:
            at, wanted = connection.execute(_MIGRATION).scalar_one(), services.newest_migration
            checks["migrations"] = "ok" if at == wanted else f"at {at}, not {wanted}: run the migrations"
            behind = {name: lag for name, lag in services.lag_events(connection).items() if lag}
            checks["projections"] = f"behind by events: {behind}" if behind else "ok"
    except DomainError as error:
        checks["database"] = error.title
    except SQLAlchemyError:
        # Reachable, but not (fully) migrated: a table is missing.
        checks["migrations"] = "tables are missing: run the migrations"
    ready = set(checks.values()) == {"ok"}
    return JSONResponse({"ready": ready, "checks": checks}, 200 if ready else 503)


@router.get("/metrics", response_class=Response)
def metrics(services: SharedServices) -> Response:
    """Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Collector(services))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class _Collector(Collector):
    """Reads everything at the scrape; the process keeps no counters that a second process would not have."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        yield InfoMetricFamily("treeline_build", "The program that runs", value={"version": _version()})
        with self._services.reading() as connection:
            yield from self._log(connection)
            yield from self._clusters(connection)
            yield from self._distributors(connection)
            yield from self._schema_targets(connection)
            yield from self._switches(connection)
        for collect in self._services.collectors:
            yield from collect()

    def _log(self, connection: Connection) -> Iterator[Any]:
        position = events.head(connection).position
        yield GaugeMetricFamily("treeline_event_log_position", "Newest event's position", value=position)
        lag = GaugeMetricFamily(
            "treeline_projection_lag_events", "Events not projected yet", labels=["projection"]
        )
        for name, value in self._services.lag_events(connection).items():
            lag.add_metric([name], value)
        yield lag

    def _clusters(self, connection: Connection) -> Iterator[Any]:
        online = GaugeMetricFamily("treeline_cluster_online", "1 if the cluster answers", labels=["cluster"])
        failed = GaugeMetricFamily(
            "treeline_application_access_failed",
            "Applications whose access could not be set or removed",
            labels=["cluster"],
        )
        at_risk = GaugeMetricFamily(
            "treeline_records_at_risk",
            "Records, at most, that no other cluster has yet: lost if this one died now",
            labels=["cluster"],
        )
        failures = applications.failures_by_cluster(connection)
        for name, records in records_at_risk(connection).items():
            if records is not None:
                at_risk.add_metric([name], records)
        for row in clusters.list_clusters(connection):
            online.add_metric([row.name], float(row.state != "offline"))
            failed.add_metric([row.name], float(failures.get(row.name, 0)))
        yield from (online, failed, at_risk)

    def _distributors(self, connection: Connection) -> Iterator[Any]:
        labels = ["source", "target", "level"]
        running = GaugeMetricFamily("treeline_distributor_running", "1 if it runs", labels=labels)
        lag = GaugeMetricFamily("treeline_replication_lag_records", "Records not copied yet", labels=labels)
        records = CounterMetricFamily("treeline_replication_records", "Records copied", labels=labels)
        size = CounterMetricFamily("treeline_replication_bytes", "Bytes copied", labels=labels)
        holds = CounterMetricFamily(
            "treeline_schema_holds", "Times that a partition waited for a schema", labels=labels
        )
        held = CounterMetricFamily(
            "treeline_schema_held_seconds", "Time that partitions waited for schemas", labels=labels
        )
        in_vain = CounterMetricFamily(
            "treeline_schema_waits_run_out", "Waits after which records went before their schema", labels=labels
        )
        for row in distributors.read_distributors(connection):
            of, seen = [row.cluster, row.target, str(row.level)], row.observed
            if seen is None:
                continue
            running.add_metric(of, float(seen.state == "running"))
            records.add_metric(of, seen.copied_records)
            size.add_metric(of, seen.copied_bytes)
            holds.add_metric(of, seen.schema_holds)
            held.add_metric(of, seen.schema_held_seconds)
            in_vain.add_metric(of, seen.schema_waits_run_out)
            if seen.lag_records is not None:
                lag.add_metric(of, seen.lag_records)
        yield from (running, lag, records, size, holds, held, in_vain)

    def _schema_targets(self, connection: Connection) -> Iterator[Any]:
        running = GaugeMetricFamily(
            "treeline_schema_target_running",
            "1 if schemas come without conflicts",
            labels=["cluster"],
        )
        behind = GaugeMetricFamily(
            "treeline_schema_behind_records", "Schema records still to be written there", labels=["cluster"]
        )
        for row in schemas.list_schema_targets(connection):
            running.add_metric([row.cluster], float(row.state == "running"))
            if row.behind is not None:
                behind.add_metric([row.cluster], row.behind)
        yield from (running, behind)

    def _switches(self, connection: Connection) -> Iterator[Any]:
        phase = GaugeMetricFamily(
            "treeline_switch_phase",
            "1 for the phase in which a switch is that has not ended",
            labels=["switch", "source", "target", "mode", "phase"],
        )
        for row in switches.unended_switches(connection):
            phase.add_metric([row.id, row.source, row.target, row.mode, str(row.state)], 1)
        yield phase


def _version() -> str:
    try:
        return version("treeline")
    except PackageNotFoundError:
        return "unknown"
