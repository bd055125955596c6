"""Queries of records that distributors could not copy, now or as of a position."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.records.log_prefix import Hole
from backend.projections.edge_losses import losses, set_aside
from backend.projections.temporal import POSITIONS, as_of


@dataclass(frozen=True)
class DeadLetterRow:
    """A dead-lettered record; `origin` is (cluster's number, incarnation, offset), if known."""

    id: str
    cluster: str
    level: int
    target: str
    stream: str
    partition: int
    offset: int
    origin: tuple[int, int, int] | None
    reason: str
    replayed: bool
    recorded: int
    """Position of the event that recorded it."""


@dataclass(frozen=True)
class LossRow:
    """Offsets of a source that were gone before a distributor could read them; `last_offset` None: unknown.

    `at_least` offsets from the first one on are certainly lost; 0 if a loss is only possible.
    """

    id: str
    cluster: str
    level: int
    target: str
    stream: str
    partition: int
    first_offset: int
    last_offset: int | None
    at_least: int
    reason: str
    acknowledged: bool
    recorded: int
    """Position of the event that recorded it."""


def list_dead_letters(connection: Connection, at: int | None = None) -> list[DeadLetterRow]:
    """Return all dead-lettered records, oldest first."""
    query = sa.select(set_aside).where(as_of(set_aside, at)).order_by(set_aside.c.recorded)
    found = []
    for row in connection.execute(query):
        values = {name: value for name, value in row._mapping.items() if name not in POSITIONS}
        values["origin"] = tuple(values["origin"]) if values["origin"] else None
        found.append(DeadLetterRow(**values))
    return found


def list_losses(connection: Connection, at: int | None = None) -> list[LossRow]:
    """Return all lost ranges, oldest first."""
    query = sa.select(losses).where(as_of(losses, at)).order_by(losses.c.recorded)
    found = []
    for row in connection.execute(query):
        values = {name: value for name, value in row._mapping.items() if name not in POSITIONS}
        found.append(LossRow(**values))
    return found


def holes(connection: Connection) -> dict[tuple[str, int], frozenset[Hole]]:
    """Return (stream, partition) -> records that were dead-lettered on some leaf, replayed or not."""
    found: dict[tuple[str, int], set[Hole]] = {}
    query = sa.select(set_aside).where(as_of(set_aside, None), set_aside.c.origin.is_not(None))
    for row in connection.execute(query):
        number, incarnation, offset = row.origin
        found.setdefault((row.stream, row.partition), set()).add((number, incarnation, offset))
    return {place: frozenset(each) for place, each in found.items()}


Edge = tuple[str, int]
"""(Cluster, level) of a distributor."""


@dataclass(frozen=True)
class OpenItems:
    """Open items of one kind, of one distributor."""

    count: int
    recorded: int
    """Position of the event that recorded the first of them."""


@dataclass(frozen=True)
class OpenCounts:
    """Number of open items that need an operator, per distributor."""

    lost: dict[Edge, OpenItems]
    """Ranges with records that are certainly lost."""
    possibly_lost: dict[Edge, OpenItems]
    """Partitions of former topics without a certain loss."""
    dead_letters: dict[Edge, OpenItems]
    """Dead-lettered records that were not replayed."""


def open_troubles(counts: OpenCounts) -> dict[Edge, str]:
    """Describe the open items of each distributor that has any."""
    texts: dict[Edge, list[str]] = {}
    for found, one, many, what in (
        (counts.dead_letters, "dead letter", "dead letters", "to replay"),
        (counts.lost, "lost range of records", "lost ranges of records", "to acknowledge"),
        (counts.possibly_lost, "possible loss", "possible losses", "to acknowledge since a topic was re-created"),
    ):
        for place, items in found.items():
            count = items.count
            texts.setdefault(place, []).append(f"{count} {one if count == 1 else many} {what}")
    return {key: "; ".join(each) for key, each in texts.items()}


def count_open(connection: Connection) -> OpenCounts:
    """Count unacknowledged losses, and dead-lettered records that were not replayed."""

    def counted(table: sa.Table, *is_open: sa.ColumnElement[bool]) -> dict[Edge, OpenItems]:
        place = (table.c.cluster, table.c.level)
        query = sa.select(*place, sa.func.count(), sa.func.min(table.c.recorded)).group_by(*place).order_by(*place)
        rows = connection.execute(query.where(as_of(table, None), *is_open))
        return {(cluster, level): OpenItems(count, first) for cluster, level, count, first in rows}

    unseen, known = ~losses.c.acknowledged, losses.c.at_least > 0
    return OpenCounts(
        lost=counted(losses, unseen, known),
        possibly_lost=counted(losses, unseen, ~known),
        dead_letters=counted(set_aside, ~set_aside.c.replayed),
    )
