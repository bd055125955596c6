"""Drift of topic settings: values that differ between a stream's clusters, or from its declaration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from backend.domain.topics.topic_settings import NOT_A_DECLARATION, same_value

ON_TOPIC, DECLARED, DEFAULT = "topic", "declared", "default"
"""Source of a value: set on the topic itself, declared by the stream, or the cluster's default."""

_NOT_COMPARED = frozenset({*NOT_A_DECLARATION, "min.insync.replicas"})
"""`min.insync.replicas` follows the replicas that each cluster can have, so it may differ everywhere."""


@dataclass(frozen=True, kw_only=True)
class TopicSeen:
    """Observation of a stream's topic on one cluster."""

    own: Mapping[str, str] = field(default_factory=dict)
    """Settings that are set on the topic itself and differ from the declaration."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Values that the cluster gives to topics that do not set them, as far as known."""


@dataclass(frozen=True, kw_only=True)
class InForce:
    """A setting's effective value on one cluster, and its source."""

    value: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Drift:
    """One setting that differs between clusters, or from its declaration."""

    setting: str
    declared: str | None
    """Declared value; None if the stream does not declare the setting."""
    clusters: Mapping[str, InForce]
    """Effective values, for clusters where the value is known."""


def not_as_declared(own: Mapping[str, str], declared: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's own settings that differ from the declaration, except those that cannot be declared."""
    return {
        name: value
        for name, value in own.items()
        if name not in _NOT_COMPARED and not same_value(name, value, declared.get(name))
    }


def drifts(declared: Mapping[str, str], seen: Mapping[str, TopicSeen]) -> list[Drift]:
    """Return the settings that differ, sorted by name. `seen`: cluster -> observation."""
    found = []
    for name in _names(seen.values()):
        clusters = {cluster: value for cluster, each in seen.items() if (value := _in_force(name, declared, each))}
        differ = any(not same_value(name, _first(clusters).value, each.value) for each in clusters.values())
        changed = name in declared and any(each.source == ON_TOPIC for each in clusters.values())
        if differ or changed:
            found.append(Drift(setting=name, declared=declared.get(name), clusters=clusters))
    return found


def _names(seen: Iterable[TopicSeen]) -> list[str]:
    return sorted({name for each in seen for name in (*each.own, *each.defaults)} - _NOT_COMPARED)


def _in_force(name: str, declared: Mapping[str, str], seen: TopicSeen) -> InForce | None:
    if name in seen.own:
        return InForce(value=seen.own[name], source=ON_TOPIC)
    if name in declared:
        return InForce(value=declared[name], source=DECLARED)
    if name in seen.defaults:
        return InForce(value=seen.defaults[name], source=DEFAULT)
    return None


def _first(clusters: Mapping[str, InForce]) -> InForce:
    return next(iter(clusters.values()))
