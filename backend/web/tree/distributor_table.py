"""The table of distributors on the Tree page.

Its parameters are in the links of the drawing and of the drawer, too, and those of these in the table's.
"""

from __future__ import annotations

from backend.web.tables.table import PARAMETERS, Column, Table
from backend.web.tables.table_query import TableQuery
from backend.web.tables.table_view import TableView
from backend.web.tree.distributor import Distributor
from backend.web.tree.tree_view import Picture

PATH = "/tree"
_NOW_ONLY = ("state", "lag", "time", "rate", "epoch", "holder", "reason")


def own_parameters(query: TableQuery) -> tuple[tuple[str, str], ...]:
    """Return the table's parameters of an address of the page."""
    return tuple(query.only(PARAMETERS))


def distributor_table(picture: Picture, query: TableQuery, *, live: bool) -> TableView[Distributor]:
    """Return the part of the table that an address asks for; of an earlier position without observations."""
    table = Table[Distributor](
        "distributor-table",
        "distributors",
        (
            Column("cluster", "Cluster", lambda each: each.row.cluster),
            Column("level", "Level", lambda each: each.row.level, lambda each: f"L{each.row.level}"),
            Column("mask", "Mask", lambda each: each.mask),
            Column("flag", "Flag", lambda each: each.flag),
            Column("target", "Target", lambda each: each.row.target),
            Column("settings", "Settings", lambda each: ", ".join(each.settings)),
            Column("state", "State", lambda each: each.state),
            Column("lag", "Lag", lambda each: each.lag, number=True),
            Column("time", f"Within {picture.objective}", lambda each: each.in_time),
            Column("rate", "Records/s", lambda each: each.rate, number=True),
            Column("epoch", "Epoch", lambda each: each.epoch, number=True),
            Column("holder", "Holder", lambda each: each.holder),
            Column("reason", "Reason", lambda each: each.brief_reason),
        ),
    )
    shown = table if live else table.without(*_NOW_ONLY)
    return shown.view(list(picture.distributors.values()), query.of(PATH))
