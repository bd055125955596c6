"""`/discovery`: answers where clients are sent, long-polls for changes, and records what clients report.

Clients that know their cluster continue without the control plane; records never pass through here.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import DryRun, Paging, Reading, SharedServices, listed
from backend.api.frame.services import Services
from backend.domain.access.access import Action, Caller, refusal
from backend.domain.base.errors import NotFound
from backend.domain.switch import discovery as rule
from backend.domain.switch.switch_facts import Place
from backend.eventlog.faults import DatabaseUnavailable
from backend.queries.base import events
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.switch import discovery as queries
from backend.queries.switch import discovery_clients as clients
from backend.queries.switch.active_clusters import ActiveRow
from backend.queries.switch.discovery import Sent, Snapshot
from backend.queries.switch.discovery_clients import ClientRow, Report, StoredHold
from backend.queries.switch.switch_clients import margin_ms
from backend.queries.tenants.tenants import find_environment
from backend.queries.zones.zone_router import bootstrap_servers_by_zone
from backend.settings import Settings

router = APIRouter(prefix="/discovery", tags=["discovery"])

LONGEST_WAIT_MS = 60_000
_TIDY_SECONDS = 600.0
# Also the delay until a waiting request notices that the process is stopping.
_LOOK_SECONDS = 1.0
_NODES_SECONDS = 2.0
"""Interval at which nodes of the zone router report."""
_MOST = 2**31 - 1
Name = Annotated[str, Query(max_length=300)]
_TEXT = r"^[^\x00-\x1f\x7f]+$"
ClientId = Annotated[str | None, Query(max_length=300, pattern=_TEXT)]
Zone = Annotated[str | None, Query(max_length=300, pattern=_TEXT, description="Availability zone of the client.")]
Generation = Annotated[int | None, Query(ge=0, le=_MOST, description="Generation that the client is in.")]
StillIn = Annotated[
    int | None,
    Query(ge=0, le=_MOST, description="Earlier generation in which the client still works during its move."),
]
Phase = Annotated[Literal["active", "held", "closed"], Query(description="Current phase of the client.")]
WaitMs = Annotated[
    int,
    Query(ge=0, le=LONGEST_WAIT_MS, description="Milliseconds to wait for an answer with news for the client."),
]


class Discovery:
    """State of discovery in one API process, read once per change and shared by all waiting requests."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reading = asyncio.Lock()
        self._last: Snapshot | None = None
        self._tidied_at = time.monotonic()
        self._servers_by_zone: Mapping[tuple[str, str], str] = {}
        self._servers_by_zone_until = -math.inf
        self._reading_nodes = asyncio.Lock()

    async def at_least(self, position: int) -> Snapshot:
        """Return the state at this position of the event log, or later."""
        if self._last is None or self._last.position < position:
            async with self._reading:
                if self._last is None or self._last.position < position:
                    self._last = await run_in_threadpool(self._read)
        return self._last

    async def bootstrap_servers_in_zone(self, zone: str | None) -> Mapping[str, str]:
        """Return the bootstrap servers that the zone router has for clients of a zone, by cluster.

        Reports of its nodes are no events, so they are read again every `_NODES_SECONDS`.
        """
        if zone is not None and time.monotonic() > self._servers_by_zone_until:
            async with self._reading_nodes:  # concurrent callers share one read and get nothing older
                if time.monotonic() > self._servers_by_zone_until:
                    with contextlib.suppress(DatabaseUnavailable):
                        self._servers_by_zone = await run_in_threadpool(self._read_nodes)
                    self._servers_by_zone_until = time.monotonic() + _NODES_SECONDS
        return {cluster: found for (cluster, at), found in self._servers_by_zone.items() if at == zone}

    def _read_nodes(self) -> Mapping[tuple[str, str], str]:
        with self._services.reading() as connection:
            return bootstrap_servers_by_zone(connection)

    def _read(self) -> Snapshot:
        with self._services.reading() as connection:
            return queries.read(connection, self._last)

    def note(self, report: Report | None, received: float) -> tuple[int, StoredHold | None]:
        """Store a client's report; return the position of the event log before it, and the client's hold.

        `received`: when the request arrived, by this process's monotonic clock.

        Raises DatabaseUnavailable if the database took so long that the client may have ended its hold.
        """
        hold: StoredHold | None = None
        with self._services.engine.begin() as connection:
            if report is not None:
                hold = clients.write(connection, report, self._services.config.discovery_hold_ms)
                if 1000 * (time.monotonic() - received) > margin_ms(self._services.config):
                    raise DatabaseUnavailable("the database took too long to store the client's report; retry")
            if time.monotonic() > self._tidied_at + _TIDY_SECONDS:
                self._tidied_at = time.monotonic()
                clients.forget_silent(connection)
            return events.head(connection).position, hold

    def end_hold(self, report: Report, hold: StoredHold) -> None:
        """End a client's hold before it is told to continue; on DatabaseUnavailable the client is not told."""
        with self._services.engine.begin() as connection:
            clients.end_hold(connection, report, hold)


@router.get("", openapi_extra=needs(Action.READ_TENANT))
async def discover(
    request: Request,
    services: SharedServices,
    caller: Asking,
    tenant: Name,
    instance: Name,
    environment: Name,
    client_id: ClientId = None,
    role: Annotated[Literal["producer", "consumer"] | None, Query(description="Role of the client.")] = None,
    zone: Zone = None,
    generation: Generation = None,
    still_in: StillIn = None,
    phase: Phase = "active",
    wait_ms: WaitMs = 0,
    user_agent: Annotated[str | None, Header(include_in_schema=False)] = None,
    if_none_match: Annotated[str | None, Header(description="ETag of the client's last answer.")] = None,
) -> Response:
    """Return where clients of an environment are sent.

    With `wait_ms`, wait until the generation or phase differs from those sent. `client_id` records the report.
    """
    # A caller with read access only is not recorded: a switch waits for recorded clients and trusts their reports.
    action = Action.READ_TENANT if client_id is None else Action.DECLARE_STREAMS
    place = _place(caller, action, tenant, instance, environment)
    report = None
    if client_id is not None:
        report = Report(
            tenant=tenant,
            instance=instance,
            environment=environment,
            client_id=client_id,
            role=role or rule.ANY,
            zone=zone,
            generation=generation or 0,
            still_in=still_in,
            phase=phase,
            software=None if user_agent is None else user_agent[:200],
        )
    shared: Discovery = request.app.state.discovery
    received = time.monotonic()
    # Check that the environment exists before anything is written about it.
    if (await shared.at_least(0)).sent(place, zone) is None:
        position, _ = await run_in_threadpool(shared.note, None, received)
        if (await shared.at_least(position)).sent(place, zone) is None:
            raise _unknown(place)
    if report is not None and await request.is_disconnected():
        # Read late by a stalled process: the client has given up waiting and may have ended its hold.
        return Response(status_code=408)
    position, hold = await run_in_threadpool(shared.note, report, received)
    snapshot = await shared.at_least(position)
    while True:
        sent = snapshot.sent(place, zone)
        if sent is None:
            raise _unknown(place)
        told = rule.instructed_phase(role or rule.ANY, sent.switch.state if sent.switch else None)
        left = received + wait_ms / 1000 - time.monotonic()
        if left <= 0 or services.closing.is_set():
            break
        if rule.has_news(sent.active.generation, told, known_generation=generation, known_phase=phase):
            break
        position = await services.listener.wait_for_events_async(snapshot.position, min(left, _LOOK_SECONDS))
        snapshot = await shared.at_least(position)
    if report is not None and hold is not None and _ends_hold(told, sent.active, report):
        # End the hold before the client learns that it may continue: from then on nothing may rely on it.
        await run_in_threadpool(shared.end_hold, report, hold)
    base = str(services.config.url or request.base_url).rstrip("/")
    shown = _shown(sent, told, services.config, base, await shared.bootstrap_servers_in_zone(zone))
    body = {**shown, "arrived": _has_arrived(report, hold, sent.active)}
    return _answer(body, if_none_match, may_be_kept=client_id is None and not wait_ms)


def _place(caller: Caller, action: Action, tenant: str, instance: str, environment: str) -> Place:
    refused = refusal(caller, action, tenant)
    if refused is not None:
        raise refused
    return tenant, instance, environment


def _unknown(place: Place) -> NotFound:
    tenant, instance, environment = place
    return NotFound(f"there is no environment {environment[:60]!r} of {instance[:60]!r} of tenant {tenant[:60]!r}")


def _ends_hold(told: str, active: ActiveRow, report: Report) -> bool:
    return rule.ends_hold(told, active.generation, report.generation, report.phase)


def _has_arrived(report: Report | None, hold: StoredHold | None, active: ActiveRow) -> bool:
    """Return whether all records that a holding client has sent are on the cluster that it is sent to."""
    if report is None or hold is None:
        return False
    return hold.arrived_in == active.generation or rule.is_drained(
        phase=report.phase,
        generation=report.generation,
        given_at=hold.given_at,
        left_generation=active.left_generation,
        marked_at=active.marked_at,
    )


def _shown(
    sent: Sent, told: str, config: Settings, base: str, servers_in_zone: Mapping[str, str]
) -> dict[str, Any]:
    row, cluster = sent.active, sent.cluster
    holds = told == rule.HOLD
    return {
        "tenant": row.tenant,
        "instance": row.instance,
        "environment": row.environment,
        **_reached(cluster, servers_in_zone),
        "registry": f"{base}/registries/{cluster.name}",
        "generation": row.generation,
        "phase": told,
        "ttl_ms": config.discovery_ttl_ms,
        "hold_ms": config.discovery_hold_ms,
        "distributor_timeout_ms": config.distributor_timeout_ms,
        "distributor_distance": sent.distance,
        "mode": row.mode,
        "switch": sent.switch.id if sent.switch and holds else row.switch,
        "next": _reached(sent.next, servers_in_zone) if sent.next and holds else None,
    }


def _reached(cluster: ClusterRow, servers_in_zone: Mapping[str, str]) -> dict[str, Any]:
    return {
        "cluster": cluster.name,
        "bootstrap_servers": cluster.bootstrap_servers
        if _speaks_tls(cluster)
        else servers_in_zone.get(cluster.name, cluster.bootstrap_servers),
        "formats": {
            "topic": cluster.topic_format,
            "group": cluster.group_format,
            "subject": cluster.subject_format,
        },
    }


def _speaks_tls(cluster: ClusterRow) -> bool:
    """Return whether a cluster uses TLS, which nodes of the zone router do not offer."""
    return "SSL" in cluster.properties.get("security.protocol", "").upper()


def _answer(body: dict[str, Any], if_none_match: str | None, *, may_be_kept: bool) -> Response:
    """Return the answer with cache headers; answers to reporting clients must be revalidated before use."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]
    fresh_seconds = body["ttl_ms"] // 1000
    headers = {
        "ETag": f'"{digest}"',
        "Cache-Control": f"private, max-age={fresh_seconds}" if may_be_kept else "private, no-cache",
        "Vary": "Authorization",
    }
    tags = [tag.strip() for tag in (if_none_match or "").split(",")]
    if headers["ETag"] in tags or "*" in tags:
        return Response(status_code=304, headers=headers)
    return JSONResponse(body, headers=headers)


@router.get("/clients", openapi_extra=needs(Action.READ_TENANT))
def list_clients(
    connection: Reading, caller: Asking, page: Paging, tenant: Name, instance: Name, environment: Name
) -> dict[str, Any]:
    """Return the clients of an environment that reported within a day, with their last report."""
    place = _place(caller, Action.READ_TENANT, tenant, instance, environment)
    find_environment(connection, *place)
    rows = clients.list_clients(connection, [place])
    return listed(rows, page, lambda row: row.client_id, _client)


def _client(row: ClientRow) -> dict[str, Any]:
    hidden = ("still_since", "given_at", "arrived_in")
    told = {name: value for name, value in asdict(row).items() if name not in hidden}
    return {**told, "arrived": row.arrived_in is not None, "role": row.role or None}


@router.delete("/clients/{client_id:path}", status_code=204, openapi_extra=needs(Action.DECLARE_STREAMS))
def say_goodbye(
    client_id: str,
    services: SharedServices,
    caller: Asking,
    tenant: Name,
    instance: Name,
    environment: Name,
    dry_run: DryRun = False,
) -> Response:
    """Remove a client that ended, so that no switch waits for it."""
    place = _place(caller, Action.DECLARE_STREAMS, tenant, instance, environment)
    with services.engine.connect() as connection:
        if not clients.forget(connection, place, client_id):
            raise NotFound(f"there is no client {client_id[:60]!r} in {'/'.join(place)}")
        if not dry_run:
            connection.commit()
    return Response(status_code=204)
