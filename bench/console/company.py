"""A large company's control plane in a database.

50 clusters in a tree, tenants with their users and applications, streams that are applied on all clusters, a
history of a million events, and logins in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Engine

from backend.domain.access import user
from backend.domain.base.event import Event
from backend.domain.tenants import application, tenant
from backend.domain.tenants import stream as stream_events
from backend.eventlog.bulk_load import bulk_load
from backend.eventlog.engine import create_engine
from backend.eventlog.recorded import Entry, Metadata
from backend.eventlog.registry import domain_registry
from backend.eventlog.tables import event_log_head
from backend.projections import rebuilding
from backend.projections.catalogue import PROJECTIONS
from backend.queries.access.logins import logins
from tests.support.api.rest_client import RestClient

CLUSTERS = [f"cluster-{number}" for number in range(1, 51)]
TENANTS, STREAMS, USERS, APPLICATIONS, LOGINS = 200, 5_000, 1_000, 2_000, 100_000
_BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
_ACTORS = [f"user-{number}" for number in range(40)]
_DECLARED = {
    "partitions": 4,
    "replication_factor": 3,
    "min_insync_replicas": 2,
    "cleanup_policy": "delete",
    "max_message_bytes": 1_048_588,
    "distributed": True,
    "config": {},
}


def tree(clusters: list[str], level: int) -> dict[str, Any]:
    """Return a tree that halves the clusters at each level."""
    if len(clusters) == 1:
        return {"cluster": clusters[0]}
    half = (len(clusters) + 1) // 2
    return {"level": level, "children": [tree(clusters[:half], level - 1), tree(clusters[half:], level - 1)]}


def lay_out(rest: RestClient, primary: str) -> None:
    """Create the clusters and their tree; all are offline but the primary, whose bootstrap servers are given."""
    for name in CLUSTERS:
        servers = primary if name == CLUSTERS[0] else "127.0.0.1:9"
        body = {"name": name, "bootstrap_servers": servers, "zone": "az1", "accept_offline": True}
        rest.ok("POST", "/clusters", body)
    rest.ok("PUT", "/trees/main", tree(CLUSTERS, 6))


def fill(engine: Engine, events: int) -> None:
    """Append this many events altogether, and their projections."""
    registry = domain_registry()
    with engine.begin() as connection:
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        there = connection.execute(sa.select(event_log_head.c.position)).scalar_one()
        bulk_load(connection, registry, _entries(events - there))
        connection.execute(logins.insert(), list(_logins()))
    for projection in PROJECTIONS:
        rebuilding.rebuild(engine, registry, projection)
    # As PostgreSQL does by itself within a minute; the application's role, which may only append, cannot request
    # it.
    owner = create_engine(engine.url, role=None)
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE"))
    owner.dispose()


def _entries(count: int) -> Iterator[Entry]:
    registry = domain_registry()
    for number, (name, event) in enumerate(_events()):
        if number == count:
            return
        actor = _ACTORS[number // 300 % len(_ACTORS)]
        metadata = Metadata(actor, f"request-{number // 50}")
        yield Entry.of(registry, name, event, metadata, _BEGINS + timedelta(seconds=25 * number))


def _logins() -> Iterator[dict[str, Any]]:
    for number in range(LOGINS):
        yield {
            "time": _BEGINS + timedelta(minutes=4 * number),
            "kind": "LoginRefused" if number % 20 == 0 else "LoggedIn",
            "user": f"user-{number % USERS}",
            "reason": "wrong password" if number % 20 == 0 else "",
            "means": "password",
            "address": f"192.0.2.{number % 250}",
            "agent": "Mozilla/5.0",
        }


def _events() -> Iterator[tuple[str, Event]]:
    """Yield events with their streams: tenants, users, applications, streams; then endless changes of a stream."""
    names = [f"tenant-{number:03}" for number in range(TENANTS)]
    for name in names:
        place = {"tenant": name, "instance": "main", "environment": "prod"}
        yield f"tenant-{name}", tenant.TenantCreated(tenant=name)
        yield f"tenant-{name}", tenant.InstanceCreated(tenant=name, instance="main", tree="main")
        yield (
            f"tenant-{name}",
            tenant.EnvironmentCreated(**place, margin_seconds=60, offset_mode="margin", record_name_subjects=True),
        )
    for number in range(USERS):
        who = f"user-{number}"
        yield f"user-{who}", user.UserCreated(user=who, role="tenant")
        given = {"tenant": names[number % TENANTS], "membership": "owner" if number % 5 == 0 else "member"}
        yield f"user-{who}", user.MembershipGiven(user=who, **given)
    streams = [(names[number % TENANTS], f"stream-{number:04}") for number in range(STREAMS)]
    for name, stream in streams:
        yield (
            f"tenant-{name}",
            stream_events.StreamDeclared(**_path(name, stream), **_DECLARED, revision=1, retention_ms=3_600_000),
        )
        yield from _applied(name, stream, CLUSTERS)
    for number in range(APPLICATIONS):
        yield from _application(names[number % TENANTS], f"application-{number:04}", streams[number])
    revision = 2
    while True:
        for name, stream in streams:
            changed = stream_events.StreamChanged(
                **_path(name, stream), **_DECLARED, revision=revision, retention_ms=3_600_000 + revision
            )
            yield f"tenant-{name}", changed
            yield from _applied(name, stream, CLUSTERS)
        revision += 1


def _applied(name: str, stream: str, clusters: list[str]) -> Iterator[tuple[str, Event]]:
    for cluster in clusters:
        applied = stream_events.StreamApplied(
            **_path(name, stream),
            cluster=cluster,
            topic_id=f"{stream}-{cluster}",
            incarnation=1,
            replication_factor=3,
        )
        yield f"tenant-{name}", applied


def _application(name: str, which: str, consumed: tuple[str, str]) -> Iterator[tuple[str, Event]]:
    """Yield the events of an application that may read one stream, and requests another tenant's stream."""
    path = {"tenant": name, "instance": "main", "environment": "prod", "application": which}
    of = f"application-{name}/main/prod/{which}"
    quotas = {"producer_bytes_per_second": None, "consumer_bytes_per_second": None, "request_percentage": None}
    yield of, application.ApplicationDeclared(**path, revision=1, groups=(f"{which}-group",), **quotas)
    owner, stream = consumed
    theirs = f"{owner}/main/prod/{stream}"
    yield of, application.AccessRequested(**path, stream=theirs, operation="consume")
    yield of, application.AccessGranted(**path, stream=theirs, operation="consume", revision=2)
    asked = f"tenant-007/main/prod/{stream}"
    yield of, application.AccessRequested(**path, stream=asked, operation="produce")


def _path(name: str, stream: str) -> dict[str, str]:
    return {"tenant": name, "instance": "main", "environment": "prod", "stream": stream}
