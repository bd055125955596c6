"""The blocks of the tree page are drawn once for a state, and those that all viewers share without the table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backend.web.tree import tree_drawings
from backend.web.tree.tree_drawings import Drawings, View
from backend.web.tree.tree_trends import Trends
from backend.web.tree.tree_view import TreeState
from backend.web.tree.tree_wish import TreeWish

STATE = TreeState(position=1, head=1, tree=None, clusters=(), distributors=(), events=())


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Return the position and name of each block of a view that is drawn."""
    found: list[tuple[int, str]] = []
    draw = tree_drawings._drawn

    def noted(shown: View, name: str) -> Any:
        found.append((shown.state.position, name))
        return draw(shown, name)

    monkeypatch.setattr(tree_drawings, "_drawn", noted)
    return found


def without_trends(shown: View) -> View:
    return shown


def test_blocks_for_all_viewers_are_drawn_without_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(*_: Any, **__: Any) -> None:
        raise AssertionError("the table is sorted for blocks that do not have it")

    monkeypatch.setattr(tree_drawings, "distributor_table", table)
    assert tree_drawings.draw_shared(STATE).keys() == set(tree_drawings.SHARED)


def test_a_view_is_drawn_once_for_states_that_look_the_same(drawn: list[tuple[int, str]]) -> None:
    drawings, wish = Drawings(), TreeWish("none")
    first = drawings.of_view(STATE, wish, without_trends)
    assert drawings.of_view(replace(STATE), wish, without_trends) is first
    assert drawings.shared(STATE) is drawings.shared(replace(STATE))
    drawings.of_view(replace(STATE, position=2), wish, without_trends)
    assert drawn == [(position, name) for position in (1, 2) for name in tree_drawings.VIEWED]


def test_new_sparklines_change_the_table_only(drawn: list[tuple[int, str]]) -> None:
    drawings, wish = Drawings(), TreeWish()
    before = drawings.of_view(STATE, wish, without_trends)
    del drawn[:]
    trends = Trends(rates={"c1:1": None})
    after = drawings.of_view(STATE, wish, lambda shown: replace(shown, trends=trends))
    assert drawn == [(1, "distributors")]
    assert after["diagram"] is before["diagram"]


def test_only_so_many_views_are_kept(drawn: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_drawings, "MOST_VIEWS", 2)
    drawings = Drawings()
    for places in ("r0", "r1", "r0", "r00", "r0", "r1"):
        drawings.of_view(STATE, TreeWish(places), without_trends)
    assert len(drawn) == 2 * 4, "r1 was the one that was not shown for the longest time"
