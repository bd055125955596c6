"""Streams of an environment: their events, which are in their tenant's event stream, and their state.

The reconcile loop applies a stream's settings to every cluster of the tree and records here what it achieved, so
that "applied" is history like everything else. The incarnation rises whenever a cluster's topic is not the
recorded one (deleted and re-created), or a partition's log was cut off: offsets are then assigned again, and a
copied record must not be mistaken for one that was seen before. The incarnation outlives even the stream's
deletion.

    stream: (none) --Declare--> pending --RecordApplied--> applied --Change--> pending ...
                                   |--RecordApplyFailed--> failed --RecordApplied--> applied
       applied --RecordDrift--> applied, with the reason if the topic could not be set back
            any --Delete--> deleted --RecordRemoved, RecordTopicKept on each cluster--> gone --Declare--> ...

Operators' commands are decided in `tenant_commands.py`, workers' records in `stream_records.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from backend.domain.base.event import Event
from backend.domain.records.incarnations import Incarnations, incarnations_of, truncated
from backend.domain.topics.stream_settings import StreamSettings

# --- events


@dataclass(frozen=True, kw_only=True)
class StreamDeclared(Event, name="StreamDeclared", version=3):
    """A stream was declared; a topic for it is due on every cluster of the instance's tree."""

    tenant: str
    instance: str
    environment: str
    stream: str
    revision: int
    """Number of the stream's declaration or change, counting up; it tells which of them was applied."""
    partitions: int
    replication_factor: int | None
    """Declared replicas; a cluster with fewer brokers has as many replicas as brokers. None: each cluster's
    default."""
    min_insync_replicas: int | None
    """min.insync.replicas; None: each cluster's default."""
    retention_ms: int
    """retention.ms; -1 keeps records for ever."""
    cleanup_policy: str
    max_message_bytes: int
    """Largest record batch without Treeline's headers, for which topics have room on top."""
    distributed: bool
    """True if distributors copy the stream along the tree."""
    config: dict[str, str]
    """Other topic settings, by Kafka's names."""


@dataclass(frozen=True, kw_only=True)
class StreamChanged(Event, name="StreamChanged", version=3):
    """The stream's settings have changed, and are to be applied again on every cluster."""

    tenant: str
    instance: str
    environment: str
    stream: str
    revision: int
    partitions: int
    replication_factor: int | None
    min_insync_replicas: int | None
    retention_ms: int
    cleanup_policy: str
    max_message_bytes: int
    distributed: bool
    config: dict[str, str]
    """A setting that is no longer here goes back to the cluster's default on each topic, once."""


@dataclass(frozen=True, kw_only=True)
class StreamDeleted(Event, name="StreamDeleted", version=2):
    """The stream was deleted; its topics are to be removed from these clusters."""

    tenant: str
    instance: str
    environment: str
    stream: str
    clusters: tuple[str, ...]
    confirmed: bool
    """True if topics are removed with their records; otherwise a topic that has records by then is kept."""


@dataclass(frozen=True, kw_only=True)
class StreamApplied(Event, name="StreamApplied", version=1):
    """The cluster has the stream's topic, with the declared settings."""

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str
    topic_id: str
    """Kafka's topic id."""
    incarnation: int
    """1 for the first topic of this stream on this cluster, then counting up."""
    replication_factor: int
    """Replicas that the topic really has."""


@dataclass(frozen=True, kw_only=True)
class StreamApplyFailed(Event, name="StreamApplyFailed", version=1):
    """The cluster refused the stream's topic or its settings; it is retried."""

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class StreamRemoved(Event, name="StreamRemoved", version=1):
    """The topic of a deleted stream no longer exists on the cluster."""

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class StreamTopicKept(Event, name="StreamTopicKept", version=1):
    """The topic of a deleted stream stays on the cluster, and belongs to no stream any more.

    Records arrived between the check and the removal, and nobody has confirmed that they may be deleted.
    """

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class StreamDrifted(Event, name="StreamDrifted", version=1):
    """The topic's configuration was changed on the cluster by somebody else; it was set back, or could not be."""

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str
    found: dict[str, str]
    """Settings that differed, with the values found on the topic."""
    reason: str | None
    """Reason why it could not be set back; None if it was."""


@dataclass(frozen=True, kw_only=True)
class StreamTailLost(Event, name="StreamTailLost", version=1):
    """A partition's log was cut off below what had been read of it: its offsets were assigned again.

    The lost records stay where they had been copied to; the cluster does not get them back.

    The lost records stay where they had been copied to; the cluster does not get them back.
    """

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str
    partition: int
    first_offset: int
    """First offset that was lost, and was then given to a new record."""
    last_offset: int
    """Last offset that is known to have been read."""
    incarnation: int
    """Incarnation of the records produced from `first_offset` on; above all earlier ones of this stream on this
    cluster."""


StreamEvent = (
    StreamDeclared
    | StreamChanged
    | StreamDeleted
    | StreamApplied
    | StreamApplyFailed
    | StreamDrifted
    | StreamRemoved
    | StreamTopicKept
    | StreamTailLost
)

# --- state


@dataclass(frozen=True, kw_only=True)
class Topic:
    """State of the stream's topic on one cluster, as recorded."""

    topic_id: str | None = None
    incarnation: int = 0
    replication_factor: int | None = None
    """None while no topic is known to exist."""
    applied: bool = False
    """True if the latest revision is applied."""
    failure: str | None = None
    """Reason why it is not applied, or why drift in its configuration was not set back."""
    removing: bool = False
    """True if the stream was deleted and the topic is not removed yet."""
    tails: Mapping[int, Incarnations] = field(default_factory=dict)
    """Partition -> incarnations of its records, for partitions that lost a tail."""

    def incarnations(self, partition: int) -> Incarnations:
        """Return the incarnations of the records first produced in a partition."""
        return incarnations_of(self.tails, partition, self.incarnation)

    @property
    def newest_incarnation(self) -> int:
        """Return the newest incarnation of all records ever produced to this stream on the cluster."""
        return max([self.incarnation, *(incarnations[-1][1] for incarnations in self.tails.values())])


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A stream; `settings` is None once it is deleted."""

    settings: StreamSettings | None
    revision: int
    topics: Mapping[str, Topic] = field(default_factory=dict)
    """Topics by cluster; entries stay for ever, for their incarnations."""


# --- evolve


def evolve_stream(stream: Stream | None, event: StreamEvent) -> Stream | None:
    """Return the stream after an event; an event that does not apply leaves it unchanged."""
    if isinstance(event, StreamDeclared | StreamChanged):
        return Stream(
            settings=settings_of(event),
            revision=event.revision,
            topics={
                cluster: replace(topic, applied=False, failure=None)
                for cluster, topic in (stream.topics if stream else {}).items()
            },
        )
    if stream is None:
        return None
    if isinstance(event, StreamDeleted):
        return replace(stream, settings=None, topics=_to_remove(stream.topics))
    topic = stream.topics.get(event.cluster, Topic())
    match event:
        case StreamApplied():
            topic = Topic(
                topic_id=event.topic_id,
                incarnation=event.incarnation,
                replication_factor=event.replication_factor,
                applied=True,
                removing=stream.settings is None,
                tails=topic.tails if topic.topic_id == event.topic_id else {},
            )
        case StreamApplyFailed():
            topic = replace(topic, applied=False, failure=event.reason)
        case StreamDrifted():
            topic = replace(topic, failure=event.reason)
        case StreamTopicKept() if topic.tails:
            # An adoption knows nothing of earlier incarnations: all records of the topic get a newer one.
            topic = Topic(incarnation=topic.newest_incarnation)
        case StreamRemoved() | StreamTopicKept():
            topic = Topic(topic_id=topic.topic_id, incarnation=topic.incarnation, tails=topic.tails)
        case StreamTailLost():
            incarnations = truncated(topic.incarnations(event.partition), event.first_offset, event.incarnation)
            topic = replace(topic, tails={**topic.tails, event.partition: incarnations})
    return replace(stream, topics={**stream.topics, event.cluster: topic})


def _to_remove(topics: Mapping[str, Topic]) -> dict[str, Topic]:
    return {
        cluster: replace(topic, applied=False, failure=None, removing=topic.replication_factor is not None)
        for cluster, topic in topics.items()
    }


def settings_of(event: StreamDeclared | StreamChanged) -> StreamSettings:
    """Return the settings that an event carries."""
    return StreamSettings(
        partitions=event.partitions,
        replication_factor=event.replication_factor,
        min_insync_replicas=event.min_insync_replicas,
        retention_ms=event.retention_ms,
        cleanup_policy=event.cleanup_policy,
        max_message_bytes=event.max_message_bytes,
        distributed=event.distributed,
        config=event.config,
    )
