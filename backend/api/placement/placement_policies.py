"""`/clusters/{cluster}/placement-policy`: what is done about replicas when brokers come or go."""

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
    """What is to hold; what is left out is as usual."""

    policy: Literal["off", "propose", "apply"] = Field(
        description="`off`: nothing; `propose`: a placement is planned; `apply`: and applied, if nothing in it is "
        "to be looked at first."
    )
    away_minutes: int = Field(
        PlacementPolicy.away_minutes,
        ge=1,
        le=LONGEST_AWAY_MINUTES,
        description="A broker that is away for longer has left.",
    )
    limits: HowFast = Field(default_factory=HowFast, description="Of what is applied.")

    def wanted(self) -> PlacementPolicy:
        """What the domain takes."""
        return PlacementPolicy(
            policy=Policy(self.policy), away_minutes=self.away_minutes, limits=self.limits.limits()
        )


@router.get("/{cluster}/placement-policy", openapi_extra=needs(Action.READ_ESTATE))
def get_placement_policy(cluster: str, connection: Reading, at: At) -> Response:
    """What is done about replicas of a cluster when brokers come or go."""
    find_cluster(connection, cluster, at)
    row = find_policy(connection, cluster, at)
    return shown_at(row.version, shown(cluster, row))


@router.put("/{cluster}/placement-policy", openapi_extra=needs(Action.CHANGE_ESTATE))
def set_placement_policy(cluster: str, body: NewPolicy, write: Writing) -> Response:
    """Have it like this from now on; the same again changes nothing."""

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_policy(connection, cluster)
        return Answer(200, shown(cluster, row), {"ETag": etag(row.version)})

    return write.carry_out(changes.set_policy(cluster, body.wanted(), write.match), answer)


def shown(cluster: str, row: PolicyRow) -> dict[str, Any]:
    """A policy as answers show it."""
    policy = row.policy
    return {
        "cluster": cluster,
        "policy": str(policy.policy),
        "away_minutes": policy.away_minutes,
        "limits": asdict(policy.limits),
    }
