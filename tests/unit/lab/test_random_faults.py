"""Random faults on many seeds: fixed mode never violates, always recovers, and loses only what is expected.

A loss is expected only after a moment without a live replica in ISR or ELR, and only if at least
min.insync.replicas brokers have been down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.rules import FAITHFUL, FIXED, Rules
from backend.replication_lab.runs.recovery import unsettled
from tests.unit.lab import random_walks
from tests.unit.lab.random_faults import HEALED_BY, Ran, random_schedule, run

SEEDS, NIGHTLY_SEEDS, AT_ONCE = 200, 10_000, 500
WALKS, NIGHTLY_WALKS = 800, 100_000
WITHOUT_POWER_LOSS = tuple(each for each in HEALED_BY if each != "power_loss")


def ran(seed: int, rules: Rules = FIXED) -> Ran:
    """Run the schedule of a seed, with that seed."""
    return run(random_schedule(seed), rules, seed)


def broken(seed: int, found: Ran) -> str:
    """Return what is broken, in words; empty if nothing is."""
    history = found.world.history
    if history.violated is not None:
        return f"seed {seed}: {history.violated}: {history.what}"
    if not found.settled:
        return f"seed {seed} never settles: {unsettled(found.world)}"
    if history.expected_losses and not found.had_nobody:
        return f"seed {seed}: {history.expected_losses} lost, and one in sync lived all the while"
    if history.expected_losses and len(found.crashed) < found.world.configuration.min_isr:
        return f"seed {seed}: {history.expected_losses} lost, and only {set(found.crashed)} had been down"
    return ""


def all_broken(seeds: Iterable[int]) -> list[str]:
    """Return what is broken with these seeds."""
    return [said for seed in seeds if (said := broken(seed, ran(seed)))]


def test_fixed_mode_holds_settles_and_loses_only_what_is_expected_under_random_faults():
    assert all_broken(range(SEEDS)) == []


@pytest.mark.nightly
def test_fixed_mode_holds_settles_and_loses_only_what_is_expected_on_ten_thousand_seeds():
    parts = [range(first, first + AT_ONCE) for first in range(0, NIGHTLY_SEEDS, AT_ONCE)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert [said for part in processes.map(all_broken, parts) for said in part] == []


def test_nothing_is_lost_for_a_moment_without_anybody_in_sync_if_no_disk_lost_its_tail():
    """A broker that crashes and restarts keeps its log; the last one of the ISR is waited for."""
    for seed in range(SEEDS // 3):
        schedule = random_schedule(seed, Configuration(records=1 << 30), WITHOUT_POWER_LOSS)
        found = run(schedule, FIXED, seed)
        assert broken(seed, found) == ""
        assert (seed, found.world.history.expected_losses) == (seed, ())


def test_losses_do_happen_where_they_are_expected():
    """Losses must occur, or the assertions about them would check nothing."""
    assert any(ran(seed).world.history.expected_losses for seed in (19, 72, 113, 123, 198))


def test_the_same_seed_gives_the_same_schedule_and_the_same_run():
    for seed in range(10):
        assert random_schedule(seed) == random_schedule(seed)
        assert ran(seed).steps == ran(seed).steps


def test_the_schedules_are_of_all_kinds():
    drawn = [random_schedule(seed) for seed in range(SEEDS)]
    kinds = {str(action[0]) for each in drawn for _, action in each.steps}
    assert kinds == {*HEALED_BY, *HEALED_BY.values(), "reassign"} - {""}
    seen = [each.configuration for each in drawn]
    assert {each.brokers for each in seen} == {2, 3, 4, 5}
    assert {each.replication_factor for each in seen} == {2, 3, 4}
    assert {each.min_isr for each in seen} == {1, 2, 3, 4}
    assert {each.producers for each in seen} == {1, 2, 3}
    assert {each.acks_all for each in seen} == {True, False}


def test_faithful_mode_is_found_out_by_random_faults_in_many_ways():
    found = Counter(ran(seed, FAITHFUL).world.history.violated for seed in range(100))
    assert {Invariant.COMMITTED_LOST, Invariant.WRITTEN_TWICE, Invariant.UNANSWERED} <= set(found)


@pytest.mark.parametrize("walks", [WALKS, pytest.param(NIGHTLY_WALKS, marks=pytest.mark.nightly)])
def test_fixed_mode_holds_on_random_walks_in_which_any_step_may_come_next(walks):
    hold(random_walks.walk(seed, FIXED) for seed in range(walks))


@pytest.mark.parametrize("walks", [WALKS // 4, pytest.param(NIGHTLY_WALKS // 4, marks=pytest.mark.nightly)])
def test_fixed_mode_holds_on_walks_in_which_the_partition_is_moved(walks):
    hold(random_walks.walk(seed, FIXED, moves=True) for seed in range(walks))


def test_partitions_are_moved_in_many_walks():
    walked = [random_walks.walk(seed, FIXED, moves=True) for seed in range(20)]
    assert sum(each.world.store.replicas != each.start.store.replicas for each in walked) > 3


def hold(walks):
    """Check the promises of fixed mode on each walk."""
    for seed, walked in enumerate(walks):
        history = walked.world.history
        assert (seed, history.violated, history.what) == (seed, None, "")
        if history.expected_losses:
            assert (seed, len(walked.crashed) >= walked.world.configuration.min_isr) == (seed, True)
