"""Queries of placement policies."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.placement.placement_policy import PlacementPolicy, Policy
from backend.domain.placement.placement_runs import RunLimits
from backend.projections.placement_policies import placement_policies
from backend.projections.temporal import as_of


@dataclass(frozen=True, kw_only=True)
class PolicyRow:
    """The placement policy of a cluster."""

    policy: PlacementPolicy
    version: int
    """Version of the policy; 0 if it was never set."""


def find_policy(connection: Connection, cluster: str, at: int | None = None) -> PolicyRow:
    """Return the policy of a cluster, or the default if it was never set."""
    query = sa.select(placement_policies).where(placement_policies.c.cluster == cluster)
    row = connection.execute(query.where(as_of(placement_policies, at))).one_or_none()
    if row is None:
        return PolicyRow(policy=PlacementPolicy(), version=0)
    policy = PlacementPolicy(
        policy=Policy(row.policy), away_minutes=row.away_minutes, limits=RunLimits(**row.limits)
    )
    return PolicyRow(policy=policy, version=row.version)
