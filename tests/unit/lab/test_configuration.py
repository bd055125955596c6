"""Impossible configurations are refused, with the reason and the possible values."""

from __future__ import annotations

import pytest

from backend.replication_lab.model.configuration import Configuration, InvalidDrill
from backend.replication_lab.model.rules import FIXED
from backend.replication_lab.model.start_states import established
from backend.replication_lab.runs.drills import LARGEST_SEED, drill
from backend.replication_lab.scenarios import SCENARIOS

IMPOSSIBLE = {
    "RF above brokers": (
        {"brokers": 2, "replication_factor": 3, "min_isr": 1},
        ("replication_factor is 3", "there are 2 brokers", "Use 2 or fewer, or more brokers"),
    ),
    "RF above one broker": (
        {"brokers": 1, "replication_factor": 2, "min_isr": 1},
        ("replication_factor is 2", "there is 1 broker", "Use 1 or fewer, or more brokers"),
    ),
    "min ISR above RF": (
        {"brokers": 5, "replication_factor": 3, "min_isr": 4},
        ("min_isr is 4", "replication factor 3", "no record could ever be acknowledged", "Use 3 or less"),
    ),
    "no broker": ({"brokers": 0}, ("brokers is 0", "1 to 20")),
    "too many brokers": ({"brokers": 21}, ("brokers is 21", "1 to 20")),
    "no replica": ({"replication_factor": 0}, ("replication_factor is 0", "1 to 20")),
    "no min ISR": ({"min_isr": 0}, ("min_isr is 0", "1 to 20")),
    "producers below none": ({"producers": -1}, ("producers is -1", "0 to 5")),
    "too many producers": ({"producers": 6}, ("producers is 6", "0 to 5")),
}


@pytest.mark.parametrize("given, said", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_configuration_is_refused_with_field_value_and_what_would_do(given, said):
    with pytest.raises(InvalidDrill) as refused:
        Configuration(**given)
    for part in said:
        assert part in str(refused.value)


@pytest.mark.parametrize("brokers", range(1, 10))
def test_all_that_is_possible_is_taken_and_begins(brokers):
    for factor in range(1, brokers + 1):
        for min_isr in range(1, factor + 1):
            given = Configuration(brokers=brokers, replication_factor=factor, min_isr=min_isr)
            world = established(given, FIXED, records=2)
            assert world.store.isr == frozenset(given.assigned)
            assert world.history.violated is None


@pytest.mark.parametrize(
    "beginning",
    [
        {"leader": 3, "isr": frozenset({1, 2})},
        {"leader": 2, "dead": frozenset({2})},
        {"leader": 4, "isr": frozenset({1, 4})},
        {"leader": 1, "isr": frozenset()},
    ],
    ids=["not in sync", "dead", "no replica", "nobody in sync"],
)
def test_a_beginning_without_a_leader_that_lives_and_is_in_sync_is_refused(beginning):
    with pytest.raises(InvalidDrill, match=f"broker {beginning['leader']} cannot lead"):
        established(Configuration(brokers=4), FIXED, **beginning)


def test_an_unknown_scenario_is_refused_with_those_that_there_are():
    with pytest.raises(InvalidDrill) as refused:
        drill("no-such-thing", "fixed", 1)
    assert "no-such-thing" in str(refused.value)
    assert all(each in str(refused.value) for each in SCENARIOS)


def test_an_unknown_mode_is_refused_with_those_that_there_are():
    with pytest.raises(InvalidDrill, match="no mode 'best'; use one of faithful, fixed"):
        drill("two-leaders", "best", 1)


@pytest.mark.parametrize("seed", [-1, LARGEST_SEED + 1])
def test_a_seed_out_of_range_is_refused_with_the_range(seed):
    with pytest.raises(InvalidDrill, match=f"the seed is {seed}: it must be 0 to {LARGEST_SEED}"):
        drill("two-leaders", "fixed", seed)
