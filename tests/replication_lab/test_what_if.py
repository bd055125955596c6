"""What would be lost if a broker died now, from leaders, replicas in sync and min ISR alone."""

from __future__ import annotations

import pytest

from backend.replication_lab.what_if import Led, WhatIf, if_broker_dies

HERE = frozenset({1, 2, 3, 4})


def dies(replicas: tuple[int, ...], isr: set[int], leader: int, min_isr: int, *, broker: int = 1) -> WhatIf[str]:
    return if_broker_dies(broker, [("p", Led(replicas, frozenset(isr), leader, min_isr))], HERE)


def lists(found: WhatIf[str]) -> set[str]:
    """In which it is named."""
    names = ("moved", "offline", "refusing", "uncopied", "offline_already")
    return {name for name in names if getattr(found, name)}


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
        ((2, 3, 4), {2, 3, 4}, 2, 2, set()),
        ((2, 1, 3), {1, 2, 3}, 3, 2, set()),
    ],
)
def test_what_is_lost_follows_from_who_is_in_sync(
    replicas: tuple[int, ...], isr: set[int], leader: int, min_isr: int, named: set[str]
) -> None:
    assert lists(dies(replicas, isr, leader, min_isr)) == named


def test_a_leader_is_away_for_a_session_and_an_election_and_a_follower_is_not_missed() -> None:
    assert dies((1, 2, 3), {1, 2, 3}, 1, 2).longest_away_ms > 600
    assert dies((2, 1, 3), {1, 2, 3}, 2, 2).longest_away_ms == 0


def test_partitions_that_are_alike_are_all_named() -> None:
    many = [(number, Led((1, 2, 3), frozenset({1, 2, 3}), 1, 2)) for number in range(10_000)]
    found = if_broker_dies(1, many, HERE)
    assert found.replicas == 10_000 and len(found.moved) == 10_000 and not found.offline


def test_brokers_that_are_away_already_do_not_help() -> None:
    found = if_broker_dies(1, [("p", Led((1, 2, 3), frozenset({1, 2}), 1, 1))], frozenset({1, 2}))
    assert lists(found) == {"moved", "uncopied"}
    alone = if_broker_dies(1, [("p", Led((1, 2, 3), frozenset({1}), 1, 1))], frozenset({1}))
    assert lists(alone) == {"offline"}
