"""What would be lost if a broker died now: each partition of a live cluster as the beginning of a run in fixed
mode.

Partitions that are alike (the same places of leader, in-sync, eligible and dead replicas in the order of the
assignment, the same min ISR and kind of election) are one run. The leader has just taken a record with acks=1 that
nobody has fetched; then the broker is gone and stays so. A replica that lives and is out of sync is so for a
reason: it stays out of reach of the others, and does not come back in sync by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from backend.replication_lab.beginnings import established, wake_all
from backend.replication_lab.configuration import Configuration, Times
from backend.replication_lab.messages import ProduceRequest, Record, sent_by
from backend.replication_lab.network import post
from backend.replication_lab.rules import FIXED
from backend.replication_lab.timed import Clock
from backend.replication_lab.world import World

KAFKA_SESSION_MS = 9_000
"""Kafka's own default of broker.session.timeout.ms."""
_SETTLING_MS = 3_000
"""Simulated: elections, and followers that go on with the new leader, take a fraction of it."""
_SEED = 1
_ACKS_ALL, _ACKS_ONE = 0, 1
"""The producers: one that goes on, and one that has sent its only record."""
_ENOUGH = 2
"""Replicas of a kind that a run needs: more of them change nothing but the number in sync."""

P = TypeVar("P", bound=Hashable)


class Led(NamedTuple):
    """A partition as its cluster tells it."""

    replicas: tuple[int, ...]
    """Broker ids, the preferred one first."""
    isr: frozenset[int]
    leader: int
    """0 or less: none."""
    min_isr: int
    unclean_election: bool = False
    """A replica that is not in sync may lead where no other one lives."""
    eligible: frozenset[int] = frozenset()
    """Eligible leader replicas: not in sync, but they have all that is committed (KIP-966)."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What becomes of one partition."""

    moved: bool
    """Another broker leads than before."""
    nobody_leads: bool
    """No other replica that lives is known to have all that is committed: it is lost if the broker's disk is."""
    takes_records: bool
    """Producers with acks=all are served in the end."""
    loses_committed: bool
    """Who leads lacks what was committed: it is lost for good."""
    loses_uncopied: bool
    """What the leader had taken and nobody had fetched is gone; only acks=0 and acks=1 had been answered for it.
    """
    away_ms: float
    """Simulated, from the death until another broker led; 0 where the leader stayed or nobody can lead."""


@dataclass(frozen=True, kw_only=True)
class WhatIf(Generic[P]):
    """What the death of a broker does to a cluster's partitions, each named in all lists that it belongs to."""

    broker: int
    replicas: int
    """Partitions that have a replica there."""
    unclean: tuple[P, ...]
    """A replica leads them that was not in sync: what it lacks is lost for good, acknowledged or not."""
    offline: tuple[P, ...]
    """Nobody can lead them until it is back; what is committed in them is lost if its disk is."""
    last_copy: tuple[P, ...]
    """Of `offline_already`, those of which no other replica is known to have all that is committed."""
    refusing: tuple[P, ...]
    """They are led, but fewer are in sync than min ISR: acks=all is refused."""
    moved: tuple[P, ...]
    uncopied: tuple[P, ...]
    """Records that only the leader has are gone; producers with acks=all were not told that those were written."""
    offline_already: tuple[P, ...]
    """Nobody leads them now."""
    session_ms: float
    """After so long the cluster takes a silent broker for dead."""
    longest_away_ms: float
    """Simulated."""


def if_broker_dies(
    broker: int,
    partitions: Iterable[tuple[P, Led]],
    here: frozenset[int],
    session_ms: float = KAFKA_SESSION_MS,
) -> WhatIf[P]:
    """What would be lost if the broker died now.

    Args:
        broker: Its id.
        partitions: All of the cluster, or some.
        here: Ids of the brokers that are up.
        session_ms: After so long without a sign of life the cluster takes a broker for dead.
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
    told = {name: tuple(places) for name, places in found.items()}
    return WhatIf(broker=broker, replicas=replicas, session_ms=session_ms, longest_away_ms=longest, **told)


LISTS = ("unclean", "offline", "last_copy", "refusing", "moved", "uncopied", "offline_already")
"""Fields of WhatIf that name partitions, the gravest first."""


def _lists(outcome: Outcome) -> Iterable[str]:
    """Where a partition with this outcome is named."""
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


def _fewer(led: Led, broker: int, here: frozenset[int]) -> Led:
    """The same partition without surplus replicas: a run has room for a limited number, and partitions of many
    replicas are more often alike.

    Of each kind the first ones are kept, and all that have a part of their own. One that lives and is in sync
    leaves with its share of min ISR. Who is eligible counts only where nobody in sync is left: Kafka elects those
    first.
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


def _shape(led: Led, broker: int, here: frozenset[int]) -> Hashable:
    """What makes two partitions alike for this question."""
    roles = tuple((each in led.isr, each in led.eligible, each in here) for each in led.replicas)
    return roles, led.replicas.index(led.leader), led.replicas.index(broker), led.min_isr, led.unclean_election


def _play(led: Led, broker: int, here: frozenset[int], session_ms: float) -> Outcome:
    number = {each: at for at, each in enumerate(led.replicas, 1)}
    world = _world(led, here, number, session_ms)
    clock = Clock(world, _SEED)
    wake_all(world)
    committed = tuple(world.history.committed)
    uncopied = _take_uncopied(clock, number[led.leader])
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


def _world(led: Led, here: frozenset[int], number: dict[int, int], session_ms: float) -> World:
    """The partition as it is now, with one committed record. `number`: of the brokers in the model."""
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


def _take_uncopied(clock: Clock, leader: int) -> Record:
    """The leader takes a record with acks=1, for which it needs nobody; no follower has fetched it yet."""
    world, sender = clock.world, sent_by(_ACKS_ONE)
    world.producers[_ACKS_ONE].left = 0
    post(world, sender, leader, ProduceRequest(_ACKS_ONE, 0, 0, 1, acks_all=False))
    clock.take(("deliver", sender, leader))
    return world.brokers[leader].log[-1]
