"""Each fix left out, each promise broken in one line: the checker has to notice, by the cheapest of its ways.

Ways are random schedules of faults, random walks, searches and, where few orders of steps show it, a story. The
known way to find a mutant is tried first; if other changes have moved it, more of its kind are tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.rules import FIXED, Rules
from backend.replication_lab.model.start_states import established
from backend.replication_lab.model.world import Action
from backend.replication_lab.runs.search import Bounds, search
from tests.nightly import some_now
from tests.unit.lab import random_walks
from tests.unit.lab.mutants import BY_LINE, BY_RULES
from tests.unit.lab.test_random_faults import broken, ran
from tests.unit.lab.test_search import THREE, begin

SEEDS, WALKS = 150, 6_000
KNOWN_WALKS = {
    "fetches are not fenced": 1_097,
    "a new leader takes its log's end for its HW": 12_271,
    "a follower does not cut its HW back with its log": 363,
    "a follower is back before it has what is committed": 35,
    "one that is not registered comes back in sync": 3_452,
    "what the followers had is remembered over an election": 2_390,
    "an eligible replica that came back unclean keeps its place": 2_204,
    "a leader that does not reach the store writes the ISR in its memory alone": 329,
    "an answer to a fetcher that was stopped is taken": 3_709,
    "an answer to a broker's life before is taken": 3_709,
    "nobody is refused below min ISR": 52,
    "a log's end is its HW after a start": 2_528,
}
KNOWN_MOVES = {"replicas that the partition was moved away from stay in sync": 65}
"""Walks in which the partition is reassigned."""
SEARCHED = {"the epoch is asked for once"}


@dataclass(frozen=True)
class Story:
    """Steps that show a mutant, in a world in which answers come at once; steps without an effect are left out."""

    configuration: Configuration
    steps: tuple[Action, ...]
    isr: frozenset[int] | None = None

    def found(self, rules: Rules) -> str:
        """Return what is broken."""
        world = established(self.configuration, rules, records=2, isr=self.isr, direct=True, prompt=True)
        done = tuple(action for action in self.steps if perform(world, action))
        return wrong(random_walks.Walked(world, world, done))


COMMITTED: tuple[Action, ...] = (("produce", 0), ("fetch", 2), ("fetch", 2))
ALONE: tuple[Action, ...] = (("power_loss", 2), ("restart", 2), ("notice", 1), ("notice", 2))
PAIR = Configuration(brokers=2, replication_factor=2, min_isr=2, records=2)
STORIES = {
    "a follower is back before it has what was written before the epoch": Story(
        Configuration(brokers=4, replication_factor=4, min_isr=1, producers=2, records=1, most_fetched=1),
        (
            *(("produce", 0), ("produce", 1), *[("fetch", 2)] * 3, *[("fetch", 4)] * 3),
            *(("crash", 1), ("expire", 1), ("notice", 2), ("notice", 3), *[("fetch", 3)] * 3),
            *(("crash", 2), ("expire", 2), ("notice", 3)),
        ),
        isr=frozenset({1, 2, 4}),
    ),
    "a new leader forgets who was eligible": Story(
        PAIR, (*COMMITTED, ("session_expiry", 1), ("notice", 2), *ALONE)
    ),
    "who leaves the ISR below min ISR is not eligible": Story(
        PAIR, (*COMMITTED, ("produce", 0), ("shrink", 1, 2), ("power_loss", 1), ("restart", 1), ("notice", 2))
    ),
}


def wrong(walked: random_walks.Walked) -> str:
    """Return what is broken in a walk."""
    history = walked.world.history
    if history.violated is not None:
        return f"{history.violated}: {history.what}"
    if history.expected_losses and len(walked.crashed) < walked.world.configuration.min_isr:
        return f"{history.expected_losses} lost, and only {set(walked.crashed)} had been down"
    return ""


def first_seed(rules: Rules) -> str:
    """Return the finding of the first seed that has one."""
    return next((said for seed in range(SEEDS) if (said := broken(seed, ran(seed, rules)))), "")


def first_walk(rules: Rules, seeds: Iterable[int], *, moves: bool = False) -> str:
    """Return the finding of the first walk that has one."""
    return next((said for seed in seeds if (said := wrong(random_walks.walk(seed, rules, moves=moves)))), "")


def found(name: str, rules: Rules) -> str:
    """Return the finding that reveals the mutant."""
    if name in SEARCHED:
        return search(begin(THREE, rules, 2), Bounds(crashes=0, expiries=2, attempts=2), 9).what
    if name in STORIES:
        return STORIES[name].found(rules)
    if name in KNOWN_WALKS:
        return first_walk(rules, (KNOWN_WALKS[name], *range(WALKS)))
    if name in KNOWN_MOVES:
        return first_walk(rules, (KNOWN_MOVES[name], *range(WALKS)), moves=True)
    return first_seed(rules)


@pytest.mark.parametrize("name", BY_RULES)
def test_each_fix_is_missed_if_it_alone_is_left_out(name):
    assert found(name, BY_RULES[name])


@some_now("name", BY_LINE, now=range(0, len(BY_LINE), 2))
def test_a_line_that_breaks_a_promise_is_found(name, monkeypatch):
    BY_LINE[name].apply(monkeypatch)
    assert found(name, FIXED)


@pytest.mark.parametrize("name", STORIES)
def test_the_stories_hold_where_nothing_is_mutated(name):
    assert STORIES[name].found(FIXED) == ""


def test_there_are_at_least_fifteen_mutants_and_all_that_is_known_is_about_one():
    assert len(BY_RULES) + len(BY_LINE) >= 15
    assert {*KNOWN_WALKS, *KNOWN_MOVES, *SEARCHED, *STORIES} <= {*BY_RULES, *BY_LINE}
