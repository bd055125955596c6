"""Alerts about a cluster's replication, each with advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from backend.domain.replication.replication_health import Condition, Health, Named
from backend.domain.replication.topic_replication import FactorMismatch

UNEVEN_PERCENT = 10
"""Tolerated spread of leaders per broker, in percent of the mean: `leader.imbalance.per.broker.percentage` of
Kafka."""


class Severity(StrEnum):
    """Severity of an alert."""

    CRITICAL = "critical"
    """Clients are refused."""
    WARNING = "warning"
    """Redundancy is reduced, or records may be lost."""
    ADVICE = "advice"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """An alert. `examples` are partitions (topic-number), topics or brokers."""

    alert: str
    severity: Severity
    count: int
    examples: tuple[str, ...]
    what_to_do: str


_OF_PARTITIONS = (
    (
        "partition-without-leader",
        Severity.CRITICAL,
        Condition.WITHOUT_LEADER,
        "Clients can neither read nor write these partitions. Start the offline brokers: the last in-sync replica "
        "becomes leader again. If they are lost for good, elect a lagging replica (kafka-leader-election.sh "
        "--election-type unclean); records that it lacks are lost.",
    ),
    (
        "under-min-isr",
        Severity.CRITICAL,
        Condition.UNDER_MIN_ISR,
        "Producers with acks=all are refused. Start the offline brokers; if all are online, find out why "
        "followers lag by more than replica.lag.time.max.ms (disk, network, a leftover throttle).",
    ),
    (
        "under-replicated",
        Severity.WARNING,
        Condition.UNDER_REPLICATED,
        "The ISR is smaller than the replica set. Start the offline brokers, or plan a placement without these "
        "brokers on the page Placements.",
    ),
    (
        "down-to-min-isr",
        Severity.WARNING,
        Condition.DOWN_TO_MIN_ISR,
        "If one more replica leaves the ISR, producers with acks=all are refused. Do not restart another broker "
        "until all replicas are in sync.",
    ),
)
_OF_TOPICS = (
    (
        "min-isr-not-below-factor",
        Severity.WARNING,
        "min_isr_not_below_factor",
        "acks=all fails as soon as one broker is offline, even during a restart. Set min.insync.replicas to one "
        "less than the replication factor, or add a replica.",
    ),
    (
        "unclean-election",
        Severity.WARNING,
        "unclean_election",
        "Acknowledged records are lost when a lagging replica becomes leader. Set "
        "unclean.leader.election.enable to false.",
    ),
    (
        "one-copy-acknowledged",
        Severity.ADVICE,
        "one_copy_acknowledged",
        "With acks=all a record is acknowledged even if only the leader has it. Set min.insync.replicas to 2: "
        "with three replicas one broker may still be offline.",
    ),
)


def alerts(health: Health, unlike: FactorMismatch, cluster: str) -> list[Alert]:
    """Return the alerts, the gravest first.

    Kinds without an occurrence are left out. A replication factor of 1 is no alert if it was declared. `cluster`
    is the cluster's name, for the commands in the advice.
    """
    order = list(Severity)
    found = [*_found(health), *_of_declarations(unlike, cluster)]
    return sorted(found, key=lambda each: order.index(each.severity))


def _found(health: Health) -> Iterator[Alert]:
    if health.away.count:
        yield _alert(
            "broker-away",
            Severity.WARNING,
            health.away,
            f"Start {'it' if health.away.count == 1 else 'them'}. To remove a broker for good, plan a placement "
            "without it on the page Placements.",
        )
    for name, severity, condition, what_to_do in _OF_PARTITIONS:
        if health.conditions[condition].count:
            yield _alert(name, severity, health.conditions[condition], what_to_do)
    for name, severity, field, what_to_do in _OF_TOPICS:
        topics: Named = getattr(health, field)
        if topics.count:
            yield _alert(name, severity, topics, what_to_do)
    yield from _of_leaders(health)


def _of_declarations(unlike: FactorMismatch, cluster: str) -> Iterator[Alert]:
    name = "factor-not-as-declared"
    plan = f"treeline placement plan --cluster {cluster} --replication-factor declared"
    way = f"{plan}, then treeline placement apply with the id of the plan"
    if unlike.fewer.count:
        yield _alert(
            name,
            Severity.WARNING,
            unlike.fewer,
            "They have fewer replicas than declared, which also limits min.insync.replicas. Add the missing "
            f"replicas: {way}.",
        )
    if unlike.more.count:
        yield _alert(
            name,
            Severity.ADVICE,
            unlike.more,
            f"They have more replicas than declared. Declare as many, or remove the others: {way}.",
        )


def _of_leaders(health: Health) -> Iterator[Alert]:
    others = health.conditions[Condition.NOT_PREFERRED]
    if others.count:
        ready = health.conditions[Condition.ELECTABLE].count
        yield _alert(
            "not-preferred-leader",
            Severity.ADVICE,
            others,
            f"For {ready:,} of them the preferred replica is in sync and can be elected; for the "
            "others it is not in sync yet.",
        )
    here = [each for each in health.brokers if each.is_here]
    if not _is_uneven(health.leaders_spread, [each.leaders for each in here]):
        return
    by_election = not _is_uneven(health.preferred_spread, [each.preferred for each in here])
    busiest = sorted(here, key=lambda each: (-each.leaders, each.id))
    yield _alert(
        "leaders-uneven",
        Severity.ADVICE,
        Named(health.leaders_spread, tuple(f"{each.id}: {each.leaders}" for each in (busiest[0], busiest[-1]))),
        "The first broker leads this many more partitions than the last one. "
        + (
            "Preferred leaders are balanced: elect them."
            if by_election
            else "Preferred leaders are unbalanced as well: plan a placement on the page Placements."
        ),
    )


def _is_uneven(spread: int, counts: list[int]) -> bool:
    # Counts that cannot be divided evenly always differ by one.
    return spread > 1 and 100 * spread * len(counts) > UNEVEN_PERCENT * sum(counts)


def _alert(name: str, severity: Severity, of: Named, what_to_do: str) -> Alert:
    return Alert(alert=name, severity=severity, count=of.count, examples=of.examples, what_to_do=what_to_do)
