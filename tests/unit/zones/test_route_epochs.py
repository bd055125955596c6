"""Epochs of the router channel: fencing, commits, and the nodes that hold them back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.base.errors import ValueInvalid
from backend.domain.base.event import Event
from backend.domain.zones.route_epochs import (
    INITIAL,
    UNREACHABLE_AFTER_SECONDS,
    BeginEpoch,
    NodeLiveness,
    RouteEpochBegun,
    RouteEpochCommitted,
    RouteEpochs,
    decide,
    evolve,
    mains_holding_back,
    unreachable_nodes,
)

DEAD = {"silent_seconds": UNREACHABLE_AFTER_SECONDS}


def main(name: str, epoch: int | None, **more: Any) -> NodeLiveness:
    usual = {"is_main": True, "open_streams": 0, "silent_seconds": 1.0, "unbroken_seconds": 3600.0}
    return NodeLiveness(node=name, reported_epoch=epoch, **{**usual, **more})


def proxy(name: str, **more: Any) -> NodeLiveness:
    return main(name, None, is_main=False, **more)


def begin(*nodes: NodeLiveness, lag: int = 2) -> BeginEpoch:
    return BeginEpoch(fence_lag=lag, nodes=nodes)


def after(state: RouteEpochs, events: list[Event]) -> RouteEpochs:
    for event in events:
        state = evolve(state, event)
    return state


@pytest.mark.parametrize(("lag", "fenced"), [(1, [0, 1, 2, 3]), (2, [0, 0, 1, 2]), (3, [0, 0, 0, 1])])
def test_the_fence_follows_the_newest_epoch(lag: int, fenced: list[int]) -> None:
    state, found = INITIAL, []
    for epoch in range(1, 5):
        (begun,) = decide(state, begin(proxy("a"), lag=lag))
        assert isinstance(begun, RouteEpochBegun) and begun.epoch == epoch
        state = evolve(state, begun)
        found.append(state.fenced)
    assert found == fenced


def test_a_longer_lag_does_not_take_a_fence_back() -> None:
    assert decide(RouteEpochs(current=9, fenced=8), begin(lag=5)) == [RouteEpochBegun(epoch=10, fenced=8)]


def test_a_fence_that_refuses_what_is_written_now_is_refused() -> None:
    with pytest.raises(ValueInvalid):
        decide(INITIAL, begin(lag=0))


HERE = RouteEpochs(current=9, fenced=7, committed=4)


@pytest.mark.parametrize(
    ("nodes", "committed"),
    [
        ([main("a", 6), main("b", 7), proxy("c")], 6),
        ([main("a", 9), main("b", 12)], 8),  # more may still come under an epoch that is not fenced
        ([main("a", 3), main("b", 7)], 4),  # it never falls
        ([main("a", None), main("b", 7)], 4),  # one that cannot tell
        ([main("a", 6), main("b", 5, **DEAD)], 6),
        ([main("a", 6), main("b", 5, open_streams=1, **DEAD)], 5),
        ([main("a", 6), main("b", None, open_streams=1, **DEAD)], 4),
        ([main("a", 6), proxy("b", open_streams=9, **DEAD)], 6),  # only mains have what is to be committed
        ([proxy("a")], 4),
        ([], 4),
    ],
)
def test_committed_is_the_least_that_mains_report(nodes: list[NodeLiveness], committed: int) -> None:
    assert after(HERE, decide(HERE, begin(*nodes))) == RouteEpochs(current=10, fenced=8, committed=committed)


def test_where_the_control_plane_was_away_nobody_is_dead_before_it_could_be_heard() -> None:
    """Otherwise the first node to report would commit the epochs that the others hold back."""
    back = main("a", 7, silent_seconds=0.0, unbroken_seconds=1.0)
    others = [main("b", 5, silent_seconds=600.0), proxy("c", silent_seconds=600.0)]
    assert unreachable_nodes([back, *others]) == frozenset()
    assert after(HERE, decide(HERE, begin(back, *others))).committed == 5
    heard_long_enough = main("a", 7, silent_seconds=1.0, unbroken_seconds=UNREACHABLE_AFTER_SECONDS - 1)
    assert unreachable_nodes([heard_long_enough, *others]) == {"b", "c"}
    assert after(HERE, decide(HERE, begin(heard_long_enough, *others))).committed == 7


def test_while_nobody_is_heard_all_are_dead_and_nothing_is_committed() -> None:
    nodes = [main("a", 7, open_streams=1, silent_seconds=40.0), main("b", 5, silent_seconds=40.0)]
    assert unreachable_nodes(nodes) == {"a", "b"}
    assert after(HERE, decide(HERE, begin(*nodes))).committed == HERE.committed


def test_who_holds_back_is_told_the_least_far_first() -> None:
    nodes = [main("a", 7), main("b", None), main("c", 2, open_streams=3, **DEAD), main("d", 1, **DEAD), proxy("e")]
    assert [each.node for each in mains_holding_back(nodes)] == ["b", "c", "a"]


NODES = st.lists(
    st.builds(
        NodeLiveness,
        node=st.sampled_from("abcd"),
        is_main=st.booleans(),
        reported_epoch=st.none() | st.integers(0, 30),
        open_streams=st.integers(0, 2),
        silent_seconds=st.sampled_from([0.0, 2.0, 12.0, 29.9, 30.0, 600.0]),
        unbroken_seconds=st.sampled_from([0.0, 5.0, 29.0, 600.0]),
    ),
    max_size=4,
    unique_by=lambda each: each.node,
)


@given(st.lists(st.tuples(NODES, st.integers(1, 4)), max_size=25))
def test_epochs_only_rise_and_what_is_committed_was_fenced_and_is_in_blocks(
    steps: list[tuple[list[NodeLiveness], int]],
) -> None:
    state = INITIAL
    for nodes, lag in steps:
        events = decide(state, begin(*nodes, lag=lag))
        later = after(state, events)
        assert later.current == state.current + 1
        assert state.fenced <= later.fenced < later.current
        assert state.committed <= later.committed <= later.fenced
        if later.committed > state.committed:
            assert events[1:] == [RouteEpochCommitted(epoch=later.committed)]
            dead = unreachable_nodes(nodes)
            waited_for = [each for each in nodes if each.is_main and (each.node not in dead or each.open_streams)]
            assert waited_for and all(later.committed <= (each.reported_epoch or 0) for each in waited_for)
        state = later


@given(NODES)
def test_a_node_that_reports_is_never_dead(nodes: list[NodeLiveness]) -> None:
    silent = {each.node for each in nodes if each.silent_seconds >= UNREACHABLE_AFTER_SECONDS}
    assert unreachable_nodes(nodes) in (silent, frozenset())
