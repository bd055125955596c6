"""What a copy session asks the control plane, and what it must be able to tell it."""

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
"""(stream, partition)."""


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A record that the target refuses; `origin` is (cluster's number, incarnation, offset) where it is known."""

    target: str
    stream: str
    partition: int
    offset: int
    origin: tuple[int, int, int] | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Gone:
    """Offsets of the source that cannot be read any more."""

    target: str
    stream: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    incarnation: int
    """Of the source's newest records there."""


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """A source's topic that was made anew, and what may be lost with its former one, per partition."""

    target: str
    stream: str
    incarnation: int
    """Of the new topic."""
    unread: Mapping[int, Unread]


@dataclass(frozen=True, kw_only=True)
class CutOff:
    """Offsets of the source that were gone after they had been read, and are given out anew.

    `incarnation` is what the session took the partition's newest records for.
    """

    stream: str
    partition: int
    first_offset: int
    last_offset: int
    incarnation: int


def no_checkpoints(partitions: Collection[Partition]) -> Mapping[Partition, Sequence[Checkpoint]]:
    """Knows none: after a change of routes partitions are read from their log's beginning."""
    return {}


def no_event(what: Refused | Gone | Replaced | CutOff) -> str:
    """Has nowhere to record it, so the session must not go on: nothing may be left out without an event."""
    raise CopyFailed(f"nobody is there to record what cannot be copied: {what}")


def no_gate(target: Endpoint) -> SchemaGate | None:
    """Records wait for no schemas."""
    return None


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """The control plane as a session needs it. Each may raise what keeps it from answering."""

    foreign: Callable[[int], bool] = never_foreign
    """Whether no cluster of the tree has this number, right now."""
    checkpoints: Callable[[Collection[Partition]], Mapping[Partition, Sequence[Checkpoint]]] = no_checkpoints
    """Checkpoints of partitions on the source."""
    set_aside: Callable[[Refused], str] = no_event
    """Records that a record is being put into quarantine; the id that it has there."""
    lost: Callable[[Gone], object] = no_event
    """Records that offsets were gone before they could be read."""
    replaced: Callable[[Replaced], object] = no_event
    """Records that a topic was made anew, with what may be lost."""
    cut_off: Callable[[CutOff], object] = no_event
    """Records that a log was cut off; a new plan then tells the records from before and after apart."""
    schema_gate: Callable[[Endpoint], SchemaGate | None] = no_gate
    """What is known of a target's schemas."""
    topic_ids: TopicIds = field(default_factory=TopicIds)
    """Asks clusters which topics they have under the planned names."""
    measures: Measures = field(default_factory=Measures)
    """Where it is noted how much of each stream was copied."""
    seen_ends: SeenEnds = field(default_factory=SeenEnds)
    """Where it is noted how much of each partition waits to be copied."""
