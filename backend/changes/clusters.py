"""Changes of clusters. A new address is probed first, outside of the append lock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from backend.changes.change import Change, Match, any_version
from backend.changes.probing import Prober
from backend.deciders import CLUSTER
from backend.domain.base.errors import ClusterUnreachable
from backend.domain.clusters.client_properties import unmasked
from backend.domain.clusters.cluster import AddCluster, ChangeCluster, Cluster, ClusterCommand, RemoveCluster
from backend.kafka.base.destinations import check_destinations
from backend.kafka.base.probe import ClusterFacts, probe
from backend.kafka.base.references import check_references
from backend.queries.base.naming import declared_streams, live_stream_on
from backend.queries.clusters import clusters as queries
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.tenants.application_groups import application_on

ClusterChange = Change[Cluster | None, ClusterCommand]
ProbeResult = tuple[ClusterFacts | None, str | None]
"""Facts of the cluster that responds at an address, or the reason why none does."""
NOT_PROBED: ProbeResult = (None, None)
"""Result of a probe that was not made."""


def add_cluster(described: Mapping[str, Any], found: ProbeResult = NOT_PROBED) -> ClusterChange:
    """Register a Kafka cluster. `described`: the fields of AddCluster that a request names."""
    facts, unreachable = found

    def build(connection: Connection) -> AddCluster:
        return AddCluster(
            **described,
            number=queries.next_number(connection),
            known_kafka_clusters=queries.known_kafka_clusters(connection),
            declared_streams=declared_streams(connection),
            kafka_cluster_id=facts.kafka_cluster_id if facts else None,
            brokers=len(facts.brokers) if facts else None,
            unreachable=unreachable,
        )

    return Change(CLUSTER, event_stream(str(described["name"])), build)


def change_cluster(
    cluster: str, changes: Mapping[str, Any], found: ProbeResult = NOT_PROBED, match: Match = any_version
) -> ClusterChange:
    """Change a cluster's description. `changes`: the fields of ChangeCluster that a request names."""

    def build(connection: Connection) -> ChangeCluster:
        row = queries.get_cluster(connection, cluster)
        if row is not None:
            match(row.version)
        return ChangeCluster(
            **changes,
            known_kafka_clusters=queries.known_kafka_clusters(connection),
            declared_streams=declared_streams(connection),
            live_stream=live_stream_on(connection, cluster),
            live_application=application_on(connection, cluster),
            kafka_cluster_id=found[0].kafka_cluster_id if found[0] else None,
        )

    return Change(CLUSTER, event_stream(cluster), build)


def remove_cluster(cluster: str, match: Match = any_version) -> ClusterChange:
    """Remove a cluster that is in no tree."""

    def build(connection: Connection) -> RemoveCluster:
        row = queries.get_cluster(connection, cluster)
        if row is not None:
            match(row.version)
        return RemoveCluster(trees=queries.trees_with(connection, cluster))

    return Change(CLUSTER, event_stream(cluster), build)


def probe_cluster(
    bootstrap_servers: str,
    properties: Mapping[str, str],
    timeout_seconds: float,
    accept_offline: bool,
    prober: Prober,
) -> ProbeResult:
    """Probe an address and return what responds there.

    A probe that leaves no event is recorded for the audit log: that of a dry run, before anything is sent.

    Raises ClusterUnreachable unless offline is accepted; AddressForbidden and PropertiesInvalid in any case.
    """
    check_references(properties, bootstrap_servers)
    check_destinations(bootstrap_servers, properties)
    if prober.dry_run:
        prober.note(bootstrap_servers, properties)
    try:
        return probe(bootstrap_servers, properties, timeout_seconds), None
    except ClusterUnreachable as error:
        if not accept_offline:
            if not prober.dry_run:
                prober.note(bootstrap_servers, properties)
            raise
        return None, error.errors[0].detail if error.errors else error.detail


def probe_if_changed(
    row: ClusterRow,
    bootstrap_servers: str | None,
    properties: Mapping[str, str] | None,
    timeout_seconds: float,
    accept_offline: bool,
    prober: Prober,
) -> ProbeResult:
    """Probe a cluster's changed address (None: unchanged).

    Return NOT_PROBED if nothing about its connection changes.
    Raises ClusterUnreachable unless offline is accepted.
    """
    servers = row.bootstrap_servers if bootstrap_servers is None else bootstrap_servers
    wanted = row.properties if properties is None else unmasked(properties, row.properties)
    if (servers, wanted) == (row.bootstrap_servers, row.properties):
        return NOT_PROBED
    return probe_cluster(servers, wanted, timeout_seconds, accept_offline, prober)


def event_stream(cluster: str) -> str:
    """Return the name of a cluster's event stream."""
    return f"cluster-{cluster}"
