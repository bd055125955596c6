"""`/clusters/{cluster}/adoption`: adopting topics that a cluster already holds; see `changes/adoptions.py`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import ConfigDict, Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import Body, SharedServices, Writing, plausible_names, respond
from backend.changes import adoptions as changes
from backend.changes.adoptions import NAMED
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.clusters.adoption_plan import AdoptionPlan, TopicPlan
from backend.queries.history.operations import operation_id

router = APIRouter(
    prefix="/clusters/{cluster}/adoption", tags=["clusters"], dependencies=[Depends(plausible_names)]
)


class AdoptionRequest(Body):
    """Adoption of topics as a plan shows it."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_by_alias=True)

    digest: str = Field(description="Digest of the plan.")
    topics: list[str] | None = Field(None, description="Only these topics; left out: all that can be adopted.")
    named: list[str] = Field(default_factory=list, alias="as", description=f"As in the plan: {NAMED}.")
    take_settings: bool = Field(False, description="As in the plan.")


TakeSettings = Annotated[
    bool,
    Query(
        description="New streams declare every setting of their topic that can be declared; otherwise settings "
        "that are no field of a stream stay with the topic, and the plan warns of them."
    ),
]
Named = Annotated[list[str] | None, Query(alias="as", description=f"Stream of an ambiguous name: {NAMED}.")]


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def plan_adoption(
    cluster: str, services: SharedServices, named: Named = None, take_settings: TakeSettings = False
) -> dict[str, Any]:
    """Show what adopting the cluster's topics would do; queries the cluster, changes nothing."""
    return shown(
        changes.plan_adoption(services.reading, services.config, cluster, named or [], take_settings=take_settings)
    )


@router.post("", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def adopt(cluster: str, body: AdoptionRequest, write: Writing) -> Response:
    """Begin the adoption of topics; 200 if all of them are adopted already."""
    if write.idempotency is not None and not write.dry_run:
        first = write.services.dispatcher.recall(write.metadata.actor, write.idempotency)
        if first is not None:
            return respond(first)
    plan = changes.plan_adoption(
        write.services.reading, write.services.config, cluster, body.named, take_settings=body.take_settings
    )
    chosen = changes.check_reviewed(plan, body.digest).topics_to_adopt(body.topics)
    shape = {"cluster": cluster, "topics": len(chosen)}
    if not chosen:
        return respond(Answer(200, {**shape, "operation": None}))

    def answer(_: Connection, outcome: Outcome) -> Answer:
        if write.dry_run:
            return Answer(200, {**shape, "operation": None})
        operation = operation_id(outcome.events[0])
        headers = {"Location": f"/api/v1/operations/{operation}"}
        return Answer(202, {**shape, "operation": operation}, headers)

    return write.carry_out(changes.begin_adoption(cluster, chosen), answer)


def shown(plan: AdoptionPlan) -> dict[str, Any]:
    """Return a plan as responses show it."""
    return {
        "cluster": plan.cluster,
        "digest": plan.digest,
        "topics": [_topic(row) for row in plan.topics],
        "groups": [
            {"group": row.group, "stands_for": row.found and str(row.found), "reason": row.reason}
            for row in plan.groups
        ],
        "warnings": list(plan.warnings),
    }


def _topic(row: TopicPlan) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "action": row.action,
        "stream": row.stream and str(row.stream),
        "partitions": row.partitions,
        "records": row.records,
        "settings": row.settings and {**vars(row.settings), "config": dict(row.settings.config)},
        "changes": {name: {"from": before, "to": after} for name, (before, after) in row.changes.items()},
        "undeclared": dict(row.undeclared),
        "reason": row.reason,
        "readings": [str(each) for each in row.readings],
        "warnings": list(row.warnings),
    }
