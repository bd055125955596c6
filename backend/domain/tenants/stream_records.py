"""Event stream `tenant-<name>`: the records of workers about a stream's topics, and their decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from backend.domain.names.names import StreamName
from backend.domain.tenants.stream import (
    Stream,
    StreamApplied,
    StreamApplyFailed,
    StreamDrifted,
    StreamRemoved,
    StreamTailLost,
    StreamTopicKept,
    Topic,
)
from backend.domain.tenants.tenant import TenantEvent

LONGEST_REASON = 1000

# --- commands


@dataclass(frozen=True, kw_only=True)
class RecordApplied:
    """Record that a worker found or created the stream's topic on a cluster, with the declared settings."""

    instance: str
    environment: str
    stream: str
    cluster: str
    topic_id: str
    replication_factor: int
    revision: int | None = None
    """Revision that was applied; an older one than the present is not recorded."""
    made: bool = False
    """True if the worker created the topic itself; False if it found the topic, or no longer knows."""


@dataclass(frozen=True, kw_only=True)
class RecordApplyFailed:
    """Record that a worker could not create or alter the stream's topic on a cluster."""

    instance: str
    environment: str
    stream: str
    cluster: str
    reason: str
    revision: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecordDrift:
    """Record that a worker found another configuration on the topic. `reason`: why it could not be set back."""

    instance: str
    environment: str
    stream: str
    cluster: str
    found: Mapping[str, str]
    reason: str | None
    revision: int


@dataclass(frozen=True, kw_only=True)
class RecordRemoved:
    """Record that a worker deleted the topic of a deleted stream from a cluster, or found no topic."""

    instance: str
    environment: str
    stream: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class RecordTopicKept:
    """Record that the topic of a stream deleted as empty turned out to have records; it stays as it is."""

    instance: str
    environment: str
    stream: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class RecordTailLost:
    """Record that a task found a partition's log cut off below what the task had read.

    `incarnation` is the one that the task assumed for the partition's records; several tasks find the same loss.
    """

    instance: str
    environment: str
    stream: str
    cluster: str
    partition: int
    first_offset: int
    last_offset: int
    incarnation: int


StreamRecord = RecordApplied | RecordApplyFailed | RecordDrift | RecordRemoved | RecordTopicKept | RecordTailLost

# --- decide


def decide_record(name: StreamName, stream: Stream, command: StreamRecord) -> list[TenantEvent]:
    """Return the events that record it; none for what is known already, or was overtaken."""
    match command:
        case RecordApplied():
            return _record_applied(name, stream, command)
        case RecordApplyFailed():
            return _record_failed(name, stream, command)
        case RecordDrift():
            return _record_drift(name, stream, command)
        case RecordRemoved() | RecordTopicKept():
            if not stream.topics.get(command.cluster, Topic()).removing:
                return []
            event = StreamRemoved if isinstance(command, RecordRemoved) else StreamTopicKept
            return [event(**asdict(name), cluster=command.cluster)]
        case RecordTailLost():
            return _record_tail(name, stream, command)


def _record_applied(name: StreamName, stream: Stream, command: RecordApplied) -> list[TenantEvent]:
    if command.revision is not None and command.revision != stream.revision:
        return []
    # The recorded topic of a deleted stream is removed. A topic that was created just before counts as recorded,
    # otherwise nobody would remove it; a topic that existed before belongs to somebody, whatever it holds.
    if stream.settings is None and not command.made:
        return []
    topic = stream.topics.get(command.cluster, Topic())
    same = (topic.topic_id, topic.replication_factor) == (command.topic_id, command.replication_factor)
    # A topic that is pending deletion is not taken for the topic of a stream that was declared again.
    if same and ((topic.applied and topic.failure is None) or topic.removing):
        return []
    new_topic = topic.topic_id != command.topic_id
    return [
        StreamApplied(
            **asdict(name),
            cluster=command.cluster,
            topic_id=command.topic_id,
            incarnation=topic.newest_incarnation + 1 if new_topic else topic.incarnation,
            replication_factor=command.replication_factor,
        )
    ]


def _record_failed(name: StreamName, stream: Stream, command: RecordApplyFailed) -> list[TenantEvent]:
    reason = command.reason[:LONGEST_REASON]
    outdated = command.revision is not None and command.revision != stream.revision
    repeated = stream.topics.get(command.cluster, Topic()).failure == reason
    if outdated or repeated or stream.settings is None:
        return []
    return [StreamApplyFailed(**asdict(name), cluster=command.cluster, reason=reason)]


def _record_drift(name: StreamName, stream: Stream, command: RecordDrift) -> list[TenantEvent]:
    topic = stream.topics.get(command.cluster, Topic())
    reason = command.reason and command.reason[:LONGEST_REASON]
    if command.revision != stream.revision or not topic.applied or (reason and topic.failure == reason):
        return []
    return [StreamDrifted(**asdict(name), cluster=command.cluster, found=dict(command.found), reason=reason)]


def _record_tail(name: StreamName, stream: Stream, command: RecordTailLost) -> list[TenantEvent]:
    topic = stream.topics.get(command.cluster, Topic())
    if topic.incarnations(command.partition)[-1][1] != command.incarnation or stream.settings is None:
        return []
    return [
        StreamTailLost(
            **asdict(name),
            cluster=command.cluster,
            partition=command.partition,
            first_offset=command.first_offset,
            last_offset=command.last_offset,
            incarnation=topic.newest_incarnation + 1,
        )
    ]
