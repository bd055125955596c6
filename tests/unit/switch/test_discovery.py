"""Discovery's answers to clients, and the clients that a switch waits for."""

from __future__ import annotations

from typing import Any

import pytest

from backend.domain.switch import discovery
from backend.domain.switch.cluster_switch import BEFORE_MOVE, CLOSED, HELD, Phase
from backend.domain.switch.discovery import LatestReport
from backend.domain.tree import tree_shape
from tests.support.domain.trees import UNBALANCED, parsed


@pytest.mark.parametrize("phase", [None, *Phase])
def test_producers_hold_until_the_move_and_consumers_are_closed_once_the_drain_is_done(
    phase: Phase | None,
) -> None:
    assert (discovery.instructed_phase("producer", phase) == "hold") == (phase in HELD)
    assert (discovery.instructed_phase("", phase) == "hold") == (phase in HELD)
    assert (discovery.instructed_phase("consumer", phase) == "hold") == (phase in CLOSED)
    assert set(CLOSED) < set(HELD) < set(BEFORE_MOVE)


@pytest.mark.parametrize(
    ("generation", "told", "known_generation", "known_phase", "news"),
    [
        (3, "active", 3, "active", False),
        (3, "active", None, "active", True),
        (3, "active", 2, "active", True),
        (3, "active", 4, "active", True),
        (3, "active", 3, "held", True),
        (3, "active", 3, "closed", True),
        (3, "hold", 3, "active", True),
        (3, "hold", 3, "held", False),
        (3, "hold", 3, "closed", False),
        (4, "hold", 3, "held", True),
    ],
)
def test_a_client_is_told_what_it_does_not_know(
    generation: int, told: str, known_generation: int | None, known_phase: str, news: bool
) -> None:
    assert discovery.has_news(generation, told, known_generation=known_generation, known_phase=known_phase) is news


@pytest.mark.parametrize(
    ("role", "phase", "silent_ms", "holding", "closing"),
    [
        ("producer", "active", 0, True, True),
        ("producer", "held", 0, False, False),
        ("producer", "held", 13_000, False, False),
        # Its promise is about to end, and it has not given another one.
        ("producer", "held", 13_001, True, True),
        ("producer", "closed", 0, False, False),
        ("consumer", "active", 0, False, True),
        # It has stopped reading, and its last commit may still come.
        ("consumer", "held", 0, False, True),
        ("consumer", "closed", 0, False, False),
        ("consumer", "closed", 20_000, False, True),
        ("", "active", 0, True, True),
        ("", "held", 0, False, False),
    ],
)
def test_a_switch_waits_for_those_whose_word_does_not_count(
    role: str, phase: str, silent_ms: int, holding: bool, closing: bool
) -> None:
    for is_closing, waits in ((False, holding), (True, closing)):
        expected = {"one": LatestReport(role=role, phase=phase, silent_ms=silent_ms, given_at=7)}
        assert discovery.missing(expected, hold_ms=13_000, closing=is_closing) == (["one"] if waits else [])
        assert discovery.missing(expected, hold_ms=13_000, closing=is_closing, forced={"one"}) == []


@pytest.mark.parametrize("role", ["producer", "consumer", ""])
@pytest.mark.parametrize(("given_at", "waited"), [(6, False), (7, True), (8, True), (None, True)])
def test_who_let_go_since_the_drain_was_measured_is_waited_for(
    role: str, given_at: int | None, waited: bool
) -> None:
    phase = "closed" if role == "consumer" else "held"
    word = LatestReport(role=role, phase=phase, silent_ms=0, given_at=given_at)
    found = discovery.missing({"one": word}, hold_ms=13_000, closing=True, marked_at=7)
    # Consumers may read on while it is measured.
    assert found == (["one"] if waited and (role != "consumer" or given_at is None) else [])


@pytest.mark.parametrize("less", [{"is_of_now": False}, {"silent_ms": -1}])
def test_a_word_of_another_generation_or_of_a_clock_that_was_set_back_does_not_count(less: dict[str, Any]) -> None:
    word = LatestReport(**{"role": "producer", "phase": "held", "silent_ms": 0, "given_at": 6, **less})
    assert discovery.missing({"one": word}, hold_ms=13_000, closing=True) == ["one"]


@pytest.mark.parametrize(
    ("told", "known_generation", "known_phase", "ends"),
    [
        ("active", 3, "held", True),
        ("active", 3, "closed", True),
        ("active", 0, "held", True),
        ("active", 3, "active", False),
        ("hold", 3, "held", False),
        # Moved: it waits until what it has sent has arrived.
        ("active", 2, "held", False),
        ("active", 4, "held", False),
    ],
)
def test_a_word_ends_with_the_answer_that_the_client_may_go_on(
    told: str, known_generation: int, known_phase: str, ends: bool
) -> None:
    assert discovery.ends_hold(told, 3, known_generation, known_phase) is ends


@pytest.mark.parametrize(
    ("told", "drained"),
    [
        ({}, True),
        ({"phase": "active"}, False),
        ({"phase": "closed"}, False),
        # It has missed a move: what it wrote elsewhere is nothing that this one drained.
        ({"generation": 2}, False),
        ({"given_at": 7}, False),
        ({"given_at": None}, False),
        # An emergency, or a cluster that left the tree: nothing was drained.
        ({"marked_at": None}, False),
        ({"left_generation": None}, False),
    ],
)
def test_who_has_held_since_before_the_mark_finds_all_that_it_sent(told: dict[str, Any], drained: bool) -> None:
    held: dict[str, Any] = {"phase": "held", "generation": 3, "given_at": 6, "left_generation": 3, "marked_at": 7}
    assert discovery.is_drained(**held | told) is drained


def test_a_clusters_distance_is_that_of_its_furthest_leaf() -> None:
    root = parsed(UNBALANCED)
    found = discovery.distances(root, tree_shape.default_targets(root))
    # From 4 to 1, from there to 2, from there to 3; from 5 to 2, and from there to 3 and to 1.
    assert found == {"1": 2, "2": 2, "3": 2, "4": 3, "5": 2}
