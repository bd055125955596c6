"""Losses if a broker died now, from leaders, ISRs and settings alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.messages import named
from backend.replication_lab.model.rules import FIXED
from backend.replication_lab.model.start_states import established, wake_all
from backend.replication_lab.model.world import World
from backend.replication_lab.runs.timed import Clock
from backend.replication_lab.runs.what_if import KAFKA_SESSION_MS, LISTS, PartitionState, WhatIf, if_broker_dies

HERE = frozenset({1, 2, 3, 4})


def dies(
    replicas: tuple[int, ...],
    isr: set[int],
    leader: int,
    min_isr: int,
    *,
    broker: int = 1,
    unclean: bool = False,
    eligible: frozenset[int] = frozenset(),
    here: frozenset[int] = HERE,
) -> WhatIf[str]:
    led = PartitionState(replicas, frozenset(isr), leader, min_isr, unclean, eligible)
    return if_broker_dies(broker, [("p", led)], here)


def lists(found: WhatIf[str]) -> set[str]:
    """Return the lists in which it is named."""
    return {name for name in LISTS if getattr(found, name)}


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "min_isr", "named"),
    [
        ((1, 2, 3), {1, 2, 3}, 1, 2, {"moved", "uncopied"}),
        ((2, 1, 3), {1, 2, 3}, 2, 2, set()),
        ((1, 2, 3), {1, 2, 3}, 1, 3, {"moved", "uncopied", "refusing"}),
        ((2, 1, 3), {1, 2, 3}, 2, 3, {"refusing"}),
        ((1, 2), {1, 2}, 1, 1, {"moved", "uncopied"}),
        ((1, 2), {1, 2}, 2, 2, {"refusing"}),
        ((1,), {1}, 1, 1, {"offline"}),
        ((1, 2, 3), {1}, 1, 1, {"offline"}),
        ((1, 2, 3), set(), -1, 1, {"offline_already"}),
        ((1, 2, 3), {2}, -1, 1, {"offline_already"}),
        ((1, 2, 3), {1}, -1, 1, {"offline_already", "last_copy"}),
        ((2, 3, 4), {2, 3, 4}, 2, 2, set()),
        ((2, 1, 3), {1, 2, 3}, 3, 2, set()),
    ],
)
def test_what_is_lost_follows_from_who_is_in_sync(
    replicas: tuple[int, ...], isr: set[int], leader: int, min_isr: int, named: set[str]
) -> None:
    assert lists(dies(replicas, isr, leader, min_isr)) == named


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "min_isr", "named"),
    [
        ((1, 2, 3), {1, 2}, 1, 2, {"moved", "uncopied", "refusing"}),
        ((2, 1, 3), {1, 2}, 2, 2, {"refusing"}),
        ((2, 3, 1), {2, 3}, 2, 3, {"refusing"}),
        ((2, 3, 1), {2, 3}, 2, 2, set()),
        ((1, 2, 3, 4), {1, 2, 3}, 1, 2, {"moved", "uncopied"}),
    ],
)
def test_a_replica_that_lives_and_is_out_of_sync_does_not_come_back_by_itself(
    replicas: tuple[int, ...], isr: set[int], leader: int, min_isr: int, named: set[str]
) -> None:
    assert lists(dies(replicas, isr, leader, min_isr)) == named


def test_a_leader_below_min_isr_still_takes_records_that_only_it_has() -> None:
    assert lists(dies((1, 2, 3, 4), {1, 2}, 1, 3)) == {"moved", "uncopied", "refusing"}
    # A follower's death loses nothing.
    assert lists(dies((2, 1, 3, 4), {1, 2}, 2, 3)) == {"refusing"}


@pytest.mark.parametrize(
    ("isr", "min_isr", "eligible", "here", "named"),
    [
        ({1}, 1, (), HERE, {"unclean", "moved"}),
        ({1}, 2, (), HERE, {"unclean", "moved", "refusing"}),
        # A replica with all committed records comes first, even out of sync.
        ({1}, 2, (2,), HERE, {"moved", "uncopied", "refusing"}),
        ({1, 2}, 1, (), HERE, {"moved", "uncopied"}),
        # No candidate is alive.
        ({1}, 1, (), frozenset({1, 4}), {"offline"}),
        ({1}, 2, (2,), frozenset({1, 3}), {"unclean", "moved", "refusing"}),
    ],
)
def test_with_unclean_election_a_replica_leads_that_lacks_what_was_committed(
    isr: set[int], min_isr: int, eligible: tuple[int, ...], here: frozenset[int], named: set[str]
) -> None:
    found = dies((1, 2, 3), isr, 1, min_isr, unclean=True, eligible=frozenset(eligible), here=here)
    assert lists(found) == named


def test_an_eligible_replica_leads_and_nothing_committed_is_lost() -> None:
    two = frozenset({2})
    assert lists(dies((1, 2, 3), {1}, 1, 2, eligible=two)) == {"moved", "uncopied", "refusing"}
    assert lists(dies((1, 2, 3), {1}, 1, 2, eligible=two, here=frozenset({1, 3}))) == {"offline"}
    # An in-sync replica is elected before it, though it is the preferred one; so others still follow.
    assert lists(dies((2, 1, 3, 4), {1, 3, 4}, 1, 2, eligible=two)) == {"moved", "uncopied"}
    # Without a leader it is the last copy only if no other replica is eligible.
    assert lists(dies((1, 2, 3), {1}, -1, 2, eligible=two)) == {"offline_already"}
    assert lists(dies((1, 2, 3), set(), -1, 2, eligible=frozenset({1}))) == {"offline_already", "last_copy"}


def test_a_leader_is_away_for_a_session_and_an_election_and_a_follower_is_not_missed() -> None:
    alike = [("p", PartitionState((1, 2, 3), frozenset({1, 2, 3}), 1, 2))]
    for session_ms in (600.0, 5_000.0, 45_000.0):
        found = if_broker_dies(1, alike, HERE, session_ms)
        assert found.session_ms == session_ms
        # Timeouts vary by a twentieth, and a replica that is not preferred waits for the preferred one.
        assert 0.95 * session_ms < found.longest_away_ms < 1.05 * session_ms + 500
    assert dies((1, 2, 3), {1, 2, 3}, 1, 2).session_ms == KAFKA_SESSION_MS
    assert dies((2, 1, 3), {1, 2, 3}, 2, 2).longest_away_ms == 0


def test_partitions_that_are_alike_are_all_named() -> None:
    many = [(number, PartitionState((1, 2, 3), frozenset({1, 2, 3}), 1, 2)) for number in range(10_000)]
    found = if_broker_dies(1, many, HERE)
    assert found.replicas == 10_000 and len(found.moved) == 10_000 and not found.offline


def test_brokers_that_are_away_already_do_not_help() -> None:
    found = if_broker_dies(1, [("p", PartitionState((1, 2, 3), frozenset({1, 2}), 1, 1))], frozenset({1, 2}))
    assert lists(found) == {"moved", "uncopied"}
    alone = if_broker_dies(1, [("p", PartitionState((1, 2, 3), frozenset({1}), 1, 1))], frozenset({1}))
    assert lists(alone) == {"offline"}


@pytest.mark.parametrize("factor", [21, 40, 300])
def test_partitions_of_many_replicas_are_told_as_others(factor: int) -> None:
    replicas = tuple(range(1, factor + 1))
    everybody = frozenset(replicas)

    def named(in_sync: int, min_isr: int) -> set[str]:
        return lists(dies(replicas, set(replicas[:in_sync]), 1, min_isr, here=everybody))

    assert named(factor, factor - 1) == {"moved", "uncopied"}
    assert named(factor, factor) == {"moved", "uncopied", "refusing"}
    assert named(15, 14) == {"moved", "uncopied"}
    assert named(15, 15) == {"moved", "uncopied", "refusing"}
    assert named(2, 2) == {"moved", "uncopied", "refusing"}
    assert named(1, 1) == {"offline"}


def expected(led: PartitionState, broker: int, here: frozenset[int]) -> set[str]:
    """Return the lists by Kafka's rules: a live in-sync replica leads, else an eligible one, or (unclean) any."""
    if led.leader not in led.isr or led.leader not in here:
        return {"offline_already"} | ({"last_copy"} if led.isr | led.eligible == {broker} else set())
    in_sync, eligible, others = (
        (set(each) & here & set(led.replicas)) - {broker} for each in (led.isr, led.eligible, led.replicas)
    )
    named = set()
    if led.leader == broker:
        if in_sync | eligible:
            named |= {"moved", "uncopied"}
        elif led.unclean_election and others:
            named |= {"moved", "unclean"}
        else:
            return {"offline"}
    # A replica that leads without having been in sync is in sync then.
    if (len(in_sync) or 1) < min(led.min_isr, len(led.replicas)):
        named.add("refusing")
    return named


@pytest.mark.parametrize("seed", range(4))
def test_any_partition_is_told_as_kafkas_rules_have_it(seed: int) -> None:
    random = Random(seed)
    seen: set[str] = set()
    for _ in range(60):
        factor = random.choice((1, 2, 3, 3, 4, 5, 8, 19, 25, 33))
        replicas = tuple(random.sample(range(1, 60), factor))
        here = frozenset(each for each in replicas if random.random() < 0.8)
        isr = frozenset(random.sample(replicas, random.randint(0, factor)))
        eligible = frozenset(each for each in replicas if each not in isr and random.random() < 0.3)
        leader = random.choice([*isr, -1]) if random.random() < 0.9 else -1
        led = PartitionState(replicas, isr, leader, random.randint(1, factor + 1), random.random() < 0.5, eligible)
        broker = random.choice((leader, *replicas)) if leader > 0 else random.choice(replicas)
        if led.leader in here and broker not in here:
            broker = led.leader
        found = lists(if_broker_dies(broker, [("p", led)], here, 600))
        assert found == expected(led, broker, here), (led, broker, sorted(here))
        seen |= found
    assert seen >= {"offline", "refusing", "moved", "uncopied", "offline_already"}


def test_an_unclean_election_is_a_loss_that_the_model_expects_and_names() -> None:
    """A replica with all committed records follows the new leader when it is back, and ends with the same log."""
    configuration = Configuration(
        brokers=2, replication_factor=2, min_isr=1, unclean_election=True, records=3, gives_way=False
    )

    def played(given: Configuration) -> World:
        world = established(given, FIXED, records=2, isr=frozenset({1}))
        world.cuts = frozenset({(1, 2)})
        clock = Clock(world, 1)
        wake_all(world)
        clock.take(("crash", 1))
        clock.at(5_000, ("heal", 1, 2))
        clock.at(6_000, ("restart", 1))
        clock.run(20_000)
        return world

    lost = played(configuration)
    assert lost.history.violated is None, lost.history.what
    assert [record.number for _, record in lost.history.expected_losses] == [0, 1]
    assert lost.store.leader == 2 and lost.store.isr == {1, 2}
    assert lost.brokers[1].log == lost.brokers[2].log and len(lost.brokers[1].log) == 3

    kept = played(replace(configuration, unclean_election=False))
    assert kept.history.violated is None and not kept.history.expected_losses
    assert kept.store.leader == 1


def test_after_an_unclean_election_who_was_in_sync_is_eligible_no_more() -> None:
    """A replica that is only silent has all committed records, and still has to follow.

    Records that only it has are lost, as expected where the store counts it as gone.
    """
    configuration = Configuration(
        brokers=2, replication_factor=2, min_isr=2, unclean_election=True, records=3, gives_way=False
    )
    world = established(configuration, FIXED, records=2, isr=frozenset({1}))
    world.cuts = frozenset({(1, 2)})
    clock = Clock(world, 1)
    wake_all(world)
    clock.take(("pause", 1))
    clock.run(5_000)
    assert (world.store.leader, world.store.isr, world.store.elr) == (2, {2}, frozenset())
    assert world.history.violated is None
    assert [named(record) for _, record in world.history.expected_losses] == ["z0", "z1"]
