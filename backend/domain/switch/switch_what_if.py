"""What-if analysis: the consequences if clusters or brokers were gone.

Clusters are left out of the facts. For a broker, the facts stay as they are and the replication lab predicts the
outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from backend.domain.switch.switch_facts import APPLIED, OFFLINE, BrokerLossFact, ClusterFact, Facts, Without

GONE = "supposed to be gone"


@dataclass(frozen=True, kw_only=True)
class StoppedDistributor:
    """A distributor that would stop copying because its source or target is gone."""

    cluster: str
    level: int
    target: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class MustMove:
    """Clients that would have to move, and the clusters they could move to."""

    tenant: str
    instance: str
    environment: str
    zone: str | None
    cluster: str
    could_go_to: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CutRoute:
    """An origin whose records would not reach some clusters with the present targets."""

    origin: str
    unreached: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """Consequences of the loss of clusters or brokers."""

    gone: tuple[str, ...]
    edges: tuple[StoppedDistributor, ...]
    must_move: tuple[MustMove, ...]
    cut_routes: tuple[CutRoute, ...]
    records_at_risk: Mapping[str, int | None]
    """Cluster assumed to be gone -> records that no other leaf has yet; None: unknown."""
    brokers: tuple[BrokerLossFact, ...]
    """Predicted outcome, for each broker assumed to be gone, for partitions of the streams that would move."""


def clusters_gone(clusters: Mapping[str, ClusterFact], without: Without) -> frozenset[str]:
    """Return the clusters that a what-if leaves out, by name or by zone."""
    return frozenset(
        name for name, row in clusters.items() if name in without.clusters or row.zone in without.zones
    )


def leave_out(facts: Facts, without: Without) -> Facts:
    """Return a copy of the facts in which these clusters are offline and the distributors at them blocked."""
    gone = clusters_gone(facts.clusters, without)
    if not gone:
        return facts
    return replace(
        facts,
        clusters={
            name: replace(row, state=OFFLINE, reason=GONE) if name in gone else row
            for name, row in facts.clusters.items()
        },
        edges={
            (cluster, level): replace(row, state="blocked", reason=f"{ends[0]} is {GONE}") if ends else row
            for (cluster, level), row in facts.edges.items()
            for ends in [[end for end in (cluster, facts.targets.get((cluster, level), "")) if end in gone]]
        },
    )


def consequences(given: Facts, facts: Facts, without: Without) -> WhatIf | None:
    """Return the consequences of leaving clusters out of `given`; None if nothing is. `facts`: without them."""
    gone = clusters_gone(given.clusters, without)
    if without.is_empty:
        return None
    return WhatIf(
        gone=tuple(sorted(gone)),
        edges=tuple(
            StoppedDistributor(
                cluster=cluster,
                level=level,
                target=target,
                reason="its source is gone" if cluster in gone else "its target is gone",
            )
            for (cluster, level), target in sorted(facts.targets.items())
            if cluster in gone or target in gone
        ),
        must_move=tuple(_must_move(facts, gone)),
        cut_routes=tuple(_cut(facts, gone)),
        records_at_risk={name: given.at_risk.get(name) for name in sorted(gone)},
        brokers=given.answers.brokers_gone,
    )


def _must_move(facts: Facts, gone: frozenset[str]) -> list[MustMove]:
    streams = (*facts.streams, *facts.other_streams)
    found = []
    for row in facts.active:
        if row.cluster not in gone or row.cluster is None:
            continue
        needs = [each for each in streams if each.place == row.place and each.distributed]
        could = tuple(
            leaf
            for leaf in facts.leaves
            if facts.is_online(leaf) and all(each.applied.get(leaf) == APPLIED for each in needs)
        )
        found.append(
            MustMove(
                tenant=row.tenant,
                instance=row.instance,
                environment=row.environment,
                zone=row.zone,
                cluster=row.cluster,
                could_go_to=could,
            )
        )
    return found


def _cut(facts: Facts, gone: frozenset[str]) -> list[CutRoute]:
    """Return the origins whose routes to remaining clusters lead through one that is gone."""
    found = []
    for origin, edges in facts.routes.items():
        if origin in gone:
            continue
        reached = {origin}
        for edge in edges:  # in the order in which they are reached
            if edge.source in reached and edge.target not in gone:
                reached.add(edge.target)
        unreached = tuple(leaf for leaf in facts.leaves if leaf not in reached | gone)
        if unreached:
            found.append(CutRoute(origin=origin, unreached=unreached))
    return found
