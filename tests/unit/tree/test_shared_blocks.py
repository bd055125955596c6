"""The blocks of the tree page that all viewers share are drawn without the table of distributors."""

from __future__ import annotations

from typing import Any

import pytest

from backend.web.tree import tree_drawings
from backend.web.tree.tree_view import TreeState


def test_blocks_for_all_viewers_are_drawn_without_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(*_: Any, **__: Any) -> None:
        raise AssertionError("the table is sorted for blocks that do not have it")

    monkeypatch.setattr(tree_drawings, "distributor_table", table)
    state = TreeState(position=1, head=1, tree=None, clusters=(), distributors=(), events=())
    assert tree_drawings.draw_shared(state).keys() == set(tree_drawings.SHARED)
