"""Drawings of the Tree page: its blocks, each drawn once for a state, whoever shows it.

The page and its live updates take their blocks from here, so the first update after a page was opened finds what
the page has drawn. `NewestTree` brings the state up to date without reading what only events change. `Drawings`
keeps the blocks of the newest state, and what views of it have; with the next state, both are gone.

Of a table, only the rows of the shown page get sparklines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from markupsafe import Markup
from sqlalchemy import Connection

from backend.web.frame import templates
from backend.web.tables.table_query import TableQuery
from backend.web.tables.table_view import TableView
from backend.web.tree.distributor import Distributor
from backend.web.tree.distributor_table import PATH, distributor_table
from backend.web.tree.tree_rows import TreeRows
from backend.web.tree.tree_trends import NO_TRENDS, Trends, read_trends
from backend.web.tree.tree_view import TreeState, read, read_again
from backend.web.tree.tree_wish import TreeWish

Blocks = Mapping[str, str]

SHARED = {"summary": "tree_summary.html", "notices": "tree_notices.html", "timeline": "tree_timeline.html"}
"""Blocks that are the same for all viewers, with their templates."""
VIEWED = {"diagram": "tree_drawing.html", "distributors": "tree_distributors.html"}
"""Blocks that depend on the collapsed subtrees and on the table's parameters, which are in their links."""
MOST_VIEWS = 16
"""Maximum views whose blocks are kept, each of up to 300 kB."""
MOST_WITH_TRENDS = 50
"""Largest number of rows that have sparklines: those of more would be a third of the page."""


class NewestTree:
    """The newest state that this process has read. Safe to share between threads."""

    def __init__(self) -> None:
        self._state: TreeState | None = None

    def read(self, connection: Connection) -> TreeState:
        """Return the state now; what only events change is read only if there are new ones."""
        before = self._state
        state = read(connection) if before is None else read_again(connection, before)
        self._state = state
        return state


@dataclass(frozen=True)
class View:
    """A state as a viewer wants to see it, with the page of the table that is shown."""

    state: TreeState
    rows: TreeRows
    table: TableView[Distributor]
    live: bool
    trends: Trends = NO_TRENDS

    def with_trends(self, connection: Connection) -> View:
        """Return the view with the trends of the shown distributors, unless there are none, or too many rows."""
        if not self.live or len(self.table.rows) > MOST_WITH_TRENDS:
            return self
        return replace(self, trends=read_trends(connection, [each.key for each in self.table.rows]))


def view(state: TreeState, wish: TreeWish, query: TableQuery | None = None, *, live: bool = True) -> View:
    """Return a view without trends. `query`: the page's address, if it has more than the wish's parameters."""
    asked = TableQuery(PATH, wish.parameters) if query is None else query
    return View(state, TreeRows(state.picture, wish), distributor_table(state.picture, asked, live=live), live)


def draw_shared(state: TreeState, *, live: bool = True) -> Blocks:
    """Draw the blocks that all viewers share: without rows and table, which these do not have."""
    context = {"picture": state.picture, "live": live}
    return {name: templates.part(template, context) for name, template in SHARED.items()}


def draw_view(shown: View) -> Blocks:
    """Draw the blocks of a view."""
    return {name: _drawn(shown, name) for name in VIEWED}


def _drawn(shown: View, name: str) -> Markup:
    context = {
        "picture": shown.state.picture,
        "rows": shown.rows,
        "table": shown.table,
        "trends": shown.trends,
        "most_with_trends": MOST_WITH_TRENDS,
        "live": shown.live,
    }
    return templates.part(VIEWED[name], context)


@dataclass
class _Kept:
    """The blocks that have been drawn of a state."""

    state: TreeState | None = None
    shared: Blocks | None = None
    views: dict[TreeWish, tuple[View, Blocks]] = field(default_factory=dict)


class Drawings:
    """The blocks of the newest state. Safe to share between threads: each block is drawn by one of them."""

    def __init__(self) -> None:
        self._kept = _Kept()
        self._lock = threading.Lock()

    def shared(self, state: TreeState) -> Blocks:
        """Return the blocks that all viewers of a state share."""
        with self._lock:
            kept = self._of(state)
            if kept.shared is None:
                kept.shared = draw_shared(state)
            return kept.shared

    def of_view(self, state: TreeState, wish: TreeWish, with_trends: Callable[[View], View]) -> Blocks:
        """Return the blocks of a view. `with_trends` adds the trends, which change without the state."""
        with self._lock:
            before = self._of(state).views.get(wish)
        shown = with_trends(view(state, wish) if before is None else before[0])
        with self._lock:
            kept = self._of(state)
            before = kept.views.pop(wish, None)
            if before is None:
                blocks = draw_view(shown)
            elif before[0].trends == shown.trends:
                shown, blocks = before
            else:
                blocks = {**before[1], "distributors": _drawn(shown, "distributors")}
            kept.views[wish] = shown, blocks
            while len(kept.views) > MOST_VIEWS:
                del kept.views[next(iter(kept.views))]
            return blocks

    def _of(self, state: TreeState) -> _Kept:
        """Return what is kept of a state that looks like this one."""
        if self._kept.state != state:
            self._kept = _Kept(state)
        return self._kept
