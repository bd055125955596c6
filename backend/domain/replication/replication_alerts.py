"""What of a cluster's replication somebody should look at, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from backend.domain.replication.replication_health import Condition, Health, Named
from backend.domain.replication.topic_replication import Unlike

UNEVEN_PERCENT = 10
"""Of the mean of leaders per broker that the spread may be: Kafka's `leader.imbalance.per.broker.percentage`."""


class Severity(StrEnum):
    """How soon."""

    CRITICAL = "critical"
    """Clients are being refused."""
    WARNING = "warning"
    """Less is left than was meant to be, or records may be lost."""
    ADVICE = "advice"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """Something to look at. `examples` are partitions (topic-number), topics or brokers."""

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
        "Nobody can read or write them. Start the brokers that are away: one that was in sync last leads again. "
        "If these are lost for good, a replica that was behind can be elected (kafka-leader-election.sh "
        "--election-type unclean), and what it does not have is lost.",
    ),
    (
        "under-min-isr",
        Severity.CRITICAL,
        Condition.UNDER_MIN_ISR,
        "Producers with acks=all are refused. Start the brokers that are away; if none is, find out why followers "
        "are behind for longer than replica.lag.time.max.ms (disk, network, a throttle that was left).",
    ),
    (
        "under-replicated",
        Severity.WARNING,
        Condition.UNDER_REPLICATED,
        "Fewer replicas are in sync than there should be. Start the brokers that are away, or have what they held "
        "placed elsewhere (treeline placement plan --cluster, with --target-brokers).",
    ),
    (
        "down-to-min-isr",
        Severity.WARNING,
        Condition.DOWN_TO_MIN_ISR,
        "Once one more replica falls out of sync, producers with acks=all are refused. Restart no other broker "
        "until all are in sync again.",
    ),
)
_OF_TOPICS = (
    (
        "min-isr-not-below-factor",
        Severity.WARNING,
        "min_isr_not_below_factor",
        "acks=all fails once a single broker is away, also when one is only restarted. Set min.insync.replicas to "
        "one less than the replicas, or add a replica.",
    ),
    (
        "unclean-election",
        Severity.WARNING,
        "unclean_election",
        "Records that were acknowledged are lost when a replica leads that was behind. Set "
        "unclean.leader.election.enable to false.",
    ),
    (
        "one-copy-acknowledged",
        Severity.ADVICE,
        "one_copy_acknowledged",
        "With acks=all a record is acknowledged even if only the leader has it. Set min.insync.replicas to 2: "
        "with three replicas one broker may still be away.",
    ),
)


def alerts(health: Health, unlike: Unlike, cluster: str) -> list[Alert]:
    """The gravest first; none of a kind that nothing is of. That a topic is un-replicated is no alert, if it was
    asked for. `cluster`: its name, for the commands that are advised."""
    order = list(Severity)
    found = [*_found(health), *_of_declarations(unlike, cluster)]
    return sorted(found, key=lambda each: order.index(each.severity))


def _found(health: Health) -> Iterator[Alert]:
    if health.away.count:
        yield _alert(
            "broker-away",
            Severity.WARNING,
            health.away,
            "Start them. One that is not to come back is taken out by placing its replicas elsewhere (treeline "
            "placement plan --cluster, with --target-brokers).",
        )
    for name, severity, condition, what_to_do in _OF_PARTITIONS:
        if health.conditions[condition].count:
            yield _alert(name, severity, health.conditions[condition], what_to_do)
    for name, severity, field, what_to_do in _OF_TOPICS:
        topics: Named = getattr(health, field)
        if topics.count:
            yield _alert(name, severity, topics, what_to_do)
    yield from _of_leaders(health)


def _of_declarations(unlike: Unlike, cluster: str) -> Iterator[Alert]:
    name = "factor-not-as-declared"
    plan = f"treeline placement plan --cluster {cluster} --replication-factor declared"
    way = f"{plan}, then treeline placement apply with the id that it tells"
    if unlike.fewer.count:
        yield _alert(
            name,
            Severity.WARNING,
            unlike.fewer,
            "They have fewer replicas than declared, and no more need be in sync than there are. Have them "
            f"placed: {way}.",
        )
    if unlike.more.count:
        yield _alert(
            name,
            Severity.ADVICE,
            unlike.more,
            f"They have more replicas than declared. Declare as many, or have the others removed: {way}.",
        )


def _of_leaders(health: Health) -> Iterator[Alert]:
    others = health.conditions[Condition.NOT_PREFERRED]
    if others.count:
        ready = health.conditions[Condition.ELECTABLE].count
        yield _alert(
            "not-preferred-leader",
            Severity.ADVICE,
            others,
            f"{ready:,} of them could be led by their preferred broker at once (treeline replication "
            "elect-leaders); that of the others is not in sync yet.",
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
        "The first of these brokers leads so many partitions more than the last one. "
        + (
            "Preferred brokers are even: elect them (treeline replication elect-leaders)."
            if by_election
            else "So do preferred brokers: have them placed evenly (treeline placement plan --cluster)."
        ),
    )


def _is_uneven(spread: int, counts: list[int]) -> bool:
    # By one they always differ that share what cannot be divided.
    return spread > 1 and 100 * spread * len(counts) > UNEVEN_PERCENT * sum(counts)


def _alert(name: str, severity: Severity, of: Named, what_to_do: str) -> Alert:
    return Alert(alert=name, severity=severity, count=of.count, examples=of.examples, what_to_do=what_to_do)
