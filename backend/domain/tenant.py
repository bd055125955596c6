"""Event stream `tenant-<name>`: a tenant, its instances, their environments, and the streams in these.

An instance names the tree it lives on, an environment belongs to an instance, a stream to an environment. What a
stream declares is applied to every cluster of the tree by the reconcile loop, which records here what it achieved,
so that "applied" is history like everything else. The incarnation rises whenever a cluster's topic is not the
one recorded (deleted and made again): offsets then start anew, and a copied record must not be taken for one
that was seen before. It therefore outlives even the stream's deletion.

    stream: (none) --Declare--> pending --RecordApplied--> applied --Change--> pending ...
                                   |--RecordApplyFailed--> failed --RecordApplied--> applied
       applied --RecordDrift--> applied, with the reason if the topic could not be set back
            any --Delete--> deleted --RecordRemoved on each cluster--> gone --Declare--> pending ...

The commands and what they decide stand in `tenant_commands.py`; events, state and evolve here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from backend.domain.event import Event
from backend.domain.stream_settings import StreamSettings

DEFAULT_MARGIN_SECONDS = 60
DEFAULT_OFFSET_MODE = "margin"
OFFSET_MODES = ("margin", "exact")

# --- events


@dataclass(frozen=True, kw_only=True)
class TenantCreated(Event, name="TenantCreated", version=1):
    """There is a tenant."""

    tenant: str


@dataclass(frozen=True, kw_only=True)
class InstanceCreated(Event, name="InstanceCreated", version=1):
    """The tenant has an instance, living on a tree."""

    tenant: str
    instance: str
    tree: str


@dataclass(frozen=True, kw_only=True)
class EnvironmentCreated(Event, name="EnvironmentCreated", version=1):
    """The instance has an environment."""

    tenant: str
    instance: str
    environment: str
    margin_seconds: int
    """Taken off a committed offset's timestamp before it is carried to another cluster."""
    offset_mode: str
    """`margin` or `exact`: how a group's offset is found on another cluster."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentChanged(Event, name="EnvironmentChanged", version=1):
    """The environment's settings are these from now on."""

    tenant: str
    instance: str
    environment: str
    margin_seconds: int
    offset_mode: str


@dataclass(frozen=True, kw_only=True)
class StreamDeclared(Event, name="StreamDeclared", version=2):
    """The environment has a stream; a topic for it is due on every cluster of the instance's tree."""

    tenant: str
    instance: str
    environment: str
    stream: str
    revision: int
    """Counts declarations and changes of this stream; says which of them was applied."""
    partitions: int
    replication_factor: int
    """Wished for; a cluster with fewer brokers has as many replicas as brokers."""
    min_insync_replicas: int
    retention_ms: int
    """-1 keeps records for ever."""
    cleanup_policy: str
    max_message_bytes: int
    """Without our headers, for which topics have room on top."""
    distributed: bool
    """Whether the distributors copy it along the tree."""


@dataclass(frozen=True, kw_only=True)
class StreamChanged(Event, name="StreamChanged", version=2):
    """The stream's settings are these from now on, to be applied again everywhere."""

    tenant: str
    instance: str
    environment: str
    stream: str
    revision: int
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    retention_ms: int
    cleanup_policy: str
    max_message_bytes: int
    distributed: bool


@dataclass(frozen=True, kw_only=True)
class StreamDeleted(Event, name="StreamDeleted", version=1):
    """The stream is gone; its topics are to be removed from these clusters."""

    tenant: str
    instance: str
    environment: str
    stream: str
    clusters: tuple[str, ...]


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


TenantEvent = (
    TenantCreated
    | InstanceCreated
    | EnvironmentCreated
    | EnvironmentChanged
    | StreamDeclared
    | StreamChanged
    | StreamDeleted
    | StreamApplied
    | StreamApplyFailed
    | StreamDrifted
    | StreamRemoved
)
_StreamEvent = (
    StreamDeclared
    | StreamChanged
    | StreamDeleted
    | StreamApplied
    | StreamApplyFailed
    | StreamDrifted
    | StreamRemoved
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


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A stream; `settings` None once it is deleted."""

    settings: StreamSettings | None
    revision: int
    topics: Mapping[str, Topic] = field(default_factory=dict)
    """By cluster; entries stay for ever, for their incarnations."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment and its streams, deleted ones as well."""

    margin_seconds: int
    offset_mode: str
    streams: Mapping[str, Stream] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Instance:
    """An instance and its environments."""

    tree: str
    environments: Mapping[str, Environment] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A tenant as its events left it."""

    name: str
    instances: Mapping[str, Instance] = field(default_factory=dict)


INITIAL: Tenant | None = None

# --- evolve


def evolve(state: Tenant | None, event: Event) -> Tenant | None:
    """The state after an event; what does not apply leaves the state as it was."""
    if isinstance(event, TenantCreated):
        return Tenant(name=event.tenant)
    if state is None:
        return None
    match event:
        case InstanceCreated():
            return replace(state, instances={**state.instances, event.instance: Instance(tree=event.tree)})
        case EnvironmentCreated() | EnvironmentChanged():
            return _set_environment(state, event)
        case (
            StreamDeclared()
            | StreamChanged()
            | StreamDeleted()
            | StreamApplied()
            | StreamApplyFailed()
            | StreamDrifted()
            | StreamRemoved()
        ):
            return _set_stream(state, event)
        case _:
            return state


def _set_environment(state: Tenant, event: EnvironmentCreated | EnvironmentChanged) -> Tenant:
    instance = state.instances.get(event.instance)
    if instance is None:
        return state
    before = instance.environments.get(event.environment)
    environment = Environment(
        margin_seconds=event.margin_seconds,
        offset_mode=event.offset_mode,
        streams=before.streams if before else {},
    )
    changed = replace(instance, environments={**instance.environments, event.environment: environment})
    return replace(state, instances={**state.instances, event.instance: changed})


def _set_stream(state: Tenant, event: _StreamEvent) -> Tenant:
    instance = state.instances.get(event.instance)
    environment = instance.environments.get(event.environment) if instance else None
    if instance is None or environment is None:
        return state
    stream = _evolve_stream(environment.streams.get(event.stream), event)
    if stream is None:
        return state
    environment = replace(environment, streams={**environment.streams, event.stream: stream})
    instance = replace(instance, environments={**instance.environments, event.environment: environment})
    return replace(state, instances={**state.instances, event.instance: instance})


def _evolve_stream(stream: Stream | None, event: _StreamEvent) -> Stream | None:
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
            )
        case StreamApplyFailed():
            topic = replace(topic, applied=False, failure=event.reason)
        case StreamDrifted():
            topic = replace(topic, failure=event.reason)
        case StreamRemoved():
            topic = Topic(topic_id=topic.topic_id, incarnation=topic.incarnation)
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
    )
