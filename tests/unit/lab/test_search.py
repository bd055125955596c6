"""Small configurations, every order of steps: fixed mode holds, and each fix of truncation is needed.

States and steps are asserted exactly: a search that covers less than it claims proves nothing. With `pytest -s`
they are printed.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.rules import FAITHFUL, FIXED, KIP_101, KIP_279, Rules, Truncation
from backend.replication_lab.model.start_states import established
from backend.replication_lab.model.world import World
from backend.replication_lab.runs.search import Bounds, Found, search
from tests.nightly import some_now

TWO = Configuration(brokers=2, replication_factor=2, min_isr=1, records=1)
THREE = Configuration(min_isr=1, records=1)
THREE_BOUNDS = Bounds(crashes=1, expiries=2, attempts=2)
WITHOUT_END = 1_000
FENCED_KIP_101 = replace(FIXED, mode="kip-101 and kip-320", truncation=Truncation.EPOCH)


def begin(configuration: Configuration, rules: Rules, records: int) -> World:
    """Return an established world in which answers come at once."""
    return established(configuration, rules, records=records, direct=True, prompt=True)


def told(found: Found, title: str) -> Found:
    """Print the result, and return it."""
    ended = "whole" if found.is_whole else found.violated or "holds"
    print(f"{title}: {found.states:,} states, {found.steps:,} steps, depth {found.depth}, {ended}")  # noqa: T201
    return found


@pytest.mark.parametrize(
    "bounds, depth, states, steps",
    [
        (Bounds(crashes=1, leader_epochs=3), 13, 205, 385),
        (Bounds(crashes=2, leader_epochs=3), 16, 1_528, 3_406),
        (Bounds(crashes=0, expiries=1, attempts=2, leader_epochs=3), 13, 383, 771),
        (Bounds(crashes=1, expiries=1, leader_epochs=3), 15, 2_652, 5_966),
        (Bounds(crashes=2, expiries=1, leader_epochs=3), 18, 12_619, 32_665),
        (Bounds(crashes=0, power_losses=1, expiries=1, checkpoints=True, leader_epochs=3), 18, 5_270, 14_722),
        pytest.param(
            *(
                Bounds(crashes=1, power_losses=1, expiries=1, checkpoints=True, leader_epochs=3),
                21,
                46_228,
                139_227,
            ),
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            *(Bounds(crashes=2, expiries=2, attempts=2, leader_epochs=4), 24, 217_171, 671_621),
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_two_replicas_hold_in_fixed_mode_in_every_story_within_bounds(bounds, depth, states, steps):
    found = told(search(begin(TWO, FIXED, 1), bounds, WITHOUT_END), f"two replicas, {bounds}")
    assert found.violated is None
    assert found.is_whole
    assert (found.depth, found.states, found.steps) == (depth, states, steps)


@pytest.mark.parametrize(
    "depth, states, steps",
    [(6, 11_143, 24_052), pytest.param(10, 414_514, 1_114_836, marks=pytest.mark.nightly)],
)
def test_three_replicas_hold_in_fixed_mode_up_to_a_depth(depth, states, steps):
    found = told(search(begin(THREE, FIXED, 2), THREE_BOUNDS, depth), f"three replicas, {THREE_BOUNDS}")
    assert found.violated is None
    assert (found.states, found.steps) == (states, steps)
    assert len(found.by_depth) == depth + 1
    assert sum(found.by_depth) == states


NEEDED = {
    "KIP-101 alone": (KIP_101, 2, Invariant.LOGS_DIFFER, 9, 29_820, 71_441),
    "KIP-101 with fenced fetches, without KIP-279": (
        FENCED_KIP_101, 2, Invariant.LOGS_DIFFER, 9, 21_849, 52_265,
    ),
    "KIP-279 without fenced fetches (KIP-320)": (KIP_279, 1, Invariant.UNCOMMITTED_READ, 10, 8_944, 23_158),
}  # fmt: skip


@some_now("rules, expiries, violated, depth, states, steps", NEEDED.values(), now=(0,), ids=NEEDED)
def test_no_fix_of_truncation_holds_without_the_others(rules, expiries, violated, depth, states, steps):
    bounds = Bounds(crashes=0, expiries=expiries, attempts=2)
    found = told(search(begin(THREE, rules, 2), bounds, depth + 1), f"{rules.mode}, {bounds}")
    assert found.violated is violated, found.what
    assert (found.depth, found.states, found.steps) == (depth, states, steps)
    assert violates_at_its_end(begin(THREE, rules, 2), found)

    fixed = begin(THREE, FIXED, 2)
    for action in found.story:
        perform(fixed, action)
    assert fixed.history.violated is None


def test_two_faithful_replicas_lose_a_committed_record_by_truncation_to_the_hw():
    found = told(search(begin(TWO, FAITHFUL, 2), Bounds(crashes=2), 12), "two faithful replicas")
    assert found.violated is Invariant.COMMITTED_LOST
    assert (found.depth, found.states, found.steps) == (10, 1_854, 4_716)
    assert [each[0] for each in found.story if each[0] in ("crash", "restart")] == ["crash", "restart", "crash"]
    assert violates_at_its_end(begin(TWO, FAITHFUL, 2), found)


def violates_at_its_end(world: World, found: Found) -> bool:
    """Tell whether, replayed, each step of the story has an effect, and only the last one violates."""
    assert len(found.story) == found.depth
    for number, action in enumerate(found.story, 1):
        assert perform(world, action)
        assert (world.history.violated is None) is (number < found.depth)
    return world.history.violated is found.violated


def test_a_story_that_is_found_is_a_shortest_one():
    shorter = search(begin(THREE, KIP_279, 2), Bounds(crashes=0, expiries=1, attempts=2), 9)
    assert shorter.violated is None


def test_a_search_tells_how_far_it_is():
    seen: list[tuple[int, int, int]] = []
    found = search(begin(TWO, FIXED, 1), Bounds(crashes=1), 8, report=lambda *each: seen.append(each))
    assert [depth for depth, _, _ in seen] == list(range(1, 9))
    assert seen[-1] == (8, found.states, found.steps)
