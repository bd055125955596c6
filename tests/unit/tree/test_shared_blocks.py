"""The blocks of the tree page that all viewers share are drawn without the table of distributors."""

from __future__ import annotations

from typing import Any

import pytest

from backend.web.tree import tree_page
from backend.web.tree.tree_view import TreeState


def test_blocks_for_all_viewers_are_drawn_without_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(*_: Any, **__: Any) -> None:
        raise AssertionError("the table is sorted for blocks that do not have it")

    monkeypatch.setattr(tree_page, "distributor_table", table)
    state = TreeState(position=1, head=1, tree=None, clusters=(), distributors=(), events=())
    assert tree_page._draw(state).keys() == set(tree_page.SHARED_BLOCKS)
