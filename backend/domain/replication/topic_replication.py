"""Replication of declared topics as observed: replicas against the declaration, and what acks=all promises."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from backend.domain.replication.replication_health import (
    Named,
    ObservedCluster,
    ObservedPartition,
    TopicSettings,
    named,
)

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True, kw_only=True)
class TopicReplication:
    """Replication of one topic, without replicas that a reassignment is still adding."""

    fewest: int
    """Smallest replication factor of its partitions."""
    most: int
    moving: bool
    """Tells whether one of its partitions is being reassigned."""
    min_insync_replicas: int | None
    """Effective value; None, as the next field, if the settings cannot be read."""
    unclean_election: bool | None


@dataclass(frozen=True, kw_only=True)
class FactorMismatch:
    """Topics whose replication factor differs from the declared one."""

    fewer: Named
    more: Named


def seen_topics(
    seen: ObservedCluster, settings: Mapping[str, TopicSettings], topics: Collection[str]
) -> dict[str, TopicReplication]:
    """Return the observed ones of `topics`. `settings` by topic may be incomplete."""
    partitions: dict[str, list[ObservedPartition]] = {}
    for (topic, _), partition in seen.partitions.items():
        if topic in topics:
            partitions.setdefault(topic, []).append(partition)
    return {topic: _topic(each, settings.get(topic)) for topic, each in partitions.items()}


def _topic(partitions: list[ObservedPartition], settings: TopicSettings | None) -> TopicReplication:
    factors = [len(each.replicas) - len(each.adding) for each in partitions]
    return TopicReplication(
        fewest=min(factors),
        most=max(factors),
        moving=any(each.adding or each.removing for each in partitions),
        min_insync_replicas=settings and settings.min_insync_replicas,
        unclean_election=settings and settings.unclean_election,
    )


def factor_mismatches(
    declared: Mapping[str, int], topics: Mapping[str, TopicReplication], brokers: int
) -> FactorMismatch:
    """Compare with declared replication factors, of which the `brokers` online brokers limit the possible.

    Topics that are being reassigned are left out: their factor is about to change.
    """
    still = {topic: each for topic, each in topics.items() if topic in declared and not each.moving}
    return FactorMismatch(
        fewer=named([topic for topic, each in still.items() if each.fewest < min(declared[topic], brokers)]),
        more=named([topic for topic, each in still.items() if each.most > declared[topic]]),
    )


def acks_advice(replicas: int, min_insync_replicas: int) -> str:
    """Say what acks=all promises for a topic with `replicas` replicas and this min.insync.replicas.

    Source: Kafka's documentation of `acks` and `min.insync.replicas`; brokers cap the minimum at the replication
    factor.
    """
    needed = min(min_insync_replicas, replicas)
    spare = _in_words(replicas - needed)
    if replicas == 1:
        return "acks=all: a record is on one broker; while it is offline nothing can be written or read"
    if needed == replicas:
        return (
            f"acks=all: a record is on {_in_words(needed)} brokers before it is acknowledged; none may be "
            "offline, or producers are refused"
        )
    if needed == 1:
        return f"acks=all: a record may be on one broker only when it is acknowledged; {spare} may be offline"
    return (
        f"acks=all: a record is on {_in_words(needed)} brokers before it is acknowledged; {spare} may be offline"
    )


def unclean_advice(unclean_election: bool) -> str:
    """Say what unclean leader election means for the topic."""
    if unclean_election:
        return "unclean leader election is on: a lagging replica may lead, and records that it lacks are lost"
    return "unclean leader election is off"


def _in_words(number: int) -> str:
    return _WORDS[number] if number < len(_WORDS) else str(number)
