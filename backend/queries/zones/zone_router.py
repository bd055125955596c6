"""What nodes of the zone router report, each its last report, and keeping it."""

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
from backend.domain.zones.route_epochs import GAP_SECONDS, NodeHeard, dead_nodes
from backend.queries.base.observed import zone_router_nodes

MOST_NODES = 1_000
FORGOTTEN_AFTER = timedelta(days=1)
"""A node that is silent for so long, and had no open stream, is taken out of the file, or has another name."""
# The statement's time: by one clock, whoever serves.
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
    """Reads that went to the leader, since what they asked for was neither in the cache nor in blocks."""

    reads: int = 0
    bytes: int = 0

    def __add__(self, other: ColdReads) -> ColdReads:
        return ColdReads(reads=self.reads + other.reads, bytes=self.bytes + other.bytes)


@dataclass(frozen=True, kw_only=True)
class Cache:
    """How full the cache of reads is, and how full it may be."""

    bytes: int = 0
    most_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """What a node tells of itself; counts are since it began."""

    node: str
    zone: str
    serves: Sequence[str]
    """`proxy`, `main`, or both."""
    cluster: str | None = None
    broker: int | None = None
    """Of a main: the broker that it stands beside."""
    reported_epoch: int | None = None
    open_streams: int = 0
    stands_for: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Of a proxy: brokers by cluster, in its own zone."""
    bootstrap_servers: Mapping[str, str] = field(default_factory=dict)
    """Of a proxy: where clients of its zone begin, by cluster."""
    traffic: Sequence[Hop] = ()
    cold_reads: ColdReads = ColdReads()
    cache: Cache = Cache()


@dataclass(frozen=True, kw_only=True)
class _Kept(NodeReport):
    """A report as it is kept: with what the node had counted in the lives before this one."""

    traffic_before: Sequence[Hop] = ()
    cold_reads_before: ColdReads = ColdReads()


_REPORT = TypeAdapter(_Kept)
"""Reads what is kept; an older program may have kept less."""


@dataclass(frozen=True, kw_only=True)
class NodeRow:
    """A node's last report, and what follows from when it came."""

    report: NodeReport
    """Its counts are those of all its lives."""
    heard: NodeHeard
    is_dead: bool
    """Mains and proxies are told, and `committed` does not wait for it if it had no open stream."""


def _with_lives_before(report: NodeReport, before: _Kept | None) -> _Kept:
    """A node that counts less than it did has begun anew: what crossed zones is not forgotten with its life."""
    told = {each.name: getattr(report, each.name) for each in fields(NodeReport)}
    if before is None:
        return _Kept(**told)
    traffic, cold = before.traffic_before, before.cold_reads_before
    if _counted(report) < _counted(before):
        traffic, cold = summed([*traffic, *before.traffic]), cold + before.cold_reads
    return _Kept(**told, traffic_before=traffic, cold_reads_before=cold)


def _counted(report: NodeReport) -> int:
    return sum(each.bytes for each in report.traffic) + report.cold_reads.reads


def summed(hops: Iterable[Hop]) -> list[Hop]:
    """One for each plane and pair of zones."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for hop in hops:
        sums[hop.plane, hop.from_zone, hop.to_zone] += hop.bytes
    return [
        Hop(plane=plane, from_zone=from_zone, to_zone=to_zone, bytes=size)
        for (plane, from_zone, to_zone), size in sorted(sums.items())
    ]


def keep_report(connection: Connection, report: NodeReport) -> None:
    """In the place of the one before. Raises StateConflict where there are too many nodes."""
    nodes = zone_router_nodes
    known = sa.select(sa.func.count(), sa.func.count().filter(nodes.c.node == report.node)).select_from(nodes)
    all_of_them, this_one = connection.execute(known).one()
    if all_of_them >= MOST_NODES and not this_one:
        raise StateConflict(f"{MOST_NODES} nodes have reported, and no more may; forget those that are dead")
    found = connection.execute(
        sa.select(nodes.c.report).where(nodes.c.node == report.node).with_for_update()
    ).scalar_one_or_none()
    whole = _with_lives_before(report, _REPORT.validate_python(found) if found else None)
    row = insert(nodes).values(node=report.node, report=asdict(whole), seen_at=_NOW, unbroken_since=_NOW)
    late: ColumnElement[bool] = _NOW - nodes.c.seen_at > timedelta(seconds=GAP_SECONDS)
    since = sa.case((late, _NOW), else_=nodes.c.unbroken_since)
    kept = {"report": row.excluded.report, "seen_at": _NOW, "unbroken_since": since}
    connection.execute(row.on_conflict_do_update(index_elements=["node"], set_=kept))


def list_nodes(connection: Connection) -> list[NodeRow]:
    """All that are known, by name."""
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
        found.append((report, _heard(report, max(0.0, float(silent)), float(unbroken))))
    dead = dead_nodes([heard for _, heard in found])
    return [NodeRow(report=report, heard=heard, is_dead=report.node in dead) for report, heard in found]


def zone_servers(connection: Connection) -> dict[tuple[str, str], str]:
    """Bootstrap servers of each cluster in each zone where a proxy lives, by cluster and zone.

    Behind those of the zone stand those of other zones: a client whose zone has no node any more finds its way by
    them, which tell it brokers' own addresses then.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for row in list_nodes(connection):
        if not row.is_dead:
            for cluster, server in row.report.bootstrap_servers.items():
                found.setdefault(cluster, {}).setdefault(row.report.zone, []).append(server)
    return {
        (cluster, zone): ",".join([*servers, *(each for other in zones if other != zone for each in zones[other])])
        for cluster, zones in found.items()
        for zone, servers in zones.items()
    }


def forget_node(connection: Connection, node: str) -> None:
    """Raises NotFound; StateConflict for one that is not dead."""
    row = next((each for each in list_nodes(connection) if each.report.node == node), None)
    if row is None:
        raise NotFound(f"no node {node[:60]!r} has reported; GET /zones lists those that have")
    if not row.is_dead:
        raise StateConflict(f"{node} lives: it has reported {row.heard.silent_seconds:.0f} s ago")
    connection.execute(sa.delete(zone_router_nodes).where(zone_router_nodes.c.node == node))


def forget_long_gone(connection: Connection) -> None:
    """Nodes that nobody waits for."""
    nodes = zone_router_nodes.c
    idle = nodes.report["open_streams"].as_integer() == 0
    connection.execute(sa.delete(zone_router_nodes).where(nodes.seen_at < _NOW - FORGOTTEN_AFTER, idle))


def now(connection: Connection) -> datetime:
    """By the database's clock, as ages of reports."""
    time: datetime = connection.execute(sa.select(_NOW)).scalar_one()
    return time


def _heard(report: NodeReport, silent: float, unbroken: float) -> NodeHeard:
    return NodeHeard(
        node=report.node,
        is_main="main" in report.serves,
        reported_epoch=report.reported_epoch,
        open_streams=report.open_streams,
        silent_seconds=silent,
        unbroken_seconds=unbroken,
    )
