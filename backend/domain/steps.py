"""The pure half of the reconcile loop: what is observed against what is desired gives the steps to take.

Each step shows what it changes; executing and recording them is the workers' part (style, "Reconcile in four
parts").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

HEADROOM_BYTES = 1024
"""Added to a topic's `max.message.bytes`, so that a record of the largest size fits with our headers."""

DEFAULT_MAX_MESSAGE_BYTES = 1048588
"""Kafka's own default of `max.message.bytes`."""


@dataclass(frozen=True, kw_only=True)
class WantedTopic:
    """A topic that a cluster should have. `stream` is STREAM in full, `revision` of its declaration."""

    stream: str
    cluster: str
    topic: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    config: Mapping[str, str]
    revision: int | None
    """None for an internal stream."""
    applied: bool
    """Whether the log says that this revision is applied."""
    topic_id: str | None
    """The id that is recorded, None if none is."""
    failure: str | None = None
    """The reason that is recorded for its not being applied."""


@dataclass(frozen=True, kw_only=True)
class UnwantedTopic:
    """A topic of a deleted stream that is still to go."""

    stream: str
    cluster: str
    topic: str
    topic_id: str


@dataclass(frozen=True, kw_only=True)
class SeenTopic:
    """A topic as a cluster has it."""

    topic_id: str
    partitions: int
    replication_factor: int


@dataclass(frozen=True, kw_only=True)
class SeenCluster:
    """One look at one cluster; `reason` set if it did not answer."""

    kafka_cluster_id: str | None = None
    brokers: int = 0
    topics: Mapping[str, SeenTopic] = field(default_factory=dict)
    reason: str | None = None
    unsure: bool = False
    """It did not answer once: nothing is concluded from this look."""


@dataclass(frozen=True, kw_only=True)
class KnownCluster:
    """What the log says of a cluster's health."""

    online: bool
    reason: str | None
    kafka_cluster_id: str | None
    brokers: int | None


@dataclass(frozen=True, kw_only=True)
class RecordOnline:
    """The cluster answers, and the log does not say so yet."""

    cluster: str
    kafka_cluster_id: str
    brokers: int


@dataclass(frozen=True, kw_only=True)
class RecordOffline:
    """The cluster does not answer, and the log says it does, or gives no reason."""

    cluster: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CreateTopic:
    """The topic is absent."""

    wanted: WantedTopic
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class GrowTopic:
    """The topic has fewer partitions than declared."""

    wanted: WantedTopic
    present: int


@dataclass(frozen=True, kw_only=True)
class RefuseTopic:
    """The topic cannot be as declared; the reason is recorded."""

    wanted: WantedTopic
    reason: str


@dataclass(frozen=True, kw_only=True)
class AlignTopic:
    """The topic is there, and the log does not say yet that this declaration is applied: set its configuration,
    then record it."""

    wanted: WantedTopic
    config: Mapping[str, str]
    topic_id: str
    replication_factor: int


@dataclass(frozen=True, kw_only=True)
class DeleteTopic:
    """The topic of a deleted stream is there. `present` False: it is gone, which only needs recording."""

    unwanted: UnwantedTopic
    present: bool


Step = RecordOnline | RecordOffline | CreateTopic | GrowTopic | RefuseTopic | AlignTopic | DeleteTopic


def cluster_steps(name: str, known: KnownCluster, seen: SeenCluster) -> list[Step]:
    """Record a change of a cluster's health."""
    if seen.unsure:
        return []
    if seen.reason is not None:
        return [RecordOffline(cluster=name, reason=seen.reason)] if known.online or not known.reason else []
    same = (known.online, known.kafka_cluster_id, known.brokers) == (True, seen.kafka_cluster_id, seen.brokers)
    if same:
        return []
    return [RecordOnline(cluster=name, kafka_cluster_id=seen.kafka_cluster_id or "", brokers=seen.brokers)]


def topic_steps(
    wanted: Iterable[WantedTopic], unwanted: Sequence[UnwantedTopic], seen: Mapping[str, SeenCluster]
) -> list[Step]:
    """Bring topics to what is declared, on the clusters that answer."""
    steps: list[Step] = []
    for topic in wanted:
        cluster = seen.get(topic.cluster)
        if cluster is not None and cluster.reason is None:
            steps += _topic_step(topic, cluster)
    for gone in unwanted:
        cluster = seen.get(gone.cluster)
        if cluster is not None and cluster.reason is None:
            present = cluster.topics.get(gone.topic)
            # A topic that somebody made anew under the name is not the one to delete.
            steps.append(
                DeleteTopic(unwanted=gone, present=present is not None and present.topic_id == gone.topic_id)
            )
    return steps


def _topic_step(wanted: WantedTopic, cluster: SeenCluster) -> list[Step]:
    present = cluster.topics.get(wanted.topic)
    factor = min(wanted.replication_factor, cluster.brokers)
    config = {**wanted.config, "min.insync.replicas": str(min(wanted.min_insync_replicas, factor))}
    if present is None:
        return [CreateTopic(wanted=wanted, replication_factor=factor, config=config)]
    if present.partitions > wanted.partitions:
        reason = (
            f"topic {wanted.topic!r} has {present.partitions} partitions, {wanted.partitions} are declared; Kafka "
            "cannot take partitions away: declare as many"
        )
        return [] if wanted.failure == reason else [RefuseTopic(wanted=wanted, reason=reason)]
    if present.partitions < wanted.partitions:
        return [GrowTopic(wanted=wanted, present=present.partitions)]
    if wanted.applied and wanted.topic_id == present.topic_id:
        return []
    return [
        AlignTopic(
            wanted=wanted,
            config=config,
            topic_id=present.topic_id,
            replication_factor=present.replication_factor,
        )
    ]


def topic_config(retention_ms: int | None, cleanup_policy: str) -> dict[str, str]:
    """Configuration of a stream's topic, but for what depends on the cluster."""
    config = {
        "cleanup.policy": cleanup_policy,
        "max.message.bytes": str(DEFAULT_MAX_MESSAGE_BYTES + HEADROOM_BYTES),
        # A copy keeps the record's own time; a broker that stamps its own would change it on every hop.
        "message.timestamp.type": "CreateTime",
    }
    if retention_ms is not None:
        config["retention.ms"] = str(retention_ms)
    return config
