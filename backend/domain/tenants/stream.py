"""A stream of an environment: its events, which stand in its tenant's event stream, and its state.

What a stream declares is applied to every cluster of the tree by the reconcile loop, which records here what it
achieved, so that "applied" is history like everything else. The incarnation rises whenever a cluster's topic is
not the one recorded (deleted and made again), or a partition's log was cut off: offsets are then given out anew,
and a copied record must not be taken for one that was seen before. It outlives even the stream's deletion.

    stream: (none) --Declare--> pending --RecordApplied--> applied --Change--> pending ...
                                   |--RecordApplyFailed--> failed --RecordApplied--> applied
       applied --RecordDrift--> applied, with the reason if the topic could not be set back
            any --Delete--> deleted --RecordRemoved, RecordKept on each cluster--> gone --Declare--> pending ...

What operators ask for is decided in `tenant_commands.py`, what workers record in `stream_records.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from backend.domain.base.event import Event
from backend.domain.records.births import Births, births_of, cut_off
from backend.domain.topics.stream_settings import StreamSettings

# --- events


@dataclass(frozen=True, kw_only=True)
class StreamDeclared(Event, name="StreamDeclared", version=3):
    """The environment has a stream; a topic for it is due on every cluster of the instance's tree."""

    tenant: str
    instance: str
    environment: str
    stream: str
    revision: int
    """Counts declarations and changes of this stream; says which of them was applied."""
    partitions: int
    replication_factor: int | None
    """Declared; a cluster with fewer brokers has as many replicas as brokers. None: each cluster's default."""
    min_insync_replicas: int | None
    """None: each cluster's default."""
    retention_ms: int
    """-1 keeps records for ever."""
    cleanup_policy: str
    max_message_bytes: int
    """Without our headers, for which topics have room on top."""
    distributed: bool
    """Whether the distributors copy it along the tree."""
    config: dict[str, str]
    """Other settings of Kafka that its topics have, by Kafka's names."""


@dataclass(frozen=True, kw_only=True)
class StreamChanged(Event, name="StreamChanged", version=3):
    """The stream's settings are these from now on, to be applied again everywhere."""

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
    """An entry that is no longer here goes back to the cluster's default on each topic, once."""


@dataclass(frozen=True, kw_only=True)
class StreamDeleted(Event, name="StreamDeleted", version=2):
    """The stream is gone; its topics are to be removed from these clusters."""

    tenant: str
    instance: str
    environment: str
    stream: str
    clusters: tuple[str, ...]
    confirmed: bool
    """Whether with their records; else a topic that has some by then stays."""


@dataclass(frozen=True, kw_only=True)
class StreamApplied(Event, name="StreamApplied", version=1):
    """The cluster has the stream's topic, as declared."""

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str
    topic_id: str
    """Id that Kafka gave to the topic."""
    incarnation: int
    """1 for the first topic of this stream on this cluster, one more for each next."""
    replication_factor: int
    """Replicas that the topic really has."""


@dataclass(frozen=True, kw_only=True)
class StreamApplyFailed(Event, name="StreamApplyFailed", version=1):
    """The cluster refused the stream's topic or its settings; it is tried again."""

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
    """The topic of a deleted stream stays on the cluster and is no stream's any more.

    Records came between the look for them and its removal, and nobody has confirmed that they may go.
    """

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class StreamDrifted(Event, name="StreamDrifted", version=1):
    """Somebody had changed the configuration of the stream's topic on the cluster; it was set back, or was not."""

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str
    found: dict[str, str]
    """What the topic had instead of what is declared."""
    reason: str | None
    """Why it could not be set back; None if it was."""


@dataclass(frozen=True, kw_only=True)
class StreamTailLost(Event, name="StreamTailLost", version=1):
    """A partition's log ended, or had gone on, before what had been read of it: its offsets were given out anew.

    The lost records stay where they had been copied to; the cluster does not get them back.
    """

    tenant: str
    instance: str
    environment: str
    stream: str
    cluster: str
    partition: int
    first_offset: int
    """Of what was lost, and then of what was born there afterwards."""
    last_offset: int
    """The last one known to have been read."""
    incarnation: int
    """Of the records born from `first_offset` on; above all before of this stream on this cluster."""


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
    """What is recorded of the stream's topic on one cluster."""

    topic_id: str | None = None
    incarnation: int = 0
    replication_factor: int | None = None
    """None while no topic is known to exist."""
    applied: bool = False
    """The latest revision is applied."""
    failure: str | None = None
    """Why it is not applied, or why what drifted in its configuration was not set back."""
    removing: bool = False
    """The stream was deleted and the topic was not yet removed."""
    tails: Mapping[int, Births] = field(default_factory=dict)
    """Births of the partitions that lost a tail."""

    def births(self, partition: int) -> Births:
        """Incarnations of the records born in a partition."""
        return births_of(self.tails, partition, self.incarnation)

    @property
    def newest_incarnation(self) -> int:
        """Of all that was ever born in this stream on the cluster."""
        return max([self.incarnation, *(born[-1][1] for born in self.tails.values())])


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A stream; `settings` None once it is deleted."""

    settings: StreamSettings | None
    revision: int
    topics: Mapping[str, Topic] = field(default_factory=dict)
    """By cluster; entries stay for ever, for their incarnations."""


# --- evolve


def evolve_stream(stream: Stream | None, event: StreamEvent) -> Stream | None:
    """The stream after an event; what does not apply leaves it as it was."""
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
            # Who adopts it knows nothing of its births: all of its records get an incarnation above them.
            topic = Topic(incarnation=topic.newest_incarnation)
        case StreamRemoved() | StreamTopicKept():
            topic = Topic(topic_id=topic.topic_id, incarnation=topic.incarnation, tails=topic.tails)
        case StreamTailLost():
            born = cut_off(topic.births(event.partition), event.first_offset, event.incarnation)
            topic = replace(topic, tails={**topic.tails, event.partition: born})
    return replace(stream, topics={**stream.topics, event.cluster: topic})


def _to_remove(topics: Mapping[str, Topic]) -> dict[str, Topic]:
    return {
        cluster: replace(topic, applied=False, failure=None, removing=topic.replication_factor is not None)
        for cluster, topic in topics.items()
    }


def settings_of(event: StreamDeclared | StreamChanged) -> StreamSettings:
    """The settings that an event carries."""
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
