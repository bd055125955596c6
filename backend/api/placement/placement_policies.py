"""`/clusters/{cluster}/placement-policy`: the reaction to brokers that join or leave."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import At, Body, Reading, Writing, etag, plausible_names, shown_at
from backend.api.placement.placement_runs import HowFast
from backend.changes import placement_policies as changes
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.placement.placement_policy import LONGEST_AWAY_MINUTES, PlacementPolicy, Policy
from backend.queries.clusters.clusters import find_cluster
from backend.queries.placement.placement_policies import PolicyRow, find_policy

router = APIRouter(prefix="/clusters", tags=["clusters"], dependencies=[Depends(plausible_names)])


class NewPolicy(Body):
    """A placement policy; omitted fields have their defaults."""

    policy: Literal["off", "propose", "apply"] = Field(
        description="`off`: do nothing; `propose`: create a plan for an operator to review; `apply`: also apply "
        "the plan, unless it needs review."
    )
    away_minutes: int = Field(
        PlacementPolicy.away_minutes,
        ge=1,
        le=LONGEST_AWAY_MINUTES,
        description="Minutes after which a broker that is away counts as having left.",
    )
    limits: HowFast = Field(default_factory=HowFast, description="Limits of the runs that the policy starts.")

    def wanted(self) -> PlacementPolicy:
        """Convert the body to the domain's policy."""
        return PlacementPolicy(
            policy=Policy(self.policy), away_minutes=self.away_minutes, limits=self.limits.limits()
        )


@router.get("/{cluster}/placement-policy", openapi_extra=needs(Action.READ_ESTATE))
def get_placement_policy(cluster: str, connection: Reading, at: At) -> Response:
    """Return the placement policy of a cluster: what happens when brokers join or leave."""
    find_cluster(connection, cluster, at)
    row = find_policy(connection, cluster, at)
    return shown_at(row.version, shown(cluster, row))


@router.put("/{cluster}/placement-policy", openapi_extra=needs(Action.CHANGE_ESTATE))
def set_placement_policy(cluster: str, body: NewPolicy, write: Writing) -> Response:
    """Set the placement policy of a cluster; repeating the request changes nothing."""

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_policy(connection, cluster)
        return Answer(200, shown(cluster, row), {"ETag": etag(row.version)})

    return write.carry_out(changes.set_policy(cluster, body.wanted(), write.match), answer)


def shown(cluster: str, row: PolicyRow) -> dict[str, Any]:
    """Return a policy as responses show it."""
    policy = row.policy
    return {
        "cluster": cluster,
        "policy": str(policy.policy),
        "away_minutes": policy.away_minutes,
        "limits": asdict(policy.limits),
    }
