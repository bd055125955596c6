"""How well the partitions of one cluster are replicated, judged from one look at it.

A partition has assigned replicas (AR), of which the first is on its preferred broker. Those that keep up with the
leader are in sync (ISR): Kafka takes one out that is behind for `replica.lag.time.max.ms`. Producers with acks=all
are refused while fewer are in sync than `min.insync.replicas`. Un-replicated is replicated once, and judged by the
same rules. (Kafka's design, "Replication"; KIP-351 on partitions at their minimum, KIP-455 on reassignments.)
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

Place = tuple[str, int]
"""A partition: topic and number."""

MOST_NAMED = 20
"""Names of a kind that an answer gives; it counts the rest."""
NOBODY = -1
"""The leader of a partition that has none."""


class BrokerSeen(NamedTuple):
    """A broker that the cluster knows; one that is not here may come back."""

    rack: str | None
    is_here: bool


class PartitionSeen(NamedTuple):
    """A partition as the cluster tells it."""

    replicas: tuple[int, ...]
    """Broker ids, the preferred one first; those that it is being moved to, and from, with them."""
    isr: tuple[int, ...]
    leader: int
    adding: tuple[int, ...] = ()
    """Brokers that a reassignment copies it to."""
    removing: tuple[int, ...] = ()


class PartitionDescribed(NamedTuple):
    """What a cluster tells of a partition's leadership, all of one moment."""

    leader: int
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    """Eligible leader replicas: not in sync, but they have all that is committed (KIP-966)."""


class TopicSettings(NamedTuple):
    """What holds for a topic, whoever set it."""

    min_insync_replicas: int
    unclean_election: bool


@dataclass(frozen=True, kw_only=True)
class ClusterSeen:
    """What one look at a cluster found."""

    cluster_id: str
    """Kafka's own."""
    brokers: Mapping[int, BrokerSeen]
    partitions: Mapping[Place, PartitionSeen]


class Condition(StrEnum):
    """What can be said of a partition; several may hold."""

    WITHOUT_LEADER = "without_leader"
    UNDER_REPLICATED = "under_replicated"
    """Fewer replicas are in sync than it has, not counting those that are only being added."""
    UNDER_MIN_ISR = "under_min_isr"
    """It has a leader, and producers with acks=all are refused."""
    AT_MIN_ISR = "at_min_isr"
    """With one less in sync they would be."""
    DOWN_TO_MIN_ISR = "down_to_min_isr"
    """It is at its minimum because a replica is missing, not by its settings alone."""
    UNREPLICATED = "unreplicated"
    NOT_PREFERRED = "not_preferred"
    """Another broker than the preferred one leads it. Not told of partitions that are being moved."""
    ELECTABLE = "electable"
    """Of these, those whose preferred broker is in sync, so that it could lead."""
    MOVING = "moving"


@dataclass(frozen=True)
class Named:
    """How many there are, and the names of the first."""

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BrokerShare:
    """What a broker has to do."""

    id: int
    rack: str | None
    is_here: bool
    replicas: int
    leaders: int
    preferred: int
    """Partitions that it would lead if each was led by its preferred broker."""
    lag_time_max_ms: int | None
    """Its `replica.lag.time.max.ms`; None if it did not tell."""


@dataclass(frozen=True, kw_only=True)
class Health:
    """A cluster's replication at one moment. Spreads: the most of any broker that is here, less the least."""

    topics: int
    partitions: int
    brokers: tuple[BrokerShare, ...]
    """By id, also those that only replicas are told to be on."""
    away: Named
    conditions: Mapping[Condition, Named]
    leaders_spread: int
    preferred_spread: int
    replicas_spread: int
    unclean_election: Named
    """Topics that a replica may lead which has not all that was acknowledged."""
    min_isr_not_below_factor: Named
    """Topics of several replicas to which acks=all fails once one broker is away."""
    one_copy_acknowledged: Named
    """Topics of three replicas or more to which acks=all may mean one copy."""
    settings_unknown: Named
    """Topics whose settings are not known (yet), so that what depends on them is not judged."""


def conditions(partition: PartitionSeen, min_insync_replicas: int | None) -> list[Condition]:
    """What holds of a partition; without what depends on the minimum, if that is not known.

    The minimum counts up to the replicas that there are, as brokers take it: with a higher one than that, acks=all
    works while all are in sync. Who does not lead cannot be followed: without a leader nobody is in sync.
    """
    replicas, isr, leader, adding, removing = partition
    led = leader != NOBODY
    staying = [broker for broker in replicas if broker not in adding] if adding else replicas
    factor = len(staying)
    in_sync = len([broker for broker in staying if broker in isr]) if led else 0
    found = [] if led else [Condition.WITHOUT_LEADER]
    if in_sync < factor:
        found.append(Condition.UNDER_REPLICATED)
    if factor == 1:
        found.append(Condition.UNREPLICATED)
    if led and min_insync_replicas is not None:
        spare = len(isr) - min(min_insync_replicas, factor)
        if spare < 0:
            found.append(Condition.UNDER_MIN_ISR)
        elif spare == 0:
            found.append(Condition.AT_MIN_ISR)
            if in_sync < factor:
                found.append(Condition.DOWN_TO_MIN_ISR)
    if adding or removing:
        found.append(Condition.MOVING)
    elif led and leader != replicas[0]:
        found.append(Condition.NOT_PREFERRED)
        if replicas[0] in isr:
            found.append(Condition.ELECTABLE)
    return found


def health(seen: ClusterSeen, settings: Mapping[str, TopicSettings], lag_times_ms: Mapping[int, int]) -> Health:
    """Judge a look. `settings` by topic, `lag_times_ms` by broker: `replica.lag.time.max.ms`, as far as they are
    known. The same in whatever order things were seen."""
    found: dict[Condition, list[Place]] = defaultdict(list)
    replicas, leaders, preferred = Counter[int](), Counter[int](), Counter[int]()
    factors: dict[str, int] = {}
    for place, partition in seen.partitions.items():
        known = settings.get(place[0])
        for condition in conditions(partition, known and known.min_insync_replicas):
            found[condition].append(place)
        for broker in partition.replicas:
            replicas[broker] += 1
        preferred[partition.replicas[0]] += 1
        if partition.leader != NOBODY:
            leaders[partition.leader] += 1
        factor = len(partition.replicas) - len(partition.adding)
        factors[place[0]] = min(factor, factors.get(place[0], factor))
    brokers = _shares(seen, replicas, leaders, preferred, lag_times_ms)
    here = [each for each in brokers if each.is_here]
    return Health(
        topics=len(factors),
        partitions=len(seen.partitions),
        brokers=brokers,
        away=named([each.id for each in brokers if not each.is_here]),
        conditions={condition: _places(found[condition]) for condition in Condition},
        leaders_spread=_spread(each.leaders for each in here),
        preferred_spread=_spread(each.preferred for each in here),
        replicas_spread=_spread(each.replicas for each in here),
        **_by_settings(factors, settings),
    )


def _by_settings(factors: Mapping[str, int], settings: Mapping[str, TopicSettings]) -> dict[str, Named]:
    """Topics by what their settings mean; `factors`: the replicas that the least replicated partition has."""
    unclean, fragile, lone, unknown = list[str](), list[str](), list[str](), list[str]()
    for topic, factor in factors.items():
        known = settings.get(topic)
        if known is None:
            unknown.append(topic)
            continue
        if known.unclean_election and factor > 1:
            unclean.append(topic)
        if known.min_insync_replicas >= factor > 1:
            fragile.append(topic)
        if known.min_insync_replicas == 1 and factor > 2:
            lone.append(topic)
    return {
        "unclean_election": named(unclean),
        "min_isr_not_below_factor": named(fragile),
        "one_copy_acknowledged": named(lone),
        "settings_unknown": named(unknown),
    }


def _shares(
    seen: ClusterSeen,
    replicas: Mapping[int, int],
    leaders: Mapping[int, int],
    preferred: Mapping[int, int],
    lag_times_ms: Mapping[int, int],
) -> tuple[BrokerShare, ...]:
    gone = BrokerSeen(None, is_here=False)
    return tuple(
        BrokerShare(
            id=broker,
            rack=seen.brokers.get(broker, gone).rack,
            is_here=seen.brokers.get(broker, gone).is_here,
            replicas=replicas.get(broker, 0),
            leaders=leaders.get(broker, 0),
            preferred=preferred.get(broker, 0),
            lag_time_max_ms=lag_times_ms.get(broker),
        )
        for broker in sorted(seen.brokers.keys() | replicas.keys() | leaders.keys())
    )


def _places(places: list[Place]) -> Named:
    first = heapq.nsmallest(MOST_NAMED, places)
    return Named(len(places), tuple(f"{topic}-{number}" for topic, number in first))


def named(values: list[int] | list[str]) -> Named:
    """Count them, and name the first."""
    first = heapq.nsmallest(MOST_NAMED, values)
    return Named(len(values), tuple(str(each) for each in first))


def _spread(counts: Iterable[int]) -> int:
    known = list(counts)
    return max(known) - min(known) if known else 0
