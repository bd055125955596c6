"""Recording of what the reconcile loop observed and did: as events, or as observations for internal topics."""

from __future__ import annotations

import time

import structlog
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend import deciders
from backend.dispatch import Directed
from backend.domain.base.errors import DomainError
from backend.domain.clusters import cluster as clusters
from backend.domain.tenants import stream_records
from backend.domain.tenants import tenant_commands as tenants
from backend.domain.topics.steps import (
    AlignTopic,
    FollowGrowth,
    RecordOffline,
    RecordOnline,
    RestoreTopic,
    UnwantedTopic,
    WantedTopic,
)
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.recorded import Metadata
from backend.queries.base.observed import internal_topics
from backend.queries.clusters.clusters import known_kafka_clusters
from workers import context

log = structlog.get_logger("reconcile")

ACTOR = "worker:reconcile"
MOST_AT_ONCE = 500
LONGEST_WAIT_SECONDS = 1.0


def cluster(step: RecordOnline | RecordOffline, request_id: str) -> None:
    """Record that a cluster came online or went offline."""

    def build(connection: Connection) -> clusters.ClusterCommand:
        if isinstance(step, RecordOffline):
            return clusters.RecordOffline(reason=step.reason)
        return clusters.RecordOnline(
            kafka_cluster_id=step.kafka_cluster_id,
            brokers=step.brokers,
            known_kafka_clusters=known_kafka_clusters(connection),
        )

    context.dispatch(deciders.CLUSTER, f"cluster-{step.cluster}", build, ACTOR, request_id)


class Outcomes:
    """Outcomes of a round's steps on topics, recorded in batches.

    One transaction each would cost the reconcile loop minutes once thousands of topics change; but outcomes must
    not wait long either, since distributors start on a topic when it is recorded.
    """

    def __init__(self) -> None:
        self._waiting: list[Directed] = []
        self._since = 0.0

    def applied(self, step: AlignTopic, request_id: str, *, made: bool = False) -> None:
        """Record that a topic is as declared; `made`: it was created by us."""
        topic = step.wanted
        if topic.revision is None:
            _internal_topic(step)
            return
        tenant, place = _place(topic)
        command = stream_records.RecordApplied(
            **place,
            topic_id=step.topic_id,
            replication_factor=step.replication_factor,
            revision=topic.revision,
            made=made,
        )
        self._add(tenant, command, request_id)

    def failed(self, topic: WantedTopic, reason: str, request_id: str) -> None:
        """Record that a topic cannot be as declared; for internal topics this is only logged."""
        if topic.revision is None:
            return
        tenant, place = _place(topic)
        self._add(
            tenant, stream_records.RecordApplyFailed(**place, reason=reason, revision=topic.revision), request_id
        )

    def grown(self, step: FollowGrowth, request_id: str) -> None:
        """Record that a stream adopts the number of partitions of its topic."""
        tenant, instance, environment, stream = step.wanted.stream.split("/")
        command = tenants.ChangeStream(
            instance=instance, environment=environment, stream=stream, partitions=step.partitions
        )
        self._add(tenant, command, request_id)

    def drifted(self, step: RestoreTopic, reason: str | None, request_id: str) -> None:
        """Record that a topic's configuration had drifted; `reason` is why it could not be restored."""
        topic = step.wanted
        if topic.revision is None or (reason is not None and topic.failure == reason):
            return
        tenant, place = _place(topic)
        command = stream_records.RecordDrift(**place, found=step.found, reason=reason, revision=topic.revision)
        self._add(tenant, command, request_id)

    def removed(self, topic: UnwantedTopic, request_id: str) -> None:
        """Record that a deleted stream's topic is gone."""
        tenant, place = _place(topic)
        self._add(tenant, stream_records.RecordRemoved(**place), request_id)

    def kept(self, topic: UnwantedTopic, request_id: str) -> None:
        """Record that a deleted stream's topic has records by now and is kept."""
        tenant, place = _place(topic)
        self._add(tenant, stream_records.RecordTopicKept(**place), request_id)

    def record_if_due(self) -> None:
        """Call `record` if many outcomes wait, or one has waited for long."""
        late = self._waiting and time.monotonic() - self._since > LONGEST_WAIT_SECONDS
        if late or len(self._waiting) >= MOST_AT_ONCE:
            self.record()

    def record(self) -> None:
        """Record the waiting outcomes; failures are logged, and their steps planned again by a later round."""
        waiting, self._waiting = self._waiting, []
        record_all(waiting)

    def _add(self, tenant: str, command: tenants.TenantCommand, request_id: str) -> None:
        if not self._waiting:
            self._since = time.monotonic()
        metadata = Metadata(actor=ACTOR, request_id=request_id)
        self._waiting.append(Directed(deciders.TENANT, f"tenant-{tenant}", command, metadata))


def record_all(outcomes: list[Directed]) -> None:
    """Record some hundred outcomes; failures are logged, and their steps planned again by a later round."""
    if not outcomes:
        return
    try:
        context.dispatch_many(outcomes)
    except DatabaseUnavailable as error:
        log.warning("outcomes not recorded; their steps will be planned again", reason=error.detail)
    except DomainError:
        _one_by_one(outcomes)


def _one_by_one(outcomes: list[Directed]) -> None:
    """Record one by one after a refusal (a stream deleted since the plan), so that others are not affected."""
    for each in outcomes:
        try:
            context.dispatch_many([each])
        except DatabaseUnavailable as error:
            log.warning("outcomes not recorded; their steps will be planned again", reason=error.detail)
            return
        except DomainError as error:
            log.warning(
                "outcome not recorded", stream=each.stream, outcome=repr(each.command), reason=error.detail
            )


def _place(topic: WantedTopic | UnwantedTopic) -> tuple[str, dict[str, str]]:
    tenant, instance, environment, stream = topic.stream.split("/")
    place = {"instance": instance, "environment": environment, "stream": stream, "cluster": topic.cluster}
    return tenant, place


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
