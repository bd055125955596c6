"""Changes of a cluster's placement policy: what happens with replicas when brokers join or leave."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.changes.change import Change, Match, any_version
from backend.deciders import PLACEMENT_POLICY
from backend.domain.placement.placement_policy import PlacementPolicy, Policies, SetPolicy, event_stream
from backend.queries.clusters.clusters import list_clusters
from backend.queries.placement.placement_policies import find_policy


def set_policy(cluster: str, wanted: PlacementPolicy, match: Match = any_version) -> Change[Policies, SetPolicy]:
    """Set a cluster's placement policy; `match` gets the version that is replaced, 0 if none was set."""

    def build(connection: Connection) -> SetPolicy:
        present = find_policy(connection, cluster)
        match(present.version)
        return SetPolicy(
            cluster=cluster,
            wanted=wanted,
            present=present.policy,
            known_clusters=frozenset(row.name for row in list_clusters(connection)),
        )

    return Change(PLACEMENT_POLICY, event_stream(cluster), build)
