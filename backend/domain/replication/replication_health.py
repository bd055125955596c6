"""Health of the replication of one cluster's partitions, judged from one observation.

A partition has assigned replicas (AR), of which the first is the preferred replica. Replicas that keep up with the
leader are in sync (ISR): Kafka removes a replica that lags for `replica.lag.time.max.ms`. Producers with acks=all
are refused while the ISR is smaller than `min.insync.replicas`. A replication factor of 1 is judged by the same
rules. (Kafka's design, "Replication"; KIP-351 on partitions at their minimum, KIP-455 on reassignments.)
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

Place = tuple[str, int]
"""A partition as (topic, number)."""

MOST_NAMED = 20
"""Most examples of a kind in an answer, which counts the rest."""
NOBODY = -1
"""Leader of a partition without a leader."""


class ObservedBroker(NamedTuple):
    """A broker that the cluster knows; an offline broker may come back."""

    rack: str | None
    is_here: bool


class ObservedPartition(NamedTuple):
    """A partition as the cluster reports it."""

    replicas: tuple[int, ...]
    """Broker ids, the preferred replica first; includes replicas that are being added or removed."""
    isr: tuple[int, ...]
    leader: int
    adding: tuple[int, ...] = ()
    """Brokers to which a reassignment adds replicas."""
    removing: tuple[int, ...] = ()


class PartitionDescribed(NamedTuple):
    """Leadership of a partition as the cluster reports it at one moment."""

    leader: int
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    """Eligible leader replicas (ELR): not in sync, but with all committed records (KIP-966)."""


class TopicSettings(NamedTuple):
    """Effective settings of a topic, wherever they were set."""

    min_insync_replicas: int
    unclean_election: bool


@dataclass(frozen=True, kw_only=True)
class ObservedCluster:
    """One observation of a cluster."""

    cluster_id: str
    """Kafka's cluster id."""
    brokers: Mapping[int, ObservedBroker]
    partitions: Mapping[Place, ObservedPartition]


class Condition(StrEnum):
    """Conditions of a partition; several may hold."""

    WITHOUT_LEADER = "without_leader"
    UNDER_REPLICATED = "under_replicated"
    """The ISR is smaller than the replica set, not counting replicas that are being added."""
    UNDER_MIN_ISR = "under_min_isr"
    """The partition has a leader, and producers with acks=all are refused."""
    AT_MIN_ISR = "at_min_isr"
    """With one replica less in the ISR, producers with acks=all would be refused."""
    DOWN_TO_MIN_ISR = "down_to_min_isr"
    """The partition is at its minimum because a replica is missing, not by its settings alone."""
    UNREPLICATED = "unreplicated"
    NOT_PREFERRED = "not_preferred"
    """The leader is not the preferred replica. Not reported for partitions that are being reassigned."""
    ELECTABLE = "electable"
    """The preferred replica is not the leader, but in sync and thus electable."""
    MOVING = "moving"


@dataclass(frozen=True)
class Named:
    """A count, with the first names as examples."""

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BrokerShare:
    """Load of a broker."""

    id: int
    rack: str | None
    is_here: bool
    replicas: int
    leaders: int
    preferred: int
    """Partitions that the broker would lead if every preferred replica led."""
    lag_time_max_ms: int | None
    """The broker's `replica.lag.time.max.ms`; None if it did not report it."""


@dataclass(frozen=True, kw_only=True)
class Health:
    """Replication of a cluster at one moment. A spread is the highest less the lowest count of online brokers."""

    topics: int
    partitions: int
    brokers: tuple[BrokerShare, ...]
    """Brokers by id, including those that occur only in replica sets."""
    away: Named
    conditions: Mapping[Condition, Named]
    leaders_spread: int
    preferred_spread: int
    replicas_spread: int
    unclean_election: Named
    """Topics in which a replica without all acknowledged records may become leader."""
    min_isr_not_below_factor: Named
    """Topics with several replicas to which acks=all fails once one broker is offline."""
    one_copy_acknowledged: Named
    """Topics with three or more replicas in which acks=all may mean one copy."""
    settings_unknown: Named
    """Topics whose settings are not known (yet), so that settings are not judged."""


def conditions(partition: ObservedPartition, min_insync_replicas: int | None) -> list[Condition]:
    """Return the conditions that hold for a partition; those that need an unknown minimum are left out.

    The minimum counts up to the replication factor, as brokers apply it: with a higher value, acks=all works while
    all replicas are in sync. Without a leader no replica is in sync, since there is nothing to follow.
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


def health(
    seen: ObservedCluster, settings: Mapping[str, TopicSettings], lag_times_ms: Mapping[int, int]
) -> Health:
    """Judge an observation; the result does not depend on its order.

    `settings` by topic and `lag_times_ms` by broker (`replica.lag.time.max.ms`) may be incomplete.
    """
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
    """Group topics by the effect of their settings; `factors` has each topic's smallest replication factor."""
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
    seen: ObservedCluster,
    replicas: Mapping[int, int],
    leaders: Mapping[int, int],
    preferred: Mapping[int, int],
    lag_times_ms: Mapping[int, int],
) -> tuple[BrokerShare, ...]:
    gone = ObservedBroker(None, is_here=False)
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
    """Count values and keep the first as examples."""
    first = heapq.nsmallest(MOST_NAMED, values)
    return Named(len(values), tuple(str(each) for each in first))


def _spread(counts: Iterable[int]) -> int:
    known = list(counts)
    return max(known) - min(known) if known else 0
