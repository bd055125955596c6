"""`/clusters`: the Kafka clusters that can be leaves of a tree."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import (
    At,
    Body,
    Paging,
    Reading,
    SharedServices,
    Write,
    Writing,
    etag,
    listed,
    plausible_names,
    shown_at,
)
from backend.changes import clusters as changes
from backend.changes.probing import Prober
from backend.dispatch import Answer
from backend.domain.access.access import Action
from backend.domain.clusters.client_properties import masked
from backend.domain.names import formats
from backend.domain.topics.replica_defaults import ReplicaDefaults
from backend.queries.clusters import clusters as queries
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.topics.at_risk import records_at_risk

router = APIRouter(prefix="/clusters", tags=["clusters"], dependencies=[Depends(plausible_names)])


class Defaults(Body):
    """Replica defaults for streams that declare none; a value left out or null is automatic."""

    replication_factor: int | None = None
    min_insync_replicas: int | None = None

    def read(self) -> ReplicaDefaults:
        return ReplicaDefaults(**self.model_dump())


class NewCluster(Body):
    """A Kafka cluster to add."""

    name: str
    bootstrap_servers: str
    zone: str | None = None
    topic_format: str = formats.DEFAULT_TOPIC_FORMAT
    group_format: str = formats.DEFAULT_GROUP_FORMAT
    subject_format: str = formats.DEFAULT_SUBJECT_FORMAT
    properties: dict[str, str] = Field(default_factory=dict)
    defaults: Defaults = Defaults()
    accept_offline: bool = Field(False, description="Add it even if it does not answer.")


class ClusterChanges(Body):
    """Changes of a cluster; fields left out, or null, stay. Only `zone` can be removed by null."""

    bootstrap_servers: str | None = None
    zone: str | None = None
    topic_format: str | None = None
    group_format: str | None = None
    subject_format: str | None = None
    properties: dict[str, str] | None = Field(
        None, description="Replaces all properties; a secret sent as *** stays unchanged."
    )
    defaults: Defaults | None = None
    accept_offline: bool = Field(False, description="Accept new bootstrap servers even if they do not answer.")


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def list_clusters(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List all clusters, by number."""
    at_risk = {} if at is not None else records_at_risk(connection)
    rows = queries.list_clusters(connection, at)
    return listed(rows, page, lambda row: row.number, lambda row: shown(row, at_risk.get(row.name)))


@router.post("", status_code=201, openapi_extra=needs(Action.CHANGE_ESTATE))
def add_cluster(body: NewCluster, write: Writing) -> Response:
    """Add a Kafka cluster. It must answer within some seconds, unless `accept_offline` is set."""
    described = {**body.model_dump(exclude={"accept_offline"}), "defaults": body.defaults.read()}
    first = write.rehearse_change(changes.add_cluster(described))
    if first is not None:
        return first
    seconds = write.services.config.probe_timeout_seconds
    found = changes.probe_cluster(
        body.bootstrap_servers, body.properties, seconds, body.accept_offline, _prober(write)
    )
    return write.carry_out(changes.add_cluster(described, found), lambda c, _: _created(c, body.name))


@router.get("/{cluster}", openapi_extra=needs(Action.READ_ESTATE))
def get_cluster(cluster: str, connection: Reading, at: At) -> Response:
    """Show one cluster."""
    row = queries.find_cluster(connection, cluster, at)
    at_risk = None if at is not None else records_at_risk(connection).get(cluster)
    return shown_at(row.version, shown(row, at_risk))


@router.patch("/{cluster}", openapi_extra=needs(Action.CHANGE_ESTATE))
def change_cluster(cluster: str, body: ClusterChanges, write: Writing, services: SharedServices) -> Response:
    """Change a cluster's connection, formats, zone or replica defaults."""
    clear_zone = "zone" in body.model_fields_set and body.zone is None
    defaults = body.defaults and body.defaults.read()
    wanted = {**body.model_dump(exclude={"accept_offline"}), "clear_zone": clear_zone, "defaults": defaults}
    first = write.rehearse_change(changes.change_cluster(cluster, wanted, match=write.match))
    if first is not None:
        return first
    with services.reading() as connection:
        row = queries.find_cluster(connection, cluster)
    seconds = services.config.probe_timeout_seconds
    found = changes.probe_if_changed(
        row, body.bootstrap_servers, body.properties, seconds, body.accept_offline, _prober(write)
    )
    change = changes.change_cluster(cluster, wanted, found, write.match)
    return write.carry_out(change, lambda c, _: _changed(c, cluster))


@router.delete("/{cluster}", status_code=204, openapi_extra=needs(Action.CHANGE_ESTATE))
def remove_cluster(cluster: str, write: Writing) -> Response:
    """Remove a cluster that is in no tree."""
    return write.carry_out(changes.remove_cluster(cluster, write.match), lambda _c, _o: Answer(204, None))


def shown(row: ClusterRow, at_risk: int | None = None) -> dict[str, Any]:
    """Return a cluster as responses show it, secrets masked.

    `at_risk`: upper bound of the unreplicated records, which would be lost if the cluster died now. None: unknown,
    or not requested, as in responses to writes, which hold the append lock.
    """
    return {
        "name": row.name,
        "number": row.number,
        "bootstrap_servers": row.bootstrap_servers,
        "zone": row.zone,
        "topic_format": row.topic_format,
        "group_format": row.group_format,
        "subject_format": row.subject_format,
        "properties": masked(row.properties),
        "state": row.state,
        "reason": row.reason,
        "kafka_cluster_id": row.kafka_cluster_id,
        "brokers": row.brokers,
        "defaults": row.defaults.shown(row.brokers),
        "defaults_set": asdict(row.defaults),
        "records_at_risk": at_risk,
        "position": row.position,
    }


def _prober(write: Write) -> Prober:
    return Prober(write.services.engine, write.metadata.actor, write.dry_run)


def _created(connection: Connection, name: str) -> Answer:
    row = queries.find_cluster(connection, name)
    headers = {"Location": f"/api/v1/clusters/{name}", "ETag": etag(row.version)}
    return Answer(201, shown(row), headers)


def _changed(connection: Connection, name: str) -> Answer:
    row = queries.find_cluster(connection, name)
    return Answer(200, shown(row), {"ETag": etag(row.version)})
