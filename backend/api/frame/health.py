"""`/livez` and `/readyz`, public and without secrets; `/metrics`, which names tenants, for viewers."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from sqlalchemy.exc import SQLAlchemyError

from backend.api.frame.metrics import StateCollector
from backend.api.frame.requests import SharedServices
from backend.domain.base.errors import DomainError
from backend.eventlog.postgres_versions import version_number, why_unsupported

router = APIRouter(tags=["health"])

_MIGRATION = sa.select(sa.table("alembic_version", sa.column("version_num")).c.version_num)


@router.get("/livez")
def livez() -> dict[str, str]:
    """Return that the process is alive."""
    return {"status": "alive"}


@router.get("/readyz")
def readyz(services: SharedServices) -> Response:
    """Report if requests can be served: database reachable and migrated, projections at the log's head."""
    checks: dict[str, Any] = {"database": "ok", "migrations": "unknown", "projections": "unknown"}
    try:
        with services.reading() as connection:
            at, wanted = connection.execute(_MIGRATION).scalar_one(), services.newest_migration
            checks["migrations"] = "ok" if at == wanted else f"at {at}, not {wanted}: run the migrations"
            behind = {name: lag for name, lag in services.lag_events(connection).items() if lag}
            checks["projections"] = f"behind by events: {behind}" if behind else "ok"
            checks["database"] = why_unsupported(version_number(connection)) or "ok"
    except DomainError as error:
        checks["database"] = error.title
    except SQLAlchemyError:
        # Reachable, but not (fully) migrated: a table is missing.
        checks["migrations"] = "tables are missing: run the migrations"
    ready = set(checks.values()) == {"ok"}
    return JSONResponse({"ready": ready, "checks": checks}, 200 if ready else 503)


@router.get("/metrics", response_class=Response)
def metrics(services: SharedServices) -> Response:
    """Return the metrics in Prometheus's text format.

    Needs a viewer's token, which the gate checks; see also `metrics_port.py`.
    """
    registry = CollectorRegistry()
    registry.register(StateCollector(services))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
