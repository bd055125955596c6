"""Store and list the latest report of each node of the zone router."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.base.errors import NotFound, StateConflict
from backend.domain.zones.route_epochs import GAP_SECONDS, NodeLiveness, unreachable_nodes
from backend.queries.base.observed import zone_router_nodes

MOST_NODES = 1_000
FORGOTTEN_AFTER = timedelta(days=1)
"""Age after which a report without open streams is deleted: the node was removed from the file or renamed."""
# The database's clock, so that ages agree whichever process serves the request.
_NOW = sa.func.clock_timestamp()


@dataclass(frozen=True, kw_only=True)
class Hop:
    """Bytes of one plane that went from one zone to another, or stayed in it."""

    plane: str
    from_zone: str
    to_zone: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ColdReads:
    """Cold reads: partitions fetched from the leader because neither cache nor blocks had the data."""

    reads: int = 0
    bytes: int = 0

    def __add__(self, other: ColdReads) -> ColdReads:
        return ColdReads(reads=self.reads + other.reads, bytes=self.bytes + other.bytes)


@dataclass(frozen=True, kw_only=True)
class Cache:
    """Size of the read cache and its limit."""

    bytes: int = 0
    most_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """A node's report; counters start at 0 when its process starts."""

    node: str
    zone: str
    serves: Sequence[str]
    """Roles of the node: `proxy`, `main`, or both."""
    cluster: str | None = None
    broker: int | None = None
    """Broker beside which a main runs."""
    reported_epoch: int | None = None
    open_streams: int = 0
    stands_for: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Brokers that a proxy serves in its own zone, by cluster."""
    bootstrap_servers: Mapping[str, str] = field(default_factory=dict)
    """Bootstrap servers that a proxy offers to clients of its zone, by cluster."""
    traffic: Sequence[Hop] = ()
    cold_reads: ColdReads = ColdReads()
    cache: Cache = Cache()


@dataclass(frozen=True, kw_only=True)
class _StoredReport(NodeReport):
    """A stored report, with the counts of the node's earlier processes."""

    traffic_before: Sequence[Hop] = ()
    cold_reads_before: ColdReads = ColdReads()


_REPORT = TypeAdapter(_StoredReport)
"""Parser of stored reports; fields that an older version did not store get their defaults."""


@dataclass(frozen=True, kw_only=True)
class NodeRow:
    """A node's latest report and its liveness."""

    report: NodeReport
    """The report; its counters include those of the node's earlier processes."""
    liveness: NodeLiveness
    is_unreachable: bool
    """True if the node is unreachable. Other nodes learn of it, and `committed` does not wait for it unless it had
    open streams."""


def _with_earlier_counts(report: NodeReport, before: _StoredReport | None) -> _StoredReport:
    """Carry over the counts of earlier processes: a node whose counters fell has restarted."""
    reported = {each.name: getattr(report, each.name) for each in fields(NodeReport)}
    if before is None:
        return _StoredReport(**reported)
    traffic, cold = before.traffic_before, before.cold_reads_before
    if _counted(report) < _counted(before):
        traffic, cold = summed([*traffic, *before.traffic]), cold + before.cold_reads
    return _StoredReport(**reported, traffic_before=traffic, cold_reads_before=cold)


def _counted(report: NodeReport) -> int:
    return sum(each.bytes for each in report.traffic) + report.cold_reads.reads


def summed(hops: Iterable[Hop]) -> list[Hop]:
    """Sum the bytes per plane and pair of zones."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for hop in hops:
        sums[hop.plane, hop.from_zone, hop.to_zone] += hop.bytes
    return [
        Hop(plane=plane, from_zone=from_zone, to_zone=to_zone, bytes=size)
        for (plane, from_zone, to_zone), size in sorted(sums.items())
    ]


def store_report(connection: Connection, report: NodeReport) -> None:
    """Store a report in place of the node's previous one.

    Raises StateConflict where there are too many nodes.
    """
    nodes = zone_router_nodes
    known = sa.select(sa.func.count(), sa.func.count().filter(nodes.c.node == report.node)).select_from(nodes)
    total, is_known = connection.execute(known).one()
    if total >= MOST_NODES and not is_known:
        raise StateConflict(f"{MOST_NODES} nodes have reported, which is the limit; forget the unreachable ones")
    found = connection.execute(
        sa.select(nodes.c.report).where(nodes.c.node == report.node).with_for_update()
    ).scalar_one_or_none()
    whole = _with_earlier_counts(report, _REPORT.validate_python(found) if found else None)
    row = insert(nodes).values(node=report.node, report=asdict(whole), seen_at=_NOW, unbroken_since=_NOW)
    late: ColumnElement[bool] = _NOW - nodes.c.seen_at > timedelta(seconds=GAP_SECONDS)
    since = sa.case((late, _NOW), else_=nodes.c.unbroken_since)
    kept = {"report": row.excluded.report, "seen_at": _NOW, "unbroken_since": since}
    connection.execute(row.on_conflict_do_update(index_elements=["node"], set_=kept))


def list_nodes(connection: Connection) -> list[NodeRow]:
    """Return all nodes that have reported, sorted by name."""
    nodes = zone_router_nodes.c
    ages = [
        sa.func.extract("epoch", _NOW - nodes.seen_at),
        sa.func.extract("epoch", nodes.seen_at - nodes.unbroken_since),
    ]
    query = sa.select(nodes.report, *ages).order_by(nodes.node)
    found = []
    for document, silent, unbroken in connection.execute(query):
        kept = _REPORT.validate_python(document)
        report = replace(
            kept,
            traffic=summed([*kept.traffic, *kept.traffic_before]),
            cold_reads=kept.cold_reads + kept.cold_reads_before,
        )
        found.append((report, _liveness(report, max(0.0, float(silent)), float(unbroken))))
    dead = unreachable_nodes([liveness for _, liveness in found])
    return [
        NodeRow(report=report, liveness=liveness, is_unreachable=report.node in dead) for report, liveness in found
    ]


def bootstrap_servers_by_zone(connection: Connection) -> dict[tuple[str, str], str]:
    """Return the bootstrap servers of each cluster in each zone with a reachable proxy, by cluster and zone.

    The zone's own servers come first, those of other zones follow. If the zone loses its last node, clients reach
    the cluster through another zone's node, which then gives them the brokers' own addresses.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for row in list_nodes(connection):
        if not row.is_unreachable:
            for cluster, server in row.report.bootstrap_servers.items():
                found.setdefault(cluster, {}).setdefault(row.report.zone, []).append(server)
    return {
        (cluster, zone): ",".join([*servers, *(each for other in zones if other != zone for each in zones[other])])
        for cluster, zones in found.items()
        for zone, servers in zones.items()
    }


def forget_node(connection: Connection, node: str) -> None:
    """Delete the report of an unreachable node.

    Raises NotFound; StateConflict for a node that still reports.
    """
    row = next((each for each in list_nodes(connection) if each.report.node == node), None)
    if row is None:
        raise NotFound(f"no node {node[:60]!r} has reported; GET /zones lists the nodes")
    if not row.is_unreachable:
        silent = row.liveness.silent_seconds
        raise StateConflict(f"{node} is reachable: it reported {silent:.0f} s ago. Stop its process first")
    connection.execute(sa.delete(zone_router_nodes).where(zone_router_nodes.c.node == node))


def delete_expired_reports(connection: Connection) -> None:
    """Delete old reports of nodes without open streams."""
    nodes = zone_router_nodes.c
    idle = nodes.report["open_streams"].as_integer() == 0
    connection.execute(sa.delete(zone_router_nodes).where(nodes.seen_at < _NOW - FORGOTTEN_AFTER, idle))


def now(connection: Connection) -> datetime:
    """Return the time of the database, by whose clock reports are dated."""
    time: datetime = connection.execute(sa.select(_NOW)).scalar_one()
    return time


def _liveness(report: NodeReport, silent: float, unbroken: float) -> NodeLiveness:
    return NodeLiveness(
        node=report.node,
        is_main="main" in report.serves,
        reported_epoch=report.reported_epoch,
        open_streams=report.open_streams,
        silent_seconds=silent,
        unbroken_seconds=unbroken,
    )
