"""Pure half of the reconcile loop: compares observed with desired topics and returns the steps to take.

Each step shows what it changes; workers execute and record it (style, "Reconcile in four parts").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from backend.domain.topics.replica_defaults import Replicas
from backend.domain.topics.stream_settings import MOST_PARTITIONS
from backend.domain.topics.topic_settings import RETENTION_BYTES, TIMESTAMP_TYPE, parts, retained_bytes, same_value

HEADROOM_BYTES = 1024
"""Bytes added to a topic's `max.message.bytes`, so that the largest record fits together with our headers."""

APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, kw_only=True)
class WantedTopic:
    """A topic that a cluster should have. `stream` is its full name, `revision` that of its declaration."""

    stream: str
    cluster: str
    topic: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    leaves_one: bool = False
    """True if the minimum leaves one of the replicas to spare, however few the topic has."""
    config: Mapping[str, str]
    revision: int | None
    """Revision of the declaration; None for an internal stream."""
    applied: bool
    """True if the log says that this revision is applied."""
    topic_id: str | None
    """Recorded topic id; None if none is recorded."""
    failure: str | None = None
    """Recorded reason why it is not applied, or not restored."""
    recorded_factor: int | None = None
    """Recorded number of replicas; None if none is recorded, or for an internal stream."""
    replicas_before: Replicas | None = None
    """Replicas by the cluster's previous defaults; None for an internal stream, or while the cluster is
    unknown."""
    released: frozenset[str] = frozenset()
    """Settings that an earlier declaration had and this one does not: they return to the cluster's defaults when
    this declaration is applied, and belong to the topic's owner from then on."""


@dataclass(frozen=True, kw_only=True)
class UnwantedTopic:
    """A topic of a deleted stream that still has to be deleted."""

    stream: str
    cluster: str
    topic: str
    topic_id: str
    unconfirmed: bool = False
    """True if its deletion was not confirmed: a topic that holds records stays."""


@dataclass(frozen=True, kw_only=True)
class SeenTopic:
    """A topic as observed on a cluster."""

    topic_id: str
    partitions: int
    replication_factor: int
    """Replicas of the partition that has the fewest, including replicas that are still being copied."""
    in_sync: bool = True
    """True if all replicas of all partitions are in sync; otherwise a broker is down or replicas are being
    moved."""
    config: Mapping[str, str] | None = None
    """Effective configuration, including defaults; None if this poll did not request it."""
    own: Mapping[str, str] = field(default_factory=dict)
    """Entries of `config` that are set on the topic itself."""
    records: int | None = None
    """Number of records; requested only while no topic of the stream is recorded on the cluster."""


@dataclass(frozen=True, kw_only=True)
class SeenCluster:
    """One observation of one cluster; `reason` is set if it did not answer."""

    kafka_cluster_id: str | None = None
    brokers: int = 0
    topics: Mapping[str, SeenTopic] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Topics that the cluster does not let us describe, with its reasons."""
    reason: str | None = None
    unsure: bool = False
    """True if a single request was not answered: nothing is concluded from this observation."""


@dataclass(frozen=True, kw_only=True)
class KnownCluster:
    """Health of a cluster according to the log."""

    online: bool
    reason: str | None
    kafka_cluster_id: str | None
    brokers: int | None


@dataclass(frozen=True, kw_only=True)
class RecordOnline:
    """The cluster answers, which the log does not say yet."""

    cluster: str
    kafka_cluster_id: str
    brokers: int


@dataclass(frozen=True, kw_only=True)
class RecordOffline:
    """The cluster does not answer, but the log says that it does, or gives no reason."""

    cluster: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CreateTopic:
    """The topic does not exist."""

    wanted: WantedTopic
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class GrowTopic:
    """The topic has fewer partitions than declared."""

    wanted: WantedTopic
    present: int


@dataclass(frozen=True, kw_only=True)
class FollowGrowth:
    """A topic has more partitions than declared; Kafka removes none, so the stream adopts the number."""

    wanted: WantedTopic
    partitions: int


@dataclass(frozen=True, kw_only=True)
class RefuseTopic:
    """The topic cannot be as declared; the reason is recorded."""

    wanted: WantedTopic
    reason: str


@dataclass(frozen=True, kw_only=True)
class AlignTopic:
    """The topic exists, but its declaration or its number of replicas is not recorded as applied.

    Set the configuration entries that differ, then record it.
    """

    wanted: WantedTopic
    config: Mapping[str, str]
    """Entries to set, with their values; empty if all are as declared."""
    topic_id: str
    replication_factor: int
    reset: tuple[str, ...] = ()
    """Entries that return to the cluster's defaults."""


@dataclass(frozen=True, kw_only=True)
class RestoreTopic:
    """An applied topic's configuration was changed outside Treeline: restore it, and record what was found."""

    wanted: WantedTopic
    found: Mapping[str, str]
    config: Mapping[str, str]
    """The same entries as declared."""


@dataclass(frozen=True, kw_only=True)
class DeleteTopic:
    """The topic of a deleted stream exists. With `present` False it is gone, which only needs recording."""

    unwanted: UnwantedTopic
    present: bool


Step = (
    RecordOnline
    | RecordOffline
    | CreateTopic
    | GrowTopic
    | FollowGrowth
    | RefuseTopic
    | AlignTopic
    | RestoreTopic
    | DeleteTopic
)


def cluster_steps(name: str, known: KnownCluster, seen: SeenCluster) -> list[Step]:
    """Return the step that records a change of a cluster's health."""
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
    """Return the steps that bring topics to their declarations, on the clusters that answer."""
    steps: list[Step] = []
    for topic in wanted:
        cluster = seen.get(topic.cluster)
        if cluster is not None and cluster.reason is None:
            steps += _topic_step(topic, cluster)
    for gone in unwanted:
        cluster = seen.get(gone.cluster)
        # A topic that cannot be described is not taken for gone: its name would be free while its records exist.
        if cluster is not None and cluster.reason is None and gone.topic not in cluster.refusals:
            present = cluster.topics.get(gone.topic)
            # A topic that was re-created under the name is not the one to delete.
            steps.append(
                DeleteTopic(unwanted=gone, present=present is not None and present.topic_id == gone.topic_id)
            )
    return steps


def _topic_step(wanted: WantedTopic, cluster: SeenCluster) -> list[Step]:
    present = cluster.topics.get(wanted.topic)
    factor = (
        min(wanted.replication_factor, cluster.brokers) if present is None else settled_factor(wanted, present)
    )
    replicas = Replicas(
        factor=wanted.replication_factor, minimum=wanted.min_insync_replicas, leaves_one=wanted.leaves_one
    )
    config = {**wanted.config, "min.insync.replicas": str(replicas.minimum_of(factor))}
    if wanted.topic in cluster.refusals:
        return _refuse(wanted, f"topic {wanted.topic!r} cannot be seen: {cluster.refusals[wanted.topic]}")
    if present is None:
        return [CreateTopic(wanted=wanted, replication_factor=factor, config=config)]
    if present.config is None and not wanted.applied:
        return []
    reason = refusal(wanted, present)
    if reason is not None:
        return _refuse(wanted, reason)
    if present.partitions > wanted.partitions:
        return [FollowGrowth(wanted=wanted, partitions=present.partitions)]
    if present.partitions < wanted.partitions:
        return [GrowTopic(wanted=wanted, present=present.partitions)]
    if present.config is None:
        return []
    changes = differing(config, present.config)
    as_recorded = wanted.applied and wanted.topic_id == present.topic_id
    # A change made by a placement is no drift: the minimum follows, and the log records it.
    moved = wanted.recorded_factor not in (None, factor) or _follows_defaults(wanted, present, changes, factor)
    if as_recorded and changes and not moved:
        found = {name: present.config.get(name, "") for name in changes}
        return [RestoreTopic(wanted=wanted, found=found, config=changes)]
    if as_recorded and wanted.failure is None and not moved:
        return []
    reset = () if wanted.applied else tuple(sorted(wanted.released & present.own.keys()))
    return [
        AlignTopic(
            wanted=wanted,
            config=changes,
            topic_id=present.topic_id,
            replication_factor=factor,
            reset=reset,
        )
    ]


def _follows_defaults(wanted: WantedTopic, present: SeenTopic, changes: Mapping[str, str], factor: int) -> bool:
    """Return whether the only difference is the minimum that the previous defaults gave."""
    if wanted.replicas_before is None or present.config is None or changes.keys() != {"min.insync.replicas"}:
        return False
    return present.config.get("min.insync.replicas") == str(wanted.replicas_before.minimum_of(factor))


def settled_factor(wanted: WantedTopic, present: SeenTopic) -> int:
    """Return the number of replicas that a topic can be counted on to have.

    A new replica counts once it has caught up: brokers refuse acks=all while fewer are in sync than the lower of
    `min.insync.replicas` and the number of replicas, including those being copied. While some are out of sync the
    recorded number holds, unless there are fewer by now.
    """
    known = wanted.recorded_factor if wanted.topic_id == present.topic_id else None
    if present.in_sync or known is None:
        return present.replication_factor
    return min(known, present.replication_factor)


def refusal(wanted: WantedTopic, present: SeenTopic) -> str | None:
    """Return why an existing topic cannot become the stream's; None if it can.

    A topic that is recorded as the stream's follows its declaration. One that is met for the first time has an
    owner, whose settings are not changed where records would come to differ.
    """
    own = wanted.topic_id == present.topic_id
    if present.partitions > (MOST_PARTITIONS if own and wanted.revision is not None else wanted.partitions):
        return (
            f"topic {wanted.topic!r} has {present.partitions} partitions, {wanted.partitions} are declared; Kafka "
            "cannot take partitions away: declare as many"
        )
    if wanted.topic_id is None and present.records and (reason := loss(wanted.config, present.config or {})):
        return f"topic {wanted.topic!r} holds records: {reason}"
    if not own and TIMESTAMP_TYPE in wanted.config and (present.config or {}).get(TIMESTAMP_TYPE) == APPEND_TIME:
        return append_time_reason(wanted.topic)
    return None


def loss(wanted: Mapping[str, str], present: Mapping[str, str]) -> str | None:
    """Return how records would be lost if a topic that holds some got this configuration; None if none would."""
    policies = parts(wanted["cleanup.policy"]), parts(present.get("cleanup.policy", "delete"))
    if added := policies[0] - policies[1]:
        return (
            f"with cleanup.policy={wanted['cleanup.policy']} Kafka would {' and '.join(sorted(added))} what it "
            f"keeps now ({present.get('cleanup.policy')}); change the topic or the declaration, so that they agree"
        )
    kept_ms, keeps_ms = int(wanted["retention.ms"]), int(present.get("retention.ms", -1))
    if "delete" in policies[0] and kept_ms >= 0 and not 0 <= keeps_ms <= kept_ms:
        return (
            f"it keeps them for retention.ms={keeps_ms}, the stream declares {kept_ms}, and what is older would "
            "be deleted; change the topic or the declaration, so that they agree"
        )
    if "delete" in policies[0] and retained_bytes(wanted) < retained_bytes(present):
        return (
            f"it keeps {RETENTION_BYTES}={present.get(RETENTION_BYTES, '-1')} of each partition, the stream "
            f"declares {wanted[RETENTION_BYTES]}, and what is beyond that would be deleted; change the topic or "
            "the declaration, so that they agree"
        )
    return None


def append_time_reason(topic: str) -> str:
    """Return why a topic with broker timestamps (LogAppendTime) is not distributed."""
    return (
        f"topic {topic!r} has {TIMESTAMP_TYPE}={APPEND_TIME}: each cluster would stamp its own time on the same "
        "record, so it is not distributed; set CreateTime on it, or declare the stream with distributed: false"
    )


def differing(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the wanted entries that are not in force."""
    return {name: value for name, value in wanted.items() if not same_value(name, value, present.get(name))}


def _refuse(wanted: WantedTopic, reason: str) -> list[Step]:
    return [] if wanted.failure == reason else [RefuseTopic(wanted=wanted, reason=reason)]


def topic_config(
    *,
    retention_ms: int,
    cleanup_policy: str,
    max_message_bytes: int,
    distributed: bool,
    config: Mapping[str, str],
) -> dict[str, str]:
    """Return the configuration of a stream's topic, except what depends on the cluster."""
    managed = {
        "cleanup.policy": cleanup_policy,
        "max.message.bytes": str(max_message_bytes + HEADROOM_BYTES),
        "retention.ms": str(retention_ms),
    }
    if distributed:
        # A copy keeps the record's timestamp; a broker with LogAppendTime would change it on every hop.
        managed[TIMESTAMP_TYPE] = "CreateTime"
    return {**config, **managed}
