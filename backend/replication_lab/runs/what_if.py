"""Losses if a broker died now: each partition of a live cluster is the start state of a run in fixed mode.

Partitions that are alike (the same positions of leader, ISR, ELR and dead replicas in the order of the assignment,
the same min.insync.replicas and kind of election) share one run. The leader has just appended a record with acks=1
that no follower has fetched; then the broker dies and stays dead. A live replica out of sync is so for a reason:
it stays unreachable for the others, and does not return to the ISR by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from backend.replication_lab.model.configuration import Configuration, Times
from backend.replication_lab.model.messages import ProduceRequest, Record, sent_by
from backend.replication_lab.model.network import post
from backend.replication_lab.model.rules import FIXED
from backend.replication_lab.model.start_states import established, wake_all
from backend.replication_lab.model.world import World
from backend.replication_lab.runs.timed import Clock

KAFKA_SESSION_MS = 9_000
"""Kafka's default of broker.session.timeout.ms."""
_SETTLING_MS = 3_000
"""Simulated time for elections, and for followers that fetch from the new leader; they take a fraction of it."""
_SEED = 1
_ACKS_ALL, _ACKS_ONE = 0, 1
"""Ids of the producers: one that continues, and one that has sent its only record."""
_ENOUGH = 2
"""Replicas of a kind that a run needs: more of them change only the number in sync."""

P = TypeVar("P", bound=Hashable)


class PartitionState(NamedTuple):
    """State of a partition as its cluster reports it."""

    replicas: tuple[int, ...]
    """Broker ids, the preferred replica first."""
    isr: frozenset[int]
    leader: int
    """Broker id of the leader; 0 or less: no leader."""
    min_isr: int
    unclean_election: bool = False
    """Tells whether a replica that is not in sync may lead if no other replica is alive."""
    eligible: frozenset[int] = frozenset()
    """Eligible leader replicas (ELR): not in sync, but with all committed records (KIP-966)."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome for one partition."""

    moved: bool
    """Tells whether another broker leads than before."""
    nobody_leads: bool
    """Tells whether no other live replica is known to have all committed records: they are lost if the broker's
    disk is."""
    takes_records: bool
    """Tells whether producers with acks=all are served in the end."""
    loses_committed: bool
    """Tells whether the leader lacks committed records, which are lost for good."""
    loses_uncopied: bool
    """Tells whether the record that only the leader had is gone; only acks=0 and acks=1 had been acknowledged.
    """
    away_ms: float
    """Simulated time from the death until another broker led; 0 if the leader stayed or none can be elected."""


@dataclass(frozen=True, kw_only=True)
class WhatIf(Generic[P]):
    """Effect of a broker's death on a cluster's partitions; a partition is in every list that applies to it."""

    broker: int
    replicas: int
    """Number of partitions with a replica on the broker."""
    unclean: tuple[P, ...]
    """Partitions led by a replica that was not in sync: what it lacks is lost for good, acknowledged or not."""
    offline: tuple[P, ...]
    """Partitions without a leader until the broker is back; their committed records are lost if its disk is."""
    last_copy: tuple[P, ...]
    """Partitions of `offline_already` without another replica that is known to have all committed records."""
    refusing: tuple[P, ...]
    """Partitions that are led with fewer in sync than min.insync.replicas: acks=all is refused."""
    moved: tuple[P, ...]
    uncopied: tuple[P, ...]
    """Partitions in which records are lost that only the leader had; producers with acks=all got no
    acknowledgement."""
    offline_already: tuple[P, ...]
    """Partitions without a leader now."""
    session_ms: float
    """Time after which the cluster considers a silent broker dead."""
    longest_away_ms: float
    """Longest simulated time without a leader."""


def if_broker_dies(
    broker: int,
    partitions: Iterable[tuple[P, PartitionState]],
    here: frozenset[int],
    session_ms: float = KAFKA_SESSION_MS,
) -> WhatIf[P]:
    """Compute what would be lost if the broker died now.

    Args:
        broker: broker id.
        partitions: all partitions of the cluster, or some.
        here: ids of the live brokers.
        session_ms: time after which the cluster considers a silent broker dead.
    """
    known: dict[Hashable, Outcome] = {}
    found: dict[str, list[P]] = {name: [] for name in LISTS}
    replicas, longest = 0, 0.0
    for place, led in partitions:
        if broker not in led.replicas:
            continue
        replicas += 1
        if led.leader not in led.isr or led.leader not in here:
            found["offline_already"].append(place)
            if led.isr | led.eligible == {broker}:
                found["last_copy"].append(place)
            continue
        fewer = _fewer(led, broker, here)
        shape = _shape(fewer, broker, here)
        outcome = known.get(shape)
        if outcome is None:
            outcome = known[shape] = _play(fewer, broker, here, session_ms)
        longest = max(longest, outcome.away_ms)
        for name in _lists(outcome):
            found[name].append(place)
    lists = {name: tuple(places) for name, places in found.items()}
    return WhatIf(broker=broker, replicas=replicas, session_ms=session_ms, longest_away_ms=longest, **lists)


LISTS = ("unclean", "offline", "last_copy", "refusing", "moved", "uncopied", "offline_already")
"""Fields of WhatIf that list partitions, the gravest first."""


def _lists(outcome: Outcome) -> Iterable[str]:
    """Yield the lists to which a partition with this outcome belongs."""
    if outcome.nobody_leads:
        yield "offline"
        return
    if outcome.moved:
        yield "moved"
    if not outcome.takes_records:
        yield "refusing"
    if outcome.loses_committed:
        yield "unclean"
    elif outcome.loses_uncopied:
        yield "uncopied"


def _fewer(led: PartitionState, broker: int, here: frozenset[int]) -> PartitionState:
    """Return the partition without surplus replicas.

    A run has room for a limited number, and partitions of many replicas are then more often alike. Of each kind
    the first ones are kept, and all with a role of their own. A live in-sync replica that is left out takes its
    share of min.insync.replicas with it. Eligible replicas count only if no live replica is in sync: Kafka elects
    those first.
    """
    if (led.isr & here) - {broker}:
        led = led._replace(eligible=frozenset())
    special = {led.leader, broker, led.replicas[0]}
    kept: list[int] = []
    kinds, spare = Counter[tuple[bool, bool, bool]](), 0
    for each in led.replicas:
        kind = each in led.isr, each in led.eligible, each in here
        if each not in special:
            kinds[kind] += 1
            if kinds[kind] > _ENOUGH:
                spare += each in led.isr and each in here
                continue
        kept.append(each)
    least = min(led.min_isr, len(led.replicas)) - spare
    return led._replace(replicas=tuple(kept), min_isr=max(1, min(least, len(kept))))


def _shape(led: PartitionState, broker: int, here: frozenset[int]) -> Hashable:
    """Return what makes two partitions alike for this question."""
    roles = tuple((each in led.isr, each in led.eligible, each in here) for each in led.replicas)
    return roles, led.replicas.index(led.leader), led.replicas.index(broker), led.min_isr, led.unclean_election


def _play(led: PartitionState, broker: int, here: frozenset[int], session_ms: float) -> Outcome:
    number = {each: at for at, each in enumerate(led.replicas, 1)}
    world = _world(led, here, number, session_ms)
    clock = Clock(world, _SEED)
    wake_all(world)
    committed = tuple(world.history.committed)
    uncopied = _append_uncopied(clock, number[led.leader])
    clock.take(("crash", number[broker]))
    led_after: float | None = None
    until = 1.2 * session_ms + _SETTLING_MS
    while not world.producers[_ACKS_ALL].acknowledged and world.now < until and clock.next_at() is not None:
        clock.step()
        if led_after is None and world.leader() is not None:
            led_after = world.now
    leader = world.leader()
    log = frozenset() if leader is None else frozenset(leader.log)
    moved = leader is not None and leader.id != number[led.leader]
    return Outcome(
        moved=moved,
        nobody_leads=leader is None,
        takes_records=world.producers[_ACKS_ALL].acknowledged > 0,
        loses_committed=leader is not None and not log.issuperset(committed),
        loses_uncopied=leader is not None and uncopied not in log,
        away_ms=led_after if moved and led_after is not None else 0.0,
    )


def _world(led: PartitionState, here: frozenset[int], number: dict[int, int], session_ms: float) -> World:
    """Return the current partition with one committed record. `number` maps broker ids to the model's."""
    configuration = Configuration(
        brokers=len(number),
        replication_factor=len(number),
        min_isr=led.min_isr,
        producers=2,
        records=1 << 20,
        gives_way=False,
        unclean_election=led.unclean_election,
        times=Times(session=session_ms),
    )
    isr = frozenset(number[each] for each in led.isr if each in number)
    dead = frozenset(at for each, at in number.items() if each not in here)
    world = established(
        configuration,
        FIXED,
        records=1,
        leader=number[led.leader],
        isr=isr,
        eligible=frozenset(number[each] for each in led.eligible if each in number),
        dead=dead,
    )
    kept_out = set(number.values()) - isr - dead
    everybody = number.values()
    world.cuts = frozenset((min(a, b), max(a, b)) for a in kept_out for b in everybody if a != b)
    return world


def _append_uncopied(clock: Clock, leader: int) -> Record:
    """Let the leader append a record with acks=1, which no follower has fetched yet."""
    world, sender = clock.world, sent_by(_ACKS_ONE)
    world.producers[_ACKS_ONE].left = 0
    post(world, sender, leader, ProduceRequest(_ACKS_ONE, 0, 0, 1, acks_all=False))
    clock.take(("deliver", sender, leader))
    return world.brokers[leader].log[-1]
