"""`/clusters/{cluster}/replication`: leaders and ISRs of a cluster, and election of preferred leaders."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import Body, Reading, SharedServices, Writing, plausible_names, respond
from backend.cluster_requests.broker_loss import document, names, what_if_broker_dies
from backend.cluster_requests.electing import Election, elect_preferred, refusals_by_reason
from backend.deciders import LEADER_ELECTIONS
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.placement.leader_elections import MOST_TOPICS, RecordElection, event_stream
from backend.queries.clusters.clusters import ClusterRow, find_cluster
from backend.queries.replication.replication import find_replication

_BROKER = Query(ge=0, lt=2**31, description="Id of the broker.")

router = APIRouter(prefix="/clusters", tags=["clusters"], dependencies=[Depends(plausible_names)])


class WhichTopics(Body):
    """Topics whose preferred replicas are to lead."""

    topics: list[str] | None = Field(
        None,
        min_length=1,
        max_length=MOST_TOPICS,
        description="Names of topics on the cluster; all topics if omitted.",
    )


@router.get("/{cluster}/replication", openapi_extra=needs(Action.READ_ESTATE))
def get_replication(cluster: str, connection: Reading) -> dict[str, Any]:
    """Return the state of the cluster's replication, as a worker observed it some seconds ago, with alerts."""
    row = find_cluster(connection, cluster)
    found = find_replication(connection, row.kafka_cluster_id)
    health = dict(found.health or {})
    listed = health.pop("alerts", [])
    return {
        "cluster": row.name,
        "state": row.state,
        "age_seconds": found.age_seconds,
        "reason": row.reason or found.reason,
        "alerts": listed,
        "health": health or None,
    }


@router.get("/{cluster}/replication/what-if", openapi_extra=needs(Action.READ_ESTATE))
def what_if(cluster: str, services: SharedServices, broker: int = _BROKER) -> dict[str, Any]:
    """Return what would be lost if a broker died now: the current leaders and ISRs, played in the lab."""
    with services.reading() as connection:
        row = find_cluster(connection, cluster)
    return {
        "cluster": row.name,
        **document(what_if_broker_dies(row, broker, services.config.probe_timeout_seconds)),
    }


@router.post("/{cluster}/elect-preferred-leaders", openapi_extra=needs(Action.CHANGE_ESTATE))
def elect_preferred_leaders(cluster: str, write: Writing, body: WhichTopics | None = None) -> Response:
    """Elect the preferred leader of each partition where it is in sync; others are reported with the reason."""
    with write.services.reading() as connection:
        row = find_cluster(connection, cluster)
    write.match(row.version)
    topics = None if body is None or body.topics is None else tuple(dict.fromkeys(body.topics))
    stream = event_stream(row.name)
    nothing = RecordElection(cluster=row.name, topics=topics, elected=0, refused={})
    first = write.rehearse(LEADER_ELECTIONS, stream, lambda _: nothing)
    if first is not None:
        return first
    seconds = write.services.config.probe_timeout_seconds
    done = elect_preferred(row, topics, seconds, dry_run=write.dry_run)
    if write.dry_run:
        return respond(Answer(200, _shown(row, done)))

    def answer(_: Connection, outcome: Outcome) -> Answer:
        return Answer(200, _shown(row, done))

    return write.run(LEADER_ELECTIONS, stream, lambda _: done.command(row.name, topics), answer)


def _shown(row: ClusterRow, done: Election) -> dict[str, Any]:
    reasons = sorted(refusals_by_reason(done.refused).items())
    return {
        "cluster": row.name,
        "elected": len(done.elected),
        "examples": names(list(done.elected)),
        "already": done.already,
        "refused": [
            {"reason": reason, "count": len(places), "examples": names(places)} for reason, places in reasons
        ],
    }
