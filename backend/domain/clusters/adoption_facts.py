"""What a plan of an adoption is made from: topics as clusters have them, and what is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backend.domain.names.formats import ClusterFormats
from backend.domain.names.names import StreamName
from backend.domain.names.readings import EnvironmentPlace
from backend.domain.topics.stream_settings import StreamSettings


@dataclass(frozen=True, kw_only=True)
class FoundTopic:
    """A topic as the cluster has it; `records` None if its ends could not be read, `refusal` why it is hidden."""

    topic: str
    topic_id: str = ""
    partitions: int = 0
    replication_factor: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    """In force, defaults of the cluster too."""
    own: Mapping[str, str] = field(default_factory=dict)
    """Those of `config` that are set on the topic itself."""
    records: int | None = None
    refusal: str | None = None
    has_copies: bool = False
    """Whether records were seen that carry copy flags or an origin."""


@dataclass(frozen=True, kw_only=True)
class DeclaredStream:
    """A stream of the tree; `topic_id` is that of its topic recorded on the cluster, None if none is."""

    settings: StreamSettings
    topic_id: str | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the plan is made from: the cluster, what is declared, and what the tree's other clusters hold."""

    cluster: ClusterFormats
    group_format: str
    in_tree: bool
    topics: Sequence[FoundTopic]
    groups: Sequence[tuple[str, str]]
    """(group, kind): classic, consumer, or another."""
    environments: Sequence[EnvironmentPlace]
    streams: Mapping[StreamName, DeclaredStream]
    leaves: Sequence[ClusterFormats]
    """Every cluster of the tree, and this one."""
    elsewhere: Mapping[str, Mapping[str, FoundTopic] | None]
    """Other clusters of the tree -> their topics by name; None: it did not answer."""
