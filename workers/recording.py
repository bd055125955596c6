"""Recording what the reconcile loop saw and did: as events, or as observations for internal topics."""

from __future__ import annotations

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend import deciders
from backend.domain import cluster as clusters
from backend.domain import tenant_commands as tenants
from backend.domain.steps import AlignTopic, RecordOffline, RecordOnline, UnwantedTopic, WantedTopic
from backend.queries.clusters import known_kafka_clusters
from backend.queries.observed import internal_topics
from workers import context

ACTOR = "worker:reconcile"


def cluster(step: RecordOnline | RecordOffline, request_id: str) -> None:
    """A cluster came or went."""

    def build(connection: Connection) -> clusters.ClusterCommand:
        if isinstance(step, RecordOffline):
            return clusters.RecordOffline(reason=step.reason)
        return clusters.RecordOnline(
            kafka_cluster_id=step.kafka_cluster_id,
            brokers=step.brokers,
            known_kafka_clusters=known_kafka_clusters(connection),
        )

    context.dispatch(deciders.CLUSTER, f"cluster-{step.cluster}", build, ACTOR, request_id)


def applied(step: AlignTopic, request_id: str) -> None:
    """A topic is as declared."""
    topic = step.wanted
    if topic.revision is None:
        _internal_topic(step)
        return
    tenant, instance, environment, stream = topic.stream.split("/")
    command = tenants.RecordApplied(
        instance=instance,
        environment=environment,
        stream=stream,
        cluster=topic.cluster,
        topic_id=step.topic_id,
        replication_factor=step.replication_factor,
        revision=topic.revision,
    )
    context.dispatch(deciders.TENANT, f"tenant-{tenant}", command, ACTOR, request_id)


def failed(topic: WantedTopic, reason: str, request_id: str) -> None:
    """A topic cannot be as declared; internal ones are only logged."""
    if topic.revision is None:
        return
    tenant, instance, environment, stream = topic.stream.split("/")
    command = tenants.RecordApplyFailed(
        instance=instance,
        environment=environment,
        stream=stream,
        cluster=topic.cluster,
        reason=reason,
        revision=topic.revision,
    )
    context.dispatch(deciders.TENANT, f"tenant-{tenant}", command, ACTOR, request_id)


def removed(topic: UnwantedTopic, request_id: str) -> None:
    """A deleted stream's topic is gone."""
    tenant, instance, environment, stream = topic.stream.split("/")
    command = tenants.RecordRemoved(
        instance=instance, environment=environment, stream=stream, cluster=topic.cluster
    )
    context.dispatch(deciders.TENANT, f"tenant-{tenant}", command, ACTOR, request_id)


def _internal_topic(step: AlignTopic) -> None:
    topic = step.wanted
    row = insert(internal_topics).values(
        topic=topic.topic,
        cluster=topic.cluster,
        topic_id=step.topic_id,
        incarnation=1,
        partitions=topic.partitions,
    )
    row = row.on_conflict_do_update(
        index_elements=["topic", "cluster"],
        set_={
            "topic_id": step.topic_id,
            "incarnation": internal_topics.c.incarnation + 1,
            "partitions": topic.partitions,
        },
        where=internal_topics.c.topic_id != step.topic_id,
    )
    with context.engine().begin() as connection:
        connection.execute(row)
