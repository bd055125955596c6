"""Parameters of the Tree page's address, which say what a viewer wants to see of the tree.

`collapsed` is `none`, `quiet` (the subtrees without problems), or places such as `r0,r10`. Without it, large trees
have their quiet subtrees collapsed. `open` is what the drawer shows: a cluster, or an edge. The parameters of the
table of distributors are kept by all addresses.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query

from backend.domain.tree.tree_shape import Node, leaves
from backend.web.tree.tree_outline import inner_places, quiet_places

TREE = "/tree"
NONE, QUIET = "none", "quiet"
MOST_EXPANDED = 24
"""Largest number of leaves of a tree that is shown without collapsed subtrees at first."""
_PLACE = re.compile(r"r[01]{1,31}")

Collapsed = Annotated[str, Query(max_length=4000)]
Opened = Annotated[str, Query(alias="open", max_length=300)]


@dataclass(frozen=True)
class TreeWish:
    """The parameters; all are empty by default."""

    collapsed: str = ""
    opened: str = ""
    kept: tuple[tuple[str, str], ...] = ()
    """The parameters of the table."""

    def places(self, root: Node, troubled: Collection[str]) -> frozenset[str]:
        """Return the places to collapse; those that the tree does not have are ignored."""
        if self.collapsed == QUIET or (not self.collapsed and len(leaves(root)) > MOST_EXPANDED):
            return quiet_places(root, troubled)
        return frozenset(self.collapsed.split(",")) & frozenset(inner_places(root))

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Return the parameters that have a value, by name."""
        own = (("collapsed", self.collapsed), ("open", self.opened))
        return tuple((name, value) for name, value in (*own, *self.kept) if value)

    def address(self, path: str = TREE) -> str:
        """Return the address with these parameters."""
        query = urlencode(self.parameters, safe=",:~")
        return f"{path}?{query}" if query else path

    def opening(self, opened: str) -> TreeWish:
        """Return the same view with another content of the drawer."""
        return replace(self, opened=opened)

    def with_collapsed(self, collapsed: str) -> TreeWish:
        """Return the view with `none`, `quiet` or nothing instead of places."""
        return replace(self, collapsed=collapsed)

    def collapsing(self, places: Collection[str]) -> TreeWish:
        """Return the view with exactly these places collapsed."""
        return replace(self, collapsed=",".join(sorted(places)) or NONE)


def tree_wish(collapsed: str, opened: str = "", kept: tuple[tuple[str, str], ...] = ()) -> TreeWish:
    """Return the wish of an address. Equal views become equal wishes; what is no place is ignored."""
    if collapsed in (NONE, QUIET):
        return TreeWish(collapsed, opened, kept)
    places = {each for each in collapsed.split(",") if _PLACE.fullmatch(each)}
    return TreeWish(",".join(sorted(places)), opened, kept)
