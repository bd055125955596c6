"""Records of a leaf's barriers, and the positions that tell what the leaf has."""

from __future__ import annotations

from functools import reduce

from backend.domain.distribution import leaf
from backend.domain.distribution.edges import LeafInbound
from backend.domain.distribution.leaf import EnterRoutes, LeafEnteredRoutes

ENTER = EnterRoutes(cluster="c1", routes=7, wanted=7, fenced=4, buckets=2)
ENTERED = LeafEnteredRoutes(cluster="c1", routes=7, fenced=4, buckets=2)


def when(given, command):
    return leaf.decide(reduce(leaf.evolve, given, leaf.INITIAL), command)


def test_a_barrier_is_recorded_once_and_not_if_the_tree_asks_for_more_by_now():
    assert when([], ENTER) == [ENTERED]
    assert when([ENTERED], ENTER) == []
    assert when([], EnterRoutes(cluster="c1", routes=7, wanted=9, fenced=4, buckets=2)) == []


def test_another_number_of_buckets_takes_another_barrier():
    command = EnterRoutes(cluster="c1", routes=7, wanted=7, fenced=8, buckets=4)
    assert when([ENTERED], command) == [LeafEnteredRoutes(cluster="c1", routes=7, fenced=8, buckets=4)]


def test_positions_of_all_buckets_are_asked_for_once_their_number_was_another_one():
    def groups(ever, buckets):
        inbound = LeafInbound(version=1, ever=frozenset({("c2", 1)}), buckets_ever=frozenset(ever))
        return [name[-1] for name in inbound.groups(1, buckets)]

    assert groups((), 2) == groups((2,), 2) == ["1"]
    assert groups((2,), 4) == groups((4, 2), 2) == groups((2, 4), 4) == ["0", "1", "2", "3"]
