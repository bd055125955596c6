"""What adopting a cluster would do with the topics and groups that it holds; nothing is done here.

    declare    the topic becomes a stream that is not declared yet, with the settings that the topic has
    join       its stream is declared; the topic is taken as the stream's on this cluster
    kept       it is its stream's topic already
    ambiguous  the name can be read in several ways; only the operator can choose
    unmanaged  it stays what it is, with the reason

Records that are in an adopted topic were born on its cluster, whatever their age, and are distributed from the
first one on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from backend.domain.base.errors import DomainError, FieldError, ValueInvalid
from backend.domain.clusters.adoption import AdoptedTopic
from backend.domain.clusters.adoption_facts import DeclaredStream, Facts, FoundTopic
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
    """What becomes of one topic."""

    topic: str
    action: str
    stream: StreamName | None = None
    topic_id: str = ""
    partitions: int = 0
    records: int | None = None
    settings: StreamSettings | None = None
    """The stream's settings after the adoption."""
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What would change on the topic or on its stream: name -> (from, to)."""
    undeclared: Mapping[str, str] = field(default_factory=dict)
    """Settings of the topic itself that its stream will not declare: they stay on this cluster only."""
    reason: str | None = None
    readings: tuple[StreamName, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GroupPlan:
    """Which logical group a group of the cluster is; nothing is done with groups."""

    group: str
    found: StreamName | None
    """Its last part is the group's logical name."""
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class AdoptionPlan:
    """The whole plan; `digest` stands for what it would do, not for how much data there is."""

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

    def chosen(self, topics: Sequence[str] | None) -> tuple[AdoptedTopic, ...]:
        """What an adoption of these topics (None: all that can be) begins with; those kept need nothing.

        Raises ValueInvalid at each topic that cannot be adopted.
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


def plan(facts: Facts, named: Mapping[str, StreamName], *, take_settings: bool = False) -> AdoptionPlan:
    """Return the plan. `named`: topic -> the stream that the operator says it is. `take_settings`: new streams
    declare every setting of their topic that can be declared. Raises ValueInvalid."""
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
            row = row if problem is None else _left(found, problem)
        topics.append(row)
    groups = Reader(facts.group_format, "group", facts.environments, {})
    return AdoptionPlan(
        cluster=facts.cluster.cluster,
        topics=tuple(topics),
        groups=tuple(_group(groups, name, kind) for name, kind in sorted(facts.groups)),
        warnings=tuple(cluster_warnings(facts)),
    )


def _check_named(facts: Facts, named: Mapping[str, StreamName]) -> None:
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
    facts: Facts, reader: Reader, found: FoundTopic, named: StreamName | None, *, take_settings: bool
) -> TopicPlan:
    reason = _excluded(found, sure=named is not None)
    if reason is not None:
        return _left(found, reason)
    reading = reader.read(found.topic)
    stream = named or reading.found
    if stream is None:
        left = _left(found, reading.reason or "")
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
    facts: Facts, found: FoundTopic, stream: StreamName, present: DeclaredStream | None, *, take_settings: bool
) -> TopicPlan:
    try:
        settings = (
            _settings_of(found, take_settings=take_settings)
            if present is None
            else _roomy(present.settings, found)
        )
        check_settings(settings)
    except (DomainError, ValueError) as error:
        return _left(found, f"its settings are not within what a stream may declare: {error}")
    config = _config(settings, found)
    if found.records and (loss := steps.loss(config, found.config)):
        return _left(found, loss)
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
    """Why a topic stays out; `sure` if the operator named it, which overrules what only looks like it."""
    problem = formats.topic_problem(found.topic)
    if problem is not None:
        return problem
    if found.refusal is not None:
        return f"it cannot be seen: {found.refusal}"
    if not sure and found.topic.endswith(_STREAMS_SUFFIXES):
        return (
            "its name is one of Kafka Streams' internal topics, which belong to one application on one cluster; "
            "if it is not, name its stream"
        )
    if not sure and MIRROR_MAKER.fullmatch(found.topic):
        return "its name is one of MirrorMaker 2's own topics; if it is not, name its stream"
    if found.config.get(TIMESTAMP_TYPE) == steps.APPEND_TIME:
        return steps.append_time_reason(found.topic)
    if found.partitions > MOST_PARTITIONS:
        return f"it has {found.partitions} partitions; a stream has at most {MOST_PARTITIONS}"
    return None


def _settings_of(found: FoundTopic, *, take_settings: bool) -> StreamSettings:
    """Settings that change the topic as little as can be. Raises ValueError for what no stream can declare."""
    largest = int(found.config.get("max.message.bytes", 0))
    if largest > LARGEST_MESSAGE_BYTES:
        raise ValueError(f"max.message.bytes is {largest}, a stream may have {LARGEST_MESSAGE_BYTES}")
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
    """A declared stream's settings, raised so that no record that the topic takes now is refused from then on."""
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


def _others(facts: Facts, stream: StreamName) -> dict[str, FoundTopic]:
    """The stream's topics that the tree's other clusters hold already."""
    found = {}
    for leaf in facts.leaves:
        topics = facts.elsewhere.get(leaf.cluster)
        topic = formats.technical_name(leaf.topic_format, stream)
        if topics and topic in topics:
            found[leaf.cluster] = topics[topic]
    return found


def _group(reader: Reader, name: str, kind: str) -> GroupPlan:
    if name.startswith(OWN_GROUPS):
        return GroupPlan(group=name, found=None, reason="it is one of Treeline's own")
    if kind not in _KINDS_OF_GROUPS:
        return GroupPlan(
            group=name, found=None, reason=f"a {kind} group: only offsets of consumer groups are carried over"
        )
    reading = reader.read(name)
    return GroupPlan(group=name, found=reading.found, reason=reading.reason)


def _left(found: FoundTopic, reason: str) -> TopicPlan:
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
    """Technical names that streams have on every cluster of the tree, those of the plan too."""

    def __init__(self, leaves: Sequence[ClusterFormats], streams: Iterable[StreamName]) -> None:
        self._leaves = leaves
        self._topics: dict[tuple[str, str], StreamName] = {}
        self._subjects: dict[tuple[str, str], StreamName] = {}
        for stream in streams:
            self._add(stream)

    def take(self, stream: StreamName) -> str | None:
        """Give a stream its names, or say why it cannot have them."""
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
