"""Projection of placement policies, for brokers that join or leave: no row where none was set."""

from __future__ import annotations

from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.clusters.cluster import ClusterRemoved
from backend.domain.placement.placement_policy import PlacementPolicySet
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, replace, temporal_table

placement_policies = temporal_table(
    "placement_policies",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("away_minutes", sa.BigInteger, nullable=False),
    sa.Column("limits", JSONB, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    match recorded.event:
        case PlacementPolicySet() as event:
            values = {
                "policy": event.policy,
                "away_minutes": event.away_minutes,
                "limits": asdict(event.limits),
                "version": recorded.version,
            }
            replace(rows, placement_policies, {"cluster": event.cluster}, values, recorded.position)
        case ClusterRemoved():
            # Another cluster may get the name.
            key = {"cluster": recorded.stream.removeprefix("cluster-")}
            replace(rows, placement_policies, key, None, recorded.position)


PROJECTION = Projection(
    name="placement-policies",
    events=frozenset({PlacementPolicySet, ClusterRemoved}),
    tables=(placement_policies,),
    apply=_apply,
)
