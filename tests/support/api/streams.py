"""Streams of acme/retail/prod for tests of the API, and what workers record about them."""

from __future__ import annotations

from typing import Any

from backend.deciders import TENANT
from backend.domain.tenants.stream_records import RecordApplied
from tests.support.api.rest import Rest
from tests.support.api.worker_records import record_by

PROD = "/tenants/acme/instances/retail/environments/prod"
ORDERS: dict[str, Any] = {"instance": "retail", "environment": "prod", "stream": "orders"}


def worker_records(rest: Rest, command: Any, decider: Any = TENANT, stream: str = "tenant-acme") -> None:
    """Record what a worker does after it has polled a cluster."""
    record_by(rest.client.app.state.services.dispatcher, command, decider, stream)


def applied(cluster: str, topic_id: str = "T") -> RecordApplied:
    return RecordApplied(**ORDERS, cluster=cluster, topic_id=topic_id, replication_factor=1)
