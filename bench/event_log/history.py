"""A typical history of a control plane: streams declared, applied on five clusters, changed, applied again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from backend.domain.base.event import Event
from backend.domain.tenants import stream as stream_events
from backend.domain.tenants import tenant
from backend.eventlog.recorded import Entry, Metadata
from backend.eventlog.registry import EventRegistry

METADATA = Metadata("bench", "bench")
TIME = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTERS = tuple(f"cluster-{number}" for number in range(1, 6))
STREAMS_PER_TENANT = 200


def entries(registry: EventRegistry, first_tenant: int, count: int) -> Iterator[Entry]:
    """Yield `count` events, of as many tenants as it takes from `first_tenant` on."""
    number = first_tenant
    while count > 0:
        for event in _of_tenant(f"t{number}"):
            if count > 0:
                yield Entry.of(registry, f"tenant-t{number}", event, METADATA, TIME)
                count -= 1
        number += 1


def _of_tenant(name: str) -> Iterator[Event]:
    place = {"tenant": name, "instance": "main", "environment": "prod"}
    yield tenant.TenantCreated(tenant=name)
    yield tenant.InstanceCreated(tenant=name, instance="main", tree="main")
    yield tenant.EnvironmentCreated(**place, margin_seconds=60, offset_mode="margin", record_name_subjects=True)
    for number in range(STREAMS_PER_TENANT):
        stream = {**place, "stream": f"s{number}"}
        declared = {
            "partitions": 4,
            "replication_factor": 3,
            "min_insync_replicas": 2,
            "cleanup_policy": "delete",
            "max_message_bytes": 1_048_588,
            "distributed": True,
            "config": {},
        }
        yield stream_events.StreamDeclared(**stream, **declared, revision=1, retention_ms=3_600_000)
        yield from _applied(stream)
        yield stream_events.StreamChanged(**stream, **declared, revision=2, retention_ms=7_200_000)
        yield from _applied(stream)


def _applied(stream: dict[str, str]) -> Iterator[Event]:
    for cluster in CLUSTERS:
        topic_id = f"{stream['tenant']}-{stream['stream']}-{cluster}"
        yield stream_events.StreamApplied(
            **stream, cluster=cluster, topic_id=topic_id, incarnation=1, replication_factor=3
        )
