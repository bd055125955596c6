"""Settings of distributors: what a change makes of them, what is refused, and when they are kept."""

from __future__ import annotations

import pytest

from backend.domain.base.errors import NotFound, ValueInvalid
from backend.domain.tree import tree
from backend.domain.tree.distributor_settings import (
    COMPRESSIONS,
    DEFAULTS,
    ChangeDistributor,
    DistributorCompressionChanged,
    DistributorLimitChanged,
    DistributorPaused,
    DistributorResumed,
    DistributorSettings,
)
from backend.domain.tree.tree import ReplaceTree

KNOWN = frozenset("123")
ROOT = {"level": 2, "children": [{"cluster": "1"}, {"level": 1, "children": [{"cluster": "2"}, {"cluster": "3"}]}]}
SMALLER = {"level": 2, "children": [{"cluster": "1"}, {"cluster": "2"}]}


def change(level=2, **changes):
    return ChangeDistributor(cluster="2", level=level, **changes)


def after(*commands):
    state = tree.INITIAL
    for command in (ReplaceTree(root=ROOT, known_clusters=KNOWN), *commands):
        for event in tree.decide(state, command):
            state = tree.evolve(state, event)
    return state


def settings(state):
    return state.settings.get(("2", 2), DEFAULTS)


WHERE = {"cluster": "2", "level": 2}


@pytest.mark.parametrize(
    ("before", "command", "events"),
    [
        ({}, {"paused": True}, [DistributorPaused(**WHERE)]),
        ({}, {"paused": False}, []),
        ({"paused": True}, {"paused": True}, []),
        ({"paused": True}, {"paused": False}, [DistributorResumed(**WHERE)]),
        ({}, {"bytes_per_second": 1000}, [DistributorLimitChanged(**WHERE, bytes_per_second=1000)]),
        ({"bytes_per_second": 1000}, {"bytes_per_second": 1000}, []),
        (
            {"bytes_per_second": 1000},
            {"clear_limit": True},
            [DistributorLimitChanged(**WHERE, bytes_per_second=None)],
        ),
        ({}, {"clear_limit": True}, []),
        ({}, {"compression": "none"}, []),
        ({}, {"compression": "zstd"}, [DistributorCompressionChanged(**WHERE, compression="zstd")]),
        ({"paused": True, "bytes_per_second": 5000, "compression": "lz4"}, {}, []),
        (
            {"paused": True},
            {"paused": False, "bytes_per_second": 2000, "compression": "gzip"},
            [
                DistributorLimitChanged(**WHERE, bytes_per_second=2000),
                DistributorCompressionChanged(**WHERE, compression="gzip"),
                DistributorResumed(**WHERE),
            ],
        ),
    ],
)
def test_one_event_for_each_setting_that_becomes_another(before, command, events):
    state = after(change(**before))
    assert tree.decide(state, change(**command)) == events


@pytest.mark.parametrize(
    ("command", "pointers"),
    [
        ({"bytes_per_second": 0}, ["/bytes_per_second"]),
        ({"bytes_per_second": -1}, ["/bytes_per_second"]),
        ({"bytes_per_second": 999}, ["/bytes_per_second"]),
        ({"bytes_per_second": 10**12 + 1}, ["/bytes_per_second"]),
        ({"bytes_per_second": 10**30}, ["/bytes_per_second"]),
        ({"compression": "zip"}, ["/compression"]),
        ({"compression": ""}, ["/compression"]),
        ({"compression": "ZSTD", "bytes_per_second": 0}, ["/bytes_per_second", "/compression"]),
    ],
)
def test_what_is_out_of_range_is_refused_at_its_place(command, pointers):
    with pytest.raises(ValueInvalid) as refused:
        tree.decide(after(), change(**command))
    assert [error.pointer for error in refused.value.errors] == pointers


@pytest.mark.parametrize("limit", [1000, 10**12])
def test_the_ends_of_the_range_are_allowed(limit):
    assert settings(after(change(bytes_per_second=limit))).bytes_per_second == limit


@pytest.mark.parametrize("command", [change(level=3, paused=True), ChangeDistributor(cluster="9", level=1)])
def test_a_distributor_that_the_tree_does_not_have_is_unknown(command):
    with pytest.raises(NotFound):
        tree.decide(after(), command)
    with pytest.raises(NotFound):
        tree.decide(tree.INITIAL, command)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_settings_are_kept_while_the_distributor_is_there(compression):
    chosen = change(paused=True, bytes_per_second=5000, compression=compression)
    state = after(chosen, ReplaceTree(root=SMALLER, known_clusters=KNOWN))
    assert settings(state) == DistributorSettings(paused=True, bytes_per_second=5000, compression=compression)


def test_settings_are_kept_whichever_target_it_has_then():
    sides = [{"level": 1, "children": [{"cluster": "3"}, {"cluster": "1"}]}, {"cluster": "2"}]
    chosen = change(paused=True, bytes_per_second=5000, compression="zstd")
    before = after(chosen)
    state = after(chosen, ReplaceTree(root={"level": 2, "children": sides}, known_clusters=KNOWN))
    assert (before.targets["2", 2], state.targets["2", 2]) == ("1", "3")
    assert settings(state) == settings(before)


def test_settings_of_a_distributor_that_went_are_forgotten():
    lower = change(level=1, paused=True)
    small = ReplaceTree(root=SMALLER, known_clusters=KNOWN)
    state = after(lower, small, ReplaceTree(root=ROOT, known_clusters=KNOWN))
    assert state.settings == {}
