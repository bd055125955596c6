"""`/clusters/{c}/adoption`: what a cluster holds already, and taking it over as streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import ConfigDict, Field
from sqlalchemy import Connection

from backend.api.access import needs
from backend.api.requests import Body, SharedServices, Writing, plausible_names, respond
from backend.api.services import Services
from backend.deciders import ADOPTION
from backend.dispatch import Answer, Outcome
from backend.domain import adoption_plan
from backend.domain.access import Action
from backend.domain.adoption import BeginAdoption
from backend.domain.adoption_plan import AdoptionPlan, DeclaredStream, Facts, FoundTopic, TopicPlan
from backend.domain.errors import FieldError, NotFound, PlanStale, ValueInvalid
from backend.domain.formats import ClusterFormats, technical_name
from backend.domain.names import LONGEST_NAME, LONGEST_STREAM, StreamName, check_name
from backend.domain.stream_settings import StreamSettings
from backend.kafka.survey import ClusterPlace, holdings, survey
from backend.queries.adoptions import list_environments
from backend.queries.clusters import ClusterRow, list_clusters
from backend.queries.naming import leaf_formats
from backend.queries.streams import StreamRow, list_streams
from backend.queries.trees import MAIN

router = APIRouter(
    prefix="/clusters/{cluster}/adoption", tags=["clusters"], dependencies=[Depends(plausible_names)]
)

NAMED = "tenant/instance/environment/stream=topic"


class AdoptionRequest(Body):
    """Take over what a plan shows."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_by_alias=True)

    digest: str = Field(description="Of the plan that was looked at.")
    topics: list[str] | None = Field(None, description="Only these; left out: all that can be.")
    named: list[str] = Field(default_factory=list, alias="as", description=f"As in the plan: {NAMED}.")


Named = Annotated[list[str] | None, Query(alias="as", description=f"What an ambiguous name stands for: {NAMED}.")]


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def plan_adoption(cluster: str, services: SharedServices, named: Named = None) -> dict[str, Any]:
    """What adopting the cluster would do; looks at the cluster, changes nothing."""
    return shown(_plan(services, cluster, named or []))


@router.post("", status_code=202, openapi_extra=needs(Action.CHANGE_ESTATE))
def adopt(cluster: str, body: AdoptionRequest, write: Writing) -> Response:
    """Begin to take topics over; 200 if all of them are taken over already."""
    if write.idempotency is not None and not write.dry_run:
        first = write.services.dispatcher.recall(write.metadata.actor, write.idempotency)
        if first is not None:
            return respond(first)
    plan = _plan(write.services, cluster, body.named)
    if plan.digest != body.digest:
        raise PlanStale(
            f"what adopting {cluster} would do has changed since the plan was made; read the plan again",
            (FieldError("/digest", f"the present one is {plan.digest}"),),
        )
    chosen = plan.chosen(body.topics)
    shape = {"cluster": cluster, "topics": len(chosen)}
    if not chosen:
        return respond(Answer(200, {**shape, "operation": None}))

    def build(_: Connection) -> BeginAdoption:
        return BeginAdoption(cluster=cluster, topics=chosen)

    def answer(_: Connection, outcome: Outcome) -> Answer:
        if write.dry_run:
            return Answer(200, {**shape, "operation": None})
        operation = f"adoption-{outcome.events[0].position}"
        headers = {"Location": f"/api/v1/operations/{operation}"}
        return Answer(202, {**shape, "operation": operation}, headers)

    return write.run(ADOPTION, f"adoption-{cluster}", build, answer)


def shown(plan: AdoptionPlan) -> dict[str, Any]:
    """A plan as answers show it."""
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
        "settings": row.settings and vars(row.settings),
        "changes": {name: {"from": before, "to": after} for name, (before, after) in row.changes.items()},
        "reason": row.reason,
        "readings": [str(each) for each in row.readings],
        "warnings": list(row.warnings),
    }


def _plan(services: Services, cluster: str, named: list[str]) -> AdoptionPlan:
    given = _named(named)
    with services.reading() as connection:
        rows = {row.name: row for row in list_clusters(connection)}
        leaves = leaf_formats(connection, MAIN)
        environments = list_environments(connection)
        streams = [row for row in list_streams(connection) if row.tree == MAIN]
    if cluster not in rows:
        raise NotFound(f"there is no cluster {cluster!r}; GET /clusters lists them")
    seconds = services.config.probe_timeout_seconds
    headers = (services.config.copy_flags_header, services.config.copy_origin_header)
    topics, groups = survey(_place(rows[cluster]), seconds, headers)
    facts = _facts(rows[cluster], topics, groups, leaves, environments, streams)
    # What other clusters hold is asked for by the streams that the topics stand for: those come from a first plan.
    found = [row.stream for row in adoption_plan.plan(facts, given).topics if row.stream]
    formats = {leaf.cluster: leaf.topic_format for leaf in facts.leaves if leaf.cluster != cluster}
    elsewhere = holdings(
        [_place(rows[name]) for name in formats],
        lambda name: {technical_name(formats[name], stream) for stream in found},
        seconds,
    )
    return adoption_plan.plan(replace(facts, elsewhere=elsewhere), given)


def _facts(
    row: ClusterRow,
    topics: list[FoundTopic],
    groups: list[tuple[str, str]],
    leaves: Sequence[ClusterFormats],
    environments: list[tuple[str, str, str]],
    streams: list[StreamRow],
) -> Facts:
    mine = ClusterFormats(row.name, row.topic_format, row.subject_format)
    return Facts(
        cluster=mine,
        group_format=row.group_format,
        in_tree=mine in leaves,
        topics=topics,
        groups=groups,
        environments=environments,
        streams={
            StreamName(each.tenant, each.instance, each.environment, each.name): DeclaredStream(
                settings=StreamSettings(
                    **{field.name: getattr(each, field.name) for field in fields(StreamSettings)}
                ),
                topic_id=each.topic_ids.get(row.name),
            )
            for each in streams
        },
        leaves=[*leaves] if mine in leaves else [*leaves, mine],
        elsewhere={},
    )


def _place(row: ClusterRow) -> ClusterPlace:
    return ClusterPlace(row.name, row.bootstrap_servers, row.properties)


def _named(given: list[str]) -> dict[str, StreamName]:
    """Topic -> stream, from `tenant/instance/environment/stream=topic`. Raises ValueInvalid or NameInvalid."""
    found: dict[str, StreamName] = {}
    for number, text in enumerate(given):
        stream, _, topic = text.partition("=")
        parts = stream.split("/")
        if len(parts) != 4 or not topic or topic in found:
            problem = "is named twice" if topic in found else f"is not {NAMED}"
            detail = f"{text[:300]!a} {problem}"
            raise ValueInvalid(detail, (FieldError(f"/as/{number}", detail),))
        for part, what in zip(parts, ("tenant", "instance", "environment", "stream"), strict=True):
            longest = LONGEST_STREAM if what == "stream" else LONGEST_NAME
            check_name(part, what, pointer=f"/as/{number}", longest=longest)
        found[topic] = StreamName(*parts)
    return found
