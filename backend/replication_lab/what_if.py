"""What would be lost if a broker died now: each partition of a live cluster as the beginning of a run in fixed
mode.

Partitions that are alike (the same places of leader, in-sync and dead replicas in the order of the assignment,
the same min ISR) are one run. The leader has just taken a record that nobody has fetched; then the broker is
gone and stays so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from backend.replication_lab.beginnings import established, wake_all
from backend.replication_lab.configuration import Configuration
from backend.replication_lab.messages import sent_by
from backend.replication_lab.rules import FIXED
from backend.replication_lab.timed import Clock
from backend.replication_lab.world import World

_PATIENCE_MS = 10_000
"""Simulated: sessions, elections and followers that are dropped take a fraction of it."""
_SEED = 1

P = TypeVar("P", bound=Hashable)


class Led(NamedTuple):
    """A partition as its cluster tells it."""

    replicas: tuple[int, ...]
    """Broker ids, the preferred one first."""
    isr: frozenset[int]
    leader: int
    """0 or less: none."""
    min_isr: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What becomes of one partition."""

    moved: bool
    """Another broker leads than before."""
    takes_records: bool
    """Producers with acks=all are served in the end."""
    loses_uncopied: bool
    """What the leader had taken and nobody had fetched is gone; only acks=0 and acks=1 had been answered for it.
    """
    committed_out_of_reach: bool
    """No other replica is known to have all that is committed: it is lost if the broker's disk is."""
    away_ms: float
    """Simulated, from the death until a record was acknowledged again; 0 where the leader stayed or nobody can
    lead.
    """


@dataclass(frozen=True)
class WhatIf(Generic[P]):
    """What the death of a broker does to a cluster's partitions, each named in all lists that it belongs to."""

    broker: int
    replicas: int
    """Partitions that have a replica there."""
    moved: tuple[P, ...]
    offline: tuple[P, ...]
    """Nobody can lead them until it is back; what is committed in them is lost if its disk is."""
    refusing: tuple[P, ...]
    """They are led, but fewer are in sync than min ISR: acks=all is refused."""
    uncopied: tuple[P, ...]
    """Records that only the leader has are gone; producers with acks=all were not told that those were written."""
    offline_already: tuple[P, ...]
    """Nobody leads them now."""
    longest_away_ms: float
    """Simulated."""


def if_broker_dies(broker: int, partitions: Iterable[tuple[P, Led]], here: frozenset[int]) -> WhatIf[P]:
    """What would be lost if the broker died now.

    Args:
        broker: Its id.
        partitions: All of the cluster, or some.
        here: Ids of the brokers that are up.
    """
    known: dict[Hashable, Outcome] = {}
    found: dict[str, list[P]] = {"moved": [], "offline": [], "refusing": [], "uncopied": [], "offline_already": []}
    replicas, longest = 0, 0.0
    for place, led in partitions:
        if broker not in led.replicas:
            continue
        replicas += 1
        if led.leader not in led.isr or led.leader not in here:
            found["offline_already"].append(place)
            continue
        shape = _shape(led, broker, here)
        outcome = known.get(shape)
        if outcome is None:
            outcome = known[shape] = _play(led, broker, here)
        longest = max(longest, outcome.away_ms)
        if outcome.committed_out_of_reach:
            found["offline"].append(place)
        elif not outcome.takes_records:
            found["refusing"].append(place)
        if outcome.moved:
            found["moved"].append(place)
        if outcome.loses_uncopied:
            found["uncopied"].append(place)
    told = {name: tuple(places) for name, places in found.items()}
    return WhatIf(broker=broker, replicas=replicas, longest_away_ms=longest, **told)


def _shape(led: Led, broker: int, here: frozenset[int]) -> Hashable:
    """What makes two partitions alike for this question."""
    roles = tuple((each in led.isr, each in here) for each in led.replicas)
    return roles, led.replicas.index(led.leader), led.replicas.index(broker), min(led.min_isr, len(led.replicas))


def _play(led: Led, broker: int, here: frozenset[int]) -> Outcome:
    number = {each: at for at, each in enumerate(led.replicas, 1)}
    factor = len(led.replicas)
    configuration = Configuration(
        brokers=factor,
        replication_factor=factor,
        min_isr=max(1, min(led.min_isr, factor)),
        records=1 << 20,
        gives_way=False,
    )
    dead = frozenset(number[each] for each in led.replicas if each not in here)
    world = established(
        configuration,
        FIXED,
        records=1,
        leader=number[led.leader],
        isr=frozenset(number[each] for each in led.isr if each in number),
        dead=dead,
    )
    clock = Clock(world, _SEED)
    wake_all(world)
    clock.take(("produce", 0))
    clock.take(("deliver", sent_by(0), number[led.leader]))
    uncopied = _only_on(world, number[broker])
    clock.take(("crash", number[broker]))
    before = world.producers[0].acknowledged
    away = 0.0
    while world.now < _PATIENCE_MS and clock.next_at() is not None:
        clock.step()
        if not away and world.producers[0].acknowledged > before and led.leader == broker:
            away = world.now
    last = world.producers[0].acknowledged
    clock.run(_PATIENCE_MS * 1.2)
    leader = world.leader()
    names = {at: each for each, at in number.items()}
    return Outcome(
        moved=leader is not None and names[leader.id] != led.leader,
        takes_records=world.producers[0].acknowledged > last,
        loses_uncopied=uncopied,
        committed_out_of_reach=leader is None,
        away_ms=away,
    )


def _only_on(world: World, broker: int) -> bool:
    """The broker has records that no other one that lives and is in sync has, and that are not committed."""
    others = [
        len(each.log)
        for each in world.brokers.values()
        if each.alive and each.id != broker and each.id in world.store.isr
    ]
    return world.store.leader == broker and bool(others) and len(world.brokers[broker].log) > max(others)
