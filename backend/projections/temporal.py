"""Tables whose rows state from which to which position they are valid, so that any earlier state can be read.

`valid_from` is the position of the event that made the row, `valid_to` that of the event that ended it; a row is
valid at positions valid_from <= at < valid_to. NULL in `valid_to` means that it is still valid.

Events are applied to `Rows`: a connection for a command's few events, a batch on it for many, memory while a log
is folded from its beginning. The same writes give the same rows in all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table

from backend.projections.batched_rows import BatchedRows
from backend.projections.memory_rows import MemoryRows

Rows = Connection | BatchedRows | MemoryRows
POSITIONS = ("valid_from", "valid_to")


def temporal_table(name: str, metadata: sa.MetaData, *columns: sa.Column[Any]) -> Table:
    """Return a table keyed by its columns marked `primary_key=True` and `valid_from`; one open row per key."""
    table = Table(
        name,
        metadata,
        *columns,
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    keys = [column for column in table.primary_key if column.name != "valid_from"]
    sa.Index(f"{name}_now", *keys, unique=True, postgresql_where=table.c.valid_to.is_(None))
    return table


def as_of(table: Table, at: int | None) -> ColumnElement[bool]:
    """Return the WHERE clause for the rows that are valid at a position; None means now."""
    if at is None:
        return table.c.valid_to.is_(None)
    return sa.and_(table.c.valid_from <= at, sa.or_(table.c.valid_to.is_(None), table.c.valid_to > at))


def open_rows(rows: Rows, table: Table, matches: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that are valid now and whose key has these values, without their positions, in no order."""
    found: list[Any]
    if isinstance(rows, BatchedRows | MemoryRows):
        found = [row.items() for row in rows.open_rows(table, matches)]
    else:
        selected = rows.execute(sa.select(table).where(_open(table, matches)))
        found = [row.items() for row in selected.mappings()]
    return [{name: value for name, value in items if name not in POSITIONS} for items in found]


def current(rows: Rows, table: Table, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the open row of a key without its positions, or None."""
    found = open_rows(rows, table, key)
    return found[0] if found else None


def replace(
    rows: Rows, table: Table, key: Mapping[str, Any], values: Mapping[str, Any] | None, position: int
) -> None:
    """End the row of a key at `position` and, unless `values` is None, begin the next one there."""
    if isinstance(rows, BatchedRows | MemoryRows):
        rows.replace(table, key, values, position)
        return
    ended = rows.execute(
        sa.update(table).where(_open(table, key)).values(valid_to=position).returning(table.c.valid_from)
    )
    if position in ended.scalars():
        # A second change by the same event replaces the first: no row is valid for zero positions.
        same = sa.and_(*(table.c[name] == value for name, value in key.items()))
        rows.execute(sa.delete(table).where(same, table.c.valid_from == position))
    if values is not None:
        rows.execute(sa.insert(table).values(**key, **values, valid_from=position))


def change(rows: Rows, table: Table, key: Mapping[str, Any], changes: Mapping[str, Any], position: int) -> None:
    """Replace the open row of a key by one with these changes; a key without an open row stays without."""
    present = current(rows, table, key)
    if present is not None:
        values = {name: value for name, value in present.items() if name not in key}
        replace(rows, table, key, {**values, **changes}, position)


def _open(table: Table, key: Mapping[str, Any]) -> ColumnElement[bool]:
    return sa.and_(table.c.valid_to.is_(None), *(table.c[name] == value for name, value in key.items()))
