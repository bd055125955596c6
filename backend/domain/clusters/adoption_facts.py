"""Facts for the plan of an adoption: the topics that clusters have, and the streams that are declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backend.domain.names.formats import ClusterFormats
from backend.domain.names.names import StreamName
from backend.domain.names.readings import EnvironmentPlace
from backend.domain.topics.stream_settings import StreamSettings


@dataclass(frozen=True, kw_only=True)
class FoundTopic:
    """A topic as the cluster has it.

    `records` is None if its offsets could not be read; `refusal` is the reason why the cluster does not show it.
    """

    topic: str
    topic_id: str = ""
    partitions: int = 0
    replication_factor: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    """Settings in force, including the cluster's defaults."""
    own: Mapping[str, str] = field(default_factory=dict)
    """Settings of `config` that are set on the topic itself."""
    records: int | None = None
    refusal: str | None = None
    has_copies: bool = False
    """True if records were seen that carry copy flags or an origin."""


@dataclass(frozen=True, kw_only=True)
class DeclaredStream:
    """A stream of the tree. `topic_id`: id of its topic as recorded on the cluster, None if there is none."""

    settings: StreamSettings
    topic_id: str | None


@dataclass(frozen=True, kw_only=True)
class AdoptionFacts:
    """Facts for a plan: the cluster, what is declared, and what the tree's other clusters hold."""

    cluster: ClusterFormats
    group_format: str
    in_tree: bool
    topics: Sequence[FoundTopic]
    groups: Sequence[tuple[str, str]]
    """(group, kind); kind is classic, consumer, or another."""
    environments: Sequence[EnvironmentPlace]
    streams: Mapping[StreamName, DeclaredStream]
    leaves: Sequence[ClusterFormats]
    """Every cluster of the tree, and this one."""
    elsewhere: Mapping[str, Mapping[str, FoundTopic] | None]
    """Other clusters of the tree -> their topics by name; None if the cluster did not answer."""
