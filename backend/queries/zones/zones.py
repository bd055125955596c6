"""Snapshot of the zone router: epochs, nodes, broker-to-proxy assignment, and bytes between zones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.zones.route_epochs import NodeLiveness, mains_holding_back
from backend.domain.zones.zone_traffic import is_paid_payload
from backend.projections.clusters import clusters
from backend.projections.temporal import as_of
from backend.queries.base.events import event_at
from backend.queries.base.observed import cluster_replication
from backend.queries.zones.route_epochs import EpochsRow, find_epochs
from backend.queries.zones.zone_router import ColdReads, Hop, NodeRow, list_nodes, now, summed


@dataclass(frozen=True, kw_only=True)
class RoutedBroker:
    """A broker that nodes serve or run beside."""

    cluster: str
    broker: int
    zone: str | None
    """The zone of its main, else the rack that was last observed; None if neither is known."""
    main: NodeRow | None
    proxies: Mapping[str, Sequence[NodeRow]]
    """Proxies that report to serve the broker, by zone. There is more than one while the assignment changes, or
    after a node became unreachable."""


@dataclass(frozen=True, kw_only=True)
class ZoneRouterState:
    """State of the zone router."""

    epochs: EpochsRow
    nodes: Sequence[NodeRow]
    now: datetime
    racks: Mapping[tuple[str, int], str] = field(default_factory=dict)

    @property
    def zones(self) -> list[str]:
        """Zones that have nodes or brokers, sorted."""
        of_brokers = {each.zone for each in self.brokers if each.zone is not None}
        return sorted(of_brokers.union(each.report.zone for each in self.nodes))

    @property
    def brokers(self) -> list[RoutedBroker]:
        """Brokers, sorted by cluster and id."""
        mains = self._mains()
        standing: dict[tuple[str, int], dict[str, list[NodeRow]]] = {place: {} for place in mains}
        for each in self.nodes:
            for cluster, ids in each.report.stands_for.items():
                for broker in ids:
                    zones = standing.setdefault((cluster, broker), {})
                    zones.setdefault(each.report.zone, []).append(each)
        found = []
        for place, proxies in sorted(standing.items()):
            main = mains.get(place)
            zone = main.report.zone if main else self.racks.get(place)
            found.append(RoutedBroker(cluster=place[0], broker=place[1], zone=zone, main=main, proxies=proxies))
        return found

    def _mains(self) -> dict[tuple[str, int], NodeRow]:
        """Return one main for each broker, a reachable one if there are several."""
        found = {}
        for each in sorted(self.nodes, key=lambda each: each.is_unreachable, reverse=True):
            if each.report.cluster is not None and each.report.broker is not None:
                found[each.report.cluster, each.report.broker] = each
        return found

    @property
    def traffic(self) -> list[Hop]:
        """Bytes of all nodes together, each since its first report, by plane and zones."""
        return summed(hop for each in self.nodes for hop in each.report.traffic)

    @property
    def paid_payload_bytes(self) -> int:
        """Produced and fetched bytes that went from one zone to another; the target is 0."""
        return sum(
            each.bytes for each in self.traffic if is_paid_payload(each.plane, each.from_zone, each.to_zone)
        )

    @property
    def cold_reads(self) -> ColdReads:
        return sum((each.report.cold_reads for each in self.nodes), ColdReads())

    @property
    def mains_holding_back(self) -> list[NodeLiveness]:
        """Mains more than one epoch behind the fence, the furthest behind first.

        The epoch that was fenced last is disregarded, as mains may not have reported since.
        """
        waited_for = mains_holding_back([each.liveness for each in self.nodes])
        return [each for each in waited_for if (each.reported_epoch or 0) < self.epochs.fenced - 1]


def read_zones(connection: Connection) -> ZoneRouterState:
    """Return the current state of the zone router."""
    nodes = list_nodes(connection)
    named = {cluster for each in nodes for cluster in each.report.stands_for}
    return ZoneRouterState(
        epochs=find_epochs(connection), nodes=nodes, now=now(connection), racks=_racks(connection, named)
    )


def read_past_epochs(connection: Connection, at: int) -> ZoneRouterState:
    """Return the epochs as of a position, with ages at that moment; the history of nodes is not stored."""
    event = event_at(connection, at)
    return ZoneRouterState(
        epochs=find_epochs(connection, at), nodes=(), now=now(connection) if event is None else event.time
    )


def _racks(connection: Connection, names: Collection[str]) -> dict[tuple[str, int], str]:
    """Return the racks of brokers as last observed by a worker, by cluster and broker id."""
    brokers = cluster_replication.c.health["brokers"]
    query = (
        sa.select(clusters.c.name, brokers)
        .join(cluster_replication, cluster_replication.c.kafka_cluster_id == clusters.c.kafka_cluster_id)
        .where(as_of(clusters, None), clusters.c.name.in_(names), brokers.is_not(None))
    )
    return {
        (name, each["id"]): each["rack"]
        for name, observed in connection.execute(query)
        for each in observed
        if each.get("rack")
    }
