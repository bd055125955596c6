"""Warnings of an adoption's plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from backend.domain.clusters.adoption_facts import AdoptionFacts, FoundTopic
from backend.domain.topics.topic_settings import apart, same_value, undeclarable

MIRROR_MAKER = re.compile(r"heartbeats|mm2-.+\.internal|.+\.checkpoints\.internal|.+\.heartbeats")


def topic_warnings(
    found: FoundTopic, others: Mapping[str, FoundTopic], partitions: int, undeclared: Mapping[str, str]
) -> Iterator[str]:
    """Yield what an operator should know before a topic is adopted.

    `others`: the stream's topics on other clusters; `undeclared`: settings of the topic that stay its own.
    """
    if partitions > found.partitions:
        yield (
            f"it will have {partitions} partitions instead of {found.partitions}: records with the same key will "
            "then go to another partition than before"
        )
    if found.has_copies:
        yield (
            "some records already carry copy flags or an origin: they are treated as copies from this tree's "
            "clusters, and are copied only where their headers allow. If another installation wrote them, copy "
            "the topic without these headers first"
        )
    holding = [f"{name} ({row.records})" for name, row in others.items() if row.records]
    if holding and found.records:
        yield (
            f"the stream has records on {', '.join(holding)} too: each cluster's records are distributed to all "
            "others. If some of them are copies made by another replicator, they will be duplicated: empty that "
            "topic first"
        )
    yield from _settings_warnings(found, others, undeclared)


def cluster_warnings(facts: AdoptionFacts) -> Iterator[str]:
    """Yield what an operator should know about the whole cluster."""
    silent = [name for name, topics in facts.elsewhere.items() if topics is None]
    if silent:
        yield f"{', '.join(silent)} did not answer: their topics of these streams are unknown"
    clusters = {facts.cluster.cluster: [row.topic for row in facts.topics]}
    clusters |= {name: list(topics or ()) for name, topics in facts.elsewhere.items()}
    mirrored = [name for name, topics in clusters.items() if any(map(MIRROR_MAKER.fullmatch, topics))]
    if mirrored:
        yield (
            f"MirrorMaker 2 has topics on {', '.join(mirrored)}: records that it copied between clusters of this "
            "tree cannot be distinguished from records first produced there, and would be distributed again"
        )
    if not facts.in_tree:
        yield f"{facts.cluster.cluster} is in no tree yet: its records will be distributed once it is a leaf"


def _settings_warnings(
    found: FoundTopic, others: Mapping[str, FoundTopic], undeclared: Mapping[str, str]
) -> Iterator[str]:
    refused = {
        name: why for name, value in undeclared.items() if (why := undeclarable(name, value, distributed=True))
    }
    left = {name: value for name, value in undeclared.items() if name not in refused}
    if left:
        yield (
            f"its stream will not declare {_listed(left)}: this topic keeps it, but the stream's topics on other "
            "clusters will not have it. Adopt topic settings, too, or declare them in the stream's config"
        )
    for name, why in refused.items():
        yield f"{_listed({name: undeclared[name]})} stays on this topic only: it {why}"
    taken_over = apart(found.own).keys() - undeclared.keys()
    for cluster, other in others.items():
        names = sorted({*undeclared, *apart(other.own)} - taken_over)
        unlike = {
            name: other.config[name]
            for name in names
            if name in other.config and not same_value(name, other.config[name], found.config.get(name))
        }
        if unlike:
            yield f"the stream's topic on {cluster} has {_listed(unlike)}, which differs from this one"


def _listed(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
