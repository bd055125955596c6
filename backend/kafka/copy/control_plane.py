"""Interface of a copy session to the control plane: what it reads there, and what it must be able to report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from backend.domain.distribution.edges import Endpoint
from backend.domain.distribution.former_topic import Unread
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records.log_prefix import never_foreign
from backend.kafka.base.errors import CopyFailed
from backend.kafka.copy.measuring import Measures
from backend.kafka.copy.schema_wait import SchemaGate
from backend.kafka.copy.seen_ends import SeenEnds
from backend.kafka.copy.topic_ids import TopicIds

Partition = tuple[str, int]
"""(Stream, partition)."""


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A record that the target refuses; `origin` is (cluster's number, incarnation, offset), if known."""

    target: str
    stream: str
    partition: int
    offset: int
    origin: tuple[int, int, int] | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Gone:
    """Offsets of the source that can no longer be read."""

    target: str
    stream: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    incarnation: int
    """Incarnation of the source's newest records there."""


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """A source topic that was re-created, and the possible losses with the former one, per partition."""

    target: str
    stream: str
    incarnation: int
    """Incarnation of the new topic."""
    unread: Mapping[int, Unread]


@dataclass(frozen=True, kw_only=True)
class Truncated:
    """Offsets of the source that were truncated after they had been read, and are assigned again.

    `incarnation` is the one that the session assumed for the partition's newest records.
    """

    stream: str
    partition: int
    first_offset: int
    last_offset: int
    incarnation: int


def no_checkpoints(partitions: Collection[Partition]) -> Mapping[Partition, Sequence[Checkpoint]]:
    """Return no checkpoints: after a change of routes, partitions are read from their log's beginning."""
    return {}


def no_event(what: Refused | Gone | Replaced | Truncated) -> str:
    """Fail, because an event cannot be recorded: no record may be left out without one."""
    raise CopyFailed(f"the loss cannot be recorded, so copying stops: {what}")


def no_gate(target: Endpoint) -> SchemaGate | None:
    """Return no gate: records wait for no schemas."""
    return None


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """The control plane as a session needs it. Each callable may raise a failure of the control plane."""

    foreign: Callable[[int], bool] = never_foreign
    """Returns whether no cluster of the tree has this number, right now."""
    checkpoints: Callable[[Collection[Partition]], Mapping[Partition, Sequence[Checkpoint]]] = no_checkpoints
    """Returns checkpoints of partitions on the source."""
    dead_letter: Callable[[Refused], str] = no_event
    """Records that a record is being dead-lettered; returns its id there."""
    lost: Callable[[Gone], object] = no_event
    """Records that offsets were gone before they could be read."""
    replaced: Callable[[Replaced], object] = no_event
    """Records that a topic was re-created, with the possible losses."""
    truncated: Callable[[Truncated], object] = no_event
    """Records that a log was truncated; a new plan then tells the records from before and after apart."""
    schema_gate: Callable[[Endpoint], SchemaGate | None] = no_gate
    """Returns the gate that knows a target's schemas."""
    topic_ids: TopicIds = field(default_factory=TopicIds)
    """Reads from clusters which topics they have under the planned names."""
    measures: Measures = field(default_factory=Measures)
    """Counts how much of each stream was copied."""
    seen_ends: SeenEnds = field(default_factory=SeenEnds)
    """Keeps how far each partition is known to extend beyond the copied part."""
