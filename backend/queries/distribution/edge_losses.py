"""Reading what distributors could not copy, now or as of a position."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.records.log_prefix import Hole
from backend.projections.edge_losses import losses, set_aside
from backend.projections.temporal import POSITIONS, as_of


@dataclass(frozen=True)
class SetAsideRow:
    """A record that the target refused; `origin` is (cluster's number, incarnation, offset) where it is known."""

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
    """Position of the event that told of it."""


@dataclass(frozen=True)
class LossRow:
    """Offsets of a source that were gone before a distributor could read them; `last_offset` None: unknown.

    So many offsets from the first one on are known to be lost: `at_least`, 0 if it is only possible that some are.
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
    """Position of the event that told of it."""


def list_set_aside(connection: Connection, at: int | None = None) -> list[SetAsideRow]:
    """Every record that was ever set aside, the oldest first."""
    query = sa.select(set_aside).where(as_of(set_aside, at)).order_by(set_aside.c.recorded)
    found = []
    for row in connection.execute(query):
        values = {name: value for name, value in row._mapping.items() if name not in POSITIONS}
        values["origin"] = tuple(values["origin"]) if values["origin"] else None
        found.append(SetAsideRow(**values))
    return found


def list_losses(connection: Connection, at: int | None = None) -> list[LossRow]:
    """Every range that was lost, the oldest first."""
    query = sa.select(losses).where(as_of(losses, at)).order_by(losses.c.recorded)
    found = []
    for row in connection.execute(query):
        values = {name: value for name, value in row._mapping.items() if name not in POSITIONS}
        found.append(LossRow(**values))
    return found


def holes(connection: Connection) -> dict[tuple[str, int], frozenset[Hole]]:
    """(stream, partition) -> records that were set aside on some leaf, replayed or not."""
    found: dict[tuple[str, int], set[Hole]] = {}
    query = sa.select(set_aside).where(as_of(set_aside, None), set_aside.c.origin.is_not(None))
    for row in connection.execute(query):
        number, incarnation, offset = row.origin
        found.setdefault((row.stream, row.partition), set()).add((number, incarnation, offset))
    return {place: frozenset(each) for place, each in found.items()}


Edge = tuple[str, int]
"""(cluster, level) of a distributor."""


@dataclass(frozen=True)
class OpenCounts:
    """What waits for an operator, per distributor."""

    lost: dict[Edge, int]
    """Ranges with records that are known to be lost."""
    possibly_lost: dict[Edge, int]
    """Partitions of former topics of which no record is known to be lost."""
    set_aside: dict[Edge, int]
    """Records that were set aside and not replayed."""


def open_troubles(connection: Connection) -> dict[Edge, str]:
    """Say, per distributor, what waits for an operator."""
    texts: dict[Edge, list[str]] = {}
    counts = count_open(connection)
    for found, one, many, what in (
        (counts.set_aside, "record", "records", "set aside, to be replayed"),
        (counts.lost, "range of records", "ranges of records", "lost, to be acknowledged"),
        (counts.possibly_lost, "partition", "partitions", "made anew, a possible loss to be acknowledged"),
    ):
        for place, count in found.items():
            texts.setdefault(place, []).append(f"{count} {one if count == 1 else many} {what}")
    return {key: "; ".join(each) for key, each in texts.items()}


def count_open(connection: Connection) -> OpenCounts:
    """Count the losses that nobody has acknowledged, and the records set aside that were not replayed."""

    def counted(table: sa.Table, *is_open: sa.ColumnElement[bool]) -> dict[Edge, int]:
        place = (table.c.cluster, table.c.level)
        query = sa.select(*place, sa.func.count()).where(as_of(table, None), *is_open).group_by(*place)
        return {(cluster, level): count for cluster, level, count in connection.execute(query)}

    unseen, known = ~losses.c.acknowledged, losses.c.at_least > 0
    return OpenCounts(
        lost=counted(losses, unseen, known),
        possibly_lost=counted(losses, unseen, ~known),
        set_aside=counted(set_aside, ~set_aside.c.replayed),
    )
