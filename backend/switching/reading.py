"""Reads the database facts for a switch plan at one moment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from backend.domain.base.errors import FieldError, NotFound, ValueInvalid
from backend.domain.distribution.edges import LeafInbound
from backend.domain.names.names import is_name
from backend.domain.switch.cluster_switch import Moving
from backend.domain.switch.switch_facts import (
    ApplicationFact,
    ClientFact,
    ClusterFact,
    EdgeFact,
    Facts,
    NotFollowedFact,
    OffsetFact,
    Place,
    StreamFact,
    SwitchRequest,
    Timing,
)
from backend.domain.switch.switch_plan import moves_of
from backend.domain.switch.switch_what_if import clusters_gone
from backend.queries.base import events
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.distribution.distributors import read_distributors
from backend.queries.distribution.leaf_routes import list_inbound
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.offsets.offsets import Wanted, list_not_followed, list_offsets
from backend.queries.switch.active_clusters import ActiveRow, list_active
from backend.queries.switch.switch_clients import moved_clients
from backend.queries.switch.switches import busy_tenants
from backend.queries.tenants import tenants
from backend.queries.tenants.applications import ApplicationRow, list_applications
from backend.queries.tenants.streams import StreamRow, list_streams
from backend.queries.topics.at_risk import records_at_risk
from backend.queries.tree.trees import get_tree
from backend.settings import Settings

MOST_OFFSETS = 100_000
"""Limit of commits that a plan reads; a larger estate gets the first ones."""


@dataclass(frozen=True, kw_only=True)
class PlanInput:
    """Database facts of a plan, and what is needed to query clusters for more."""

    facts: Facts
    clusters: Mapping[str, ClusterRow]
    streams: Sequence[StreamRow]
    """Distributed streams of moved environments."""
    leaves: Mapping[str, LeafInbound]
    buckets: int
    """Number of partition buckets, and so of tasks per distributor."""


def read(connection: Connection, settings: Settings, request: SwitchRequest, now: datetime) -> PlanInput:
    """Read the facts in one transaction.

    Raises NotFound (unknown cluster, tenant, instance, environment or what-if zone) and ValueInvalid (brokers
    assumed to be gone together with others of their cluster).
    """
    rows = {row.name: row for row in list_clusters(connection)}
    known = {row.name: _cluster(row) for row in rows.values()}
    _check_names(connection, request, known)
    tree = get_tree(connection)
    active = list_active(connection)
    moves = moves_of(active, request)
    moved = {moving.place for moving in moves}
    gone = clusters_gone(known, request.without)
    others = {row.place for row in active if row.cluster in gone} - moved
    declared = list_streams(connection, tenant=None if others else request.tenant) if moved or others else []
    streams = [row for row in declared if _place(row) in moved]
    facts = Facts(
        position=events.head(connection).position,
        taken_at=now.isoformat(),
        root=None if tree is None else tree.shape,
        primary=None if tree is None else tree.primary_cluster,
        targets={} if tree is None else tree.targets,
        clusters=known,
        active=tuple(active),
        busy=busy_tenants(connection),
        edges=_edges(connection),
        streams=tuple(map(_stream, streams)),
        other_streams=tuple(_stream(row) for row in declared if _place(row) in others),
        applications=tuple(_applications(connection, request, moved)),
        clients=tuple(_clients(connection, active, moves)),
        offsets=tuple(_offsets(connection, request, streams)),
        not_followed=tuple(_not_followed(connection, request, streams)),
        margin=frozenset(place for place, rule in tenants.offset_rules(connection).items() if not rule.exact),
        at_risk=records_at_risk(connection),
        timing=Timing(ttl_ms=settings.discovery_ttl_ms, reconcile_ms=round(1000 * settings.reconcile_seconds)),
    )
    return PlanInput(
        facts=facts,
        clusters=rows,
        streams=[row for row in streams if row.distributed],
        leaves=list_inbound(connection),
        buckets=partition_buckets(connection, settings),
    )


def _check_names(connection: Connection, request: SwitchRequest, clusters: Mapping[str, ClusterFact]) -> None:
    zones = {row.zone for row in clusters.values()}
    named = (
        *(("/from", request.source), ("/to", request.target)),
        *(("/without/clusters", name) for name in sorted(request.without.clusters)),
        *((f"/without/brokers/{at}/cluster", name) for at, (name, _) in enumerate(request.without.brokers)),
    )
    for pointer, cluster in named:
        if cluster not in clusters:
            detail = f"there is no cluster {cluster[:60]!r}; GET /clusters lists them"
            raise NotFound(detail, (FieldError(pointer, detail),))
    for zone in sorted(request.without.zones):
        if zone not in zones:
            detail = f"no cluster is in zone {zone[:60]!r}"
            raise NotFound(detail, (FieldError("/without/zones", detail),))
    _check_brokers(request, clusters_gone(clusters, request.without))
    place = (request.tenant, request.instance, request.environment)
    for part, name in zip(("tenant", "instance", "environment"), place, strict=True):
        if name is not None and not is_name(name):
            detail = f"there is no {part} {name[:60]!r}"
            raise NotFound(detail, (FieldError(f"/{part}", detail),))
    match place:
        case (str(tenant), str(instance), str(environment)):
            tenants.find_environment(connection, tenant, instance, environment)
        case (str(tenant), str(instance), None):
            tenants.find_instance(connection, tenant, instance)
        case (str(tenant), None, None):
            tenants.find_tenant(connection, tenant)


def _check_brokers(request: SwitchRequest, gone: frozenset[str]) -> None:
    """Check that each what-if broker is alone in its cluster: the lab plays one failure at a time.

    Raises ValueInvalid.
    """
    seen: dict[str, int] = {}
    for at, (cluster, broker) in enumerate(request.without.brokers):
        if cluster in gone:
            detail = f"{cluster} is assumed to be gone with all its brokers; remove broker {broker} from `without`"
        elif cluster in seen:
            detail = (
                f"broker {seen[cluster]} of {cluster} is assumed to be gone already, and a plan allows one broker "
                f"per cluster; make another plan for broker {broker}"
            )
        else:
            seen[cluster] = broker
            continue
        raise ValueInvalid(detail, (FieldError(f"/without/brokers/{at}", detail),))


def _cluster(row: ClusterRow) -> ClusterFact:
    return ClusterFact(name=row.name, zone=row.zone, state=row.state, reason=row.reason)


def _place(row: StreamRow | ApplicationRow) -> Place:
    return row.tenant, row.instance, row.environment


def _stream(row: StreamRow) -> StreamFact:
    return StreamFact(
        stream=row.stream,
        place=_place(row),
        partitions=row.partitions,
        distributed=row.distributed,
        applied=row.applied,
        failures=row.failures,
    )


def _edges(connection: Connection) -> dict[tuple[str, int], EdgeFact]:
    return {
        (row.cluster, row.level): EdgeFact(
            paused=row.settings.paused,
            state=row.observed.state,
            reason=row.observed.reason,
            records_per_second=row.observed.records_per_second,
        )
        for row in read_distributors(connection)
        if row.observed is not None
    }


def _applications(
    connection: Connection, request: SwitchRequest, moved: Collection[Place]
) -> Iterator[ApplicationFact]:
    for row in list_applications(connection, None, request.tenant) if moved else ():
        if _place(row) in moved:
            yield ApplicationFact(
                application=row.principal,
                place=_place(row),
                applied={cluster: each.state for cluster, each in row.applied.items()},
                failures={c: each.failure for c, each in row.applied.items() if each.failure is not None},
            )


def _clients(connection: Connection, active: Sequence[ActiveRow], moves: Sequence[Moving]) -> Iterator[ClientFact]:
    """Yield the clients that the switch moves."""
    for client in moved_clients(connection, active, moves):
        yield ClientFact(
            client_id=client.client_id,
            place=client.place,
            role=client.role,
            zone=client.zone,
            generation=client.generation,
            phase=client.phase,
            silent_ms=client.silent_ms,
        )


def _offsets(connection: Connection, request: SwitchRequest, streams: Sequence[StreamRow]) -> Iterator[OffsetFact]:
    known = {row.stream for row in streams}
    owners = {row.tenant for row in streams}
    if not owners:
        return
    wanted = Wanted(cluster=request.source, tenants=owners, limit=MOST_OFFSETS)
    for row in list_offsets(connection, wanted):
        if row.stream not in known:
            continue
        there = next((each for each in row.elsewhere if each.cluster == request.target), None)
        yield OffsetFact(
            stream=row.stream,
            partition=row.partition,
            group=row.group,
            technical_group=row.technical_group,
            committed=row.committed_offset,
            state=None if there is None else there.state,
            re_read_bound=None if there is None else there.re_read_bound,
            offset=None if there is None else there.offset,
            settled=None if there is None else there.settled,
        )


def _not_followed(
    connection: Connection, request: SwitchRequest, streams: Sequence[StreamRow]
) -> Iterator[NotFollowedFact]:
    topics = {row.technical_names[request.source] for row in streams if request.source in row.technical_names}
    for row in list_not_followed(connection):
        if row.cluster == request.source and row.topic in topics:
            yield NotFollowedFact(technical_group=row.technical_group, topic=row.topic, reason=row.reason)
