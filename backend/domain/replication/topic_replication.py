"""Topics that Treeline declares, as one look at a cluster finds them: replicas against the declaration, and what
acks=all promises there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from backend.domain.replication.replication_health import ClusterSeen, Named, PartitionSeen, TopicSettings, named

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True, kw_only=True)
class TopicReplication:
    """One topic. What a reassignment is still adding does not count."""

    fewest: int
    """Replicas of the partition that has the fewest."""
    most: int
    moving: bool
    """Whether one of its partitions is being reassigned."""
    min_insync_replicas: int | None
    """In force; None, as the next, if its settings may not be seen."""
    unclean_election: bool | None


@dataclass(frozen=True, kw_only=True)
class Unlike:
    """Topics whose replicas are not as many as declared."""

    fewer: Named
    more: Named


def seen_topics(
    seen: ClusterSeen, settings: Mapping[str, TopicSettings], topics: Collection[str]
) -> dict[str, TopicReplication]:
    """Those of `topics` that the look found. `settings` by topic, as far as they are known."""
    partitions: dict[str, list[PartitionSeen]] = {}
    for (topic, _), partition in seen.partitions.items():
        if topic in topics:
            partitions.setdefault(topic, []).append(partition)
    return {topic: _topic(each, settings.get(topic)) for topic, each in partitions.items()}


def _topic(partitions: list[PartitionSeen], settings: TopicSettings | None) -> TopicReplication:
    factors = [len(each.replicas) - len(each.adding) for each in partitions]
    return TopicReplication(
        fewest=min(factors),
        most=max(factors),
        moving=any(each.adding or each.removing for each in partitions),
        min_insync_replicas=settings and settings.min_insync_replicas,
        unclean_election=settings and settings.unclean_election,
    )


def unlike_declared(declared: Mapping[str, int], topics: Mapping[str, TopicReplication], brokers: int) -> Unlike:
    """Compare with the factors that are declared, of which `brokers`, those that are there, can hold so many.

    Topics that are being moved do not count: they come to what somebody wished for."""
    still = {topic: each for topic, each in topics.items() if topic in declared and not each.moving}
    return Unlike(
        fewer=named([topic for topic, each in still.items() if each.fewest < min(declared[topic], brokers)]),
        more=named([topic for topic, each in still.items() if each.most > declared[topic]]),
    )


def acks_advice(replicas: int, min_insync_replicas: int) -> str:
    """What acks=all promises of a topic with so many replicas, of which as many must be in sync, in words.

    (Kafka's documentation, `acks` and `min.insync.replicas`; brokers take a minimum above the replicas for these.)
    """
    needed = min(min_insync_replicas, replicas)
    spare = _in_words(replicas - needed)
    if replicas == 1:
        return "acks=all: a record is on one broker; while that is away nothing can be written or read"
    if needed == replicas:
        return (
            f"acks=all: a record is on {_in_words(needed)} brokers before it is acknowledged; none may be away, "
            "or writing stops"
        )
    if needed == 1:
        return f"acks=all: a record may be on one broker only when it is acknowledged; {spare} may be away"
    return f"acks=all: a record is on {_in_words(needed)} brokers before it is acknowledged; {spare} may be away"


def unclean_advice(unclean_election: bool) -> str:
    """What a leader that is lost may mean."""
    if unclean_election:
        return "unclean election is on: a replica that was behind may lead, and what it lacks is lost"
    return "unclean election is off"


def _in_words(number: int) -> str:
    return _WORDS[number] if number < len(_WORDS) else str(number)
