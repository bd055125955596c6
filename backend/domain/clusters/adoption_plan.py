"""Plan the adoption of a cluster's topics and groups; nothing is changed here.

    declare    the topic becomes a new stream, with the settings that the topic has
    join       its stream is declared; the topic becomes the stream's topic on this cluster
    kept       it is its stream's topic already
    ambiguous  the name can be read in several ways; only the operator can choose
    unmanaged  it stays as it is, for the given reason

The adopted topic's cluster is the origin of the records that are in it, whatever their age; they are distributed
from the first one on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from backend.domain.base.errors import DomainError, FieldError, ValueInvalid
from backend.domain.clusters.adoption import AdoptedTopic
from backend.domain.clusters.adoption_facts import AdoptionFacts, DeclaredStream, FoundTopic
from backend.domain.clusters.adoption_warnings import MIRROR_MAKER, cluster_warnings, topic_warnings
from backend.domain.distribution.assignment import OWN_GROUPS
from backend.domain.names import formats
from backend.domain.names.formats import ClusterFormats
from backend.domain.names.names import StreamName
from backend.domain.names.readings import Reader
from backend.domain.topics import steps
from backend.domain.topics.stream_settings import (
    LARGEST_MESSAGE_BYTES,
    MOST_PARTITIONS,
    StreamSettings,
    check_settings,
)
from backend.domain.topics.topic_settings import TIMESTAMP_TYPE, apart, canonical, undeclarable

DECLARE, JOIN, KEPT, AMBIGUOUS, UNMANAGED = "declare", "join", "kept", "ambiguous", "unmanaged"

_STREAMS_SUFFIXES = ("-changelog", "-repartition")
_KINDS_OF_GROUPS = ("classic", "consumer")


@dataclass(frozen=True, kw_only=True)
class TopicPlan:
    """Plan for one topic."""

    topic: str
    action: str
    stream: StreamName | None = None
    topic_id: str = ""
    partitions: int = 0
    records: int | None = None
    settings: StreamSettings | None = None
    """The stream's settings after the adoption."""
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Changes to the topic or to its stream: name -> (from, to)."""
    undeclared: Mapping[str, str] = field(default_factory=dict)
    """Settings of the topic itself that its stream will not declare: they stay on this cluster only."""
    reason: str | None = None
    readings: tuple[StreamName, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GroupPlan:
    """The logical group that a group of the cluster is read as; groups are not changed."""

    group: str
    found: StreamName | None
    """The last part of this name is the group's logical name."""
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class AdoptionPlan:
    """The whole plan. `digest` covers what the plan would do, not the amount of data."""

    cluster: str
    topics: tuple[TopicPlan, ...]
    groups: tuple[GroupPlan, ...]
    warnings: tuple[str, ...]

    @property
    def digest(self) -> str:
        rows = [
            (row.topic, row.action, str(row.stream), row.topic_id, row.settings and asdict(row.settings))
            for row in self.topics
        ]
        return hashlib.sha256(json.dumps([self.cluster, rows], sort_keys=True).encode()).hexdigest()[:32]

    def topics_to_adopt(self, topics: Sequence[str] | None) -> tuple[AdoptedTopic, ...]:
        """Return the topics of an adoption that begins with these names (None: all that can be adopted).

        Topics that are kept need nothing, and are left out. Raises ValueInvalid with an error for each topic that
        cannot be adopted.
        """
        by_name = {row.topic: row for row in self.topics}
        errors = []
        for number, name in enumerate(topics or ()):
            row = by_name.get(name)
            if row is None or row.action in (AMBIGUOUS, UNMANAGED):
                why = row.reason if row else f"{self.cluster} has no topic {name[:300]!r}"
                errors.append(FieldError(f"/topics/{number}", str(why)))
        if errors:
            raise ValueInvalid(errors[0].detail, tuple(errors))
        wanted = by_name if topics is None else set(topics)
        return tuple(_adopted(row) for row in self.topics if row.topic in wanted and row.action in (DECLARE, JOIN))


def plan(facts: AdoptionFacts, named: Mapping[str, StreamName], *, take_settings: bool = False) -> AdoptionPlan:
    """Return the plan. Raises ValueInvalid.

    `named`: topic -> the stream that the operator chose for it. `take_settings`: new streams declare every setting
    of their topic that can be declared.
    """
    _check_named(facts, named)
    declared = {formats.technical_name(facts.cluster.topic_format, name): name for name in facts.streams}
    reader = Reader(facts.cluster.topic_format, "topic", facts.environments, declared)
    taken = _Taken(facts.leaves, facts.streams)
    topics = []
    for found in sorted(facts.topics, key=lambda each: each.topic):
        row = _topic(facts, reader, found, named.get(found.topic), take_settings=take_settings)
        if row.action == DECLARE:
            assert row.stream is not None
            problem = taken.take(row.stream)
            row = row if problem is None else _unmanaged(found, problem)
        topics.append(row)
    groups = Reader(facts.group_format, "group", facts.environments, {})
    return AdoptionPlan(
        cluster=facts.cluster.cluster,
        topics=tuple(topics),
        groups=tuple(_group(groups, name, kind) for name, kind in sorted(facts.groups)),
        warnings=tuple(cluster_warnings(facts)),
    )


def _check_named(facts: AdoptionFacts, named: Mapping[str, StreamName]) -> None:
    errors = []
    for topic, stream in named.items():
        renders = formats.technical_name(facts.cluster.topic_format, stream)
        if renders != topic:
            detail = f"{stream} is topic {renders[:300]!r} on {facts.cluster.cluster}, not {topic[:300]!r}"
            errors.append(FieldError("/as", detail))
        elif all(found.topic != topic for found in facts.topics):
            errors.append(FieldError("/as", f"{facts.cluster.cluster} has no topic {topic[:300]!r}"))
    if errors:
        raise ValueInvalid(errors[0].detail, tuple(errors))


def _topic(
    facts: AdoptionFacts, reader: Reader, found: FoundTopic, named: StreamName | None, *, take_settings: bool
) -> TopicPlan:
    reason = _excluded(found, sure=named is not None)
    if reason is not None:
        return _unmanaged(found, reason)
    reading = reader.read(found.topic)
    stream = named or reading.found
    if stream is None:
        left = _unmanaged(found, reading.reason or "")
        return replace(left, action=AMBIGUOUS, readings=reading.others) if reading.others else left
    present = facts.streams.get(stream)
    if present is not None and present.topic_id == found.topic_id:
        return TopicPlan(
            topic=found.topic,
            action=KEPT,
            stream=stream,
            topic_id=found.topic_id,
            partitions=found.partitions,
            records=found.records,
            settings=present.settings,
        )
    return _taken_over(facts, found, stream, present, take_settings=take_settings)


def _taken_over(
    facts: AdoptionFacts,
    found: FoundTopic,
    stream: StreamName,
    present: DeclaredStream | None,
    *,
    take_settings: bool,
) -> TopicPlan:
    try:
        settings = (
            _settings_of(found, take_settings=take_settings)
            if present is None
            else _roomy(present.settings, found)
        )
        check_settings(settings)
    except (DomainError, ValueError) as error:
        return _unmanaged(found, f"a stream cannot declare its settings: {error}")
    config = _config(settings, found)
    if found.records and (loss := steps.loss(config, found.config)):
        return _unmanaged(found, loss)
    others = _others(facts, stream)
    partitions = max(settings.partitions, found.partitions, *(row.partitions for row in others.values()), 1)
    settings = replace(settings, partitions=partitions)
    changes = {} if present is None else _changes_of_stream(present.settings, settings)
    if partitions > found.partitions:
        changes["partitions"] = (str(found.partitions), str(partitions))
    for name, value in steps.differing(config, found.config).items():
        changes[name] = (found.config.get(name, ""), value)
    undeclared = {name: value for name, value in apart(found.own).items() if name not in settings.config}
    return TopicPlan(
        topic=found.topic,
        action=DECLARE if present is None else JOIN,
        stream=stream,
        topic_id=found.topic_id,
        partitions=found.partitions,
        records=found.records,
        settings=settings,
        changes=changes,
        undeclared=undeclared,
        warnings=tuple(topic_warnings(found, others, partitions, undeclared)),
    )


def _excluded(found: FoundTopic, *, sure: bool) -> str | None:
    """Return why a topic cannot be adopted.

    `sure`: the operator named it, which overrules guesses from its name.
    """
    problem = formats.topic_problem(found.topic)
    if problem is not None:
        return problem
    if found.refusal is not None:
        return f"it cannot be described: {found.refusal}"
    if not sure and found.topic.endswith(_STREAMS_SUFFIXES):
        return (
            "its name looks like an internal topic of Kafka Streams, which belongs to one application on one "
            "cluster; if it is not one, name its stream"
        )
    if not sure and MIRROR_MAKER.fullmatch(found.topic):
        return "its name looks like an internal topic of MirrorMaker 2; if it is not one, name its stream"
    if found.config.get(TIMESTAMP_TYPE) == steps.APPEND_TIME:
        return steps.append_time_reason(found.topic)
    if found.partitions > MOST_PARTITIONS:
        return f"it has {found.partitions} partitions; a stream has at most {MOST_PARTITIONS}"
    return None


def _settings_of(found: FoundTopic, *, take_settings: bool) -> StreamSettings:
    """Return settings that change the topic as little as possible.

    Raises ValueError for what no stream can declare.
    """
    largest = int(found.config.get("max.message.bytes", 0))
    if largest > LARGEST_MESSAGE_BYTES:
        raise ValueError(f"max.message.bytes is {largest}, the limit for a stream is {LARGEST_MESSAGE_BYTES}")
    policies = {policy.strip() for policy in found.config.get("cleanup.policy", "delete").split(",")}
    factor = max(1, found.replication_factor)
    return StreamSettings(
        partitions=found.partitions,
        replication_factor=factor,
        min_insync_replicas=min(factor, int(found.config.get("min.insync.replicas", 1))),
        retention_ms=int(found.config["retention.ms"]),
        cleanup_policy=",".join(sorted(policies)),
        max_message_bytes=largest,
        config=_declarable(found) if take_settings else {},
    )


def _declarable(found: FoundTopic) -> dict[str, str]:
    own = apart(found.own)
    return canonical(
        {name: value for name, value in own.items() if undeclarable(name, value, distributed=True) is None}
    )


def _roomy(settings: StreamSettings, found: FoundTopic) -> StreamSettings:
    """Raise a declared stream's settings so that records that the topic accepts now are accepted later."""
    largest = int(found.config.get("max.message.bytes", 0))
    roomy = largest <= settings.max_message_bytes + steps.HEADROOM_BYTES
    return settings if roomy else replace(settings, max_message_bytes=largest)


def _changes_of_stream(present: StreamSettings, after: StreamSettings) -> dict[str, tuple[str, str]]:
    return {
        f"stream {name}": (str(before), str(value))
        for (name, before), value in zip(asdict(present).items(), asdict(after).values(), strict=True)
        if before != value
    }


def _config(settings: StreamSettings, found: FoundTopic) -> dict[str, str]:
    config = steps.topic_config(
        retention_ms=settings.retention_ms,
        cleanup_policy=settings.cleanup_policy,
        max_message_bytes=settings.max_message_bytes,
        distributed=settings.distributed,
        config=settings.config,
    )
    return config | {
        "min.insync.replicas": str(min(settings.min_insync_replicas or 1, found.replication_factor or 1))
    }


def _others(facts: AdoptionFacts, stream: StreamName) -> dict[str, FoundTopic]:
    """Return the stream's topics on the tree's other clusters."""
    found = {}
    for leaf in facts.leaves:
        topics = facts.elsewhere.get(leaf.cluster)
        topic = formats.technical_name(leaf.topic_format, stream)
        if topics and topic in topics:
            found[leaf.cluster] = topics[topic]
    return found


def _group(reader: Reader, name: str, kind: str) -> GroupPlan:
    if name.startswith(OWN_GROUPS):
        return GroupPlan(group=name, found=None, reason="it is an internal group of Treeline")
    if kind not in _KINDS_OF_GROUPS:
        return GroupPlan(
            group=name, found=None, reason=f"a {kind} group: only offsets of consumer groups are translated"
        )
    reading = reader.read(name)
    return GroupPlan(group=name, found=reading.found, reason=reading.reason)


def _unmanaged(found: FoundTopic, reason: str) -> TopicPlan:
    return TopicPlan(
        topic=found.topic,
        action=UNMANAGED,
        topic_id=found.topic_id,
        partitions=found.partitions,
        records=found.records,
        reason=reason,
    )


def _adopted(row: TopicPlan) -> AdoptedTopic:
    assert row.stream is not None and row.settings is not None
    settings: dict[str, Any] = {**asdict(row.settings), "config": dict(row.settings.config)}
    del settings["distributed"]
    return AdoptedTopic(topic=row.topic, topic_id=row.topic_id, **asdict(row.stream), **settings)


class _Taken:
    """Technical names that are taken on every cluster of the tree, including those of the plan."""

    def __init__(self, leaves: Sequence[ClusterFormats], streams: Iterable[StreamName]) -> None:
        self._leaves = leaves
        self._topics: dict[tuple[str, str], StreamName] = {}
        self._subjects: dict[tuple[str, str], StreamName] = {}
        for stream in streams:
            self._add(stream)

    def take(self, stream: StreamName) -> str | None:
        """Reserve a stream's names; return the problem if one is taken."""
        try:
            formats.technical_names(stream, self._leaves)
            formats.refuse_taken(stream, self._leaves, self._topics, self._subjects)
        except DomainError as error:
            return error.detail
        self._add(stream)
        return None

    def _add(self, stream: StreamName) -> None:
        for leaf in self._leaves:
            topic = formats.technical_name(leaf.topic_format, stream)
            self._topics[leaf.cluster, formats.clash_key(topic)] = stream
            self._subjects[leaf.cluster, formats.technical_name(leaf.subject_format, stream)] = stream
