"""Temporal rows of a database, whose changes are collected and written together.

One by one, each event costs a statement to read, one to end a row and one to begin the next, and each waits for
the server. Collected, a row is read once, and all changes go in one UPDATE and one COPY per table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from backend.eventlog.bulk import copy_rows

Row = dict[str, Any]
Values = tuple[Any, ...]


class BatchedRows:
    """Rows of any temporal tables; the functions of `temporal.py` define what each method means.

    Nothing is in the database until `write`; the caller holds the append lock, so nobody else changes the rows.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables: dict[str, _TableRows] = {}

    def open_rows(self, table: Table, matches: Mapping[str, Any]) -> list[Row]:
        """Return rows without an end whose key has these values."""
        return self._of(table).open_rows(matches)

    def replace(
        self, table: Table, key: Mapping[str, Any], values: Mapping[str, Any] | None, position: int
    ) -> None:
        """End the row of a key and begin the next."""
        self._of(table).replace(key, values, position)

    def write(self) -> None:
        """Write all changes to the database; the object must not be used afterwards."""
        for rows in self._tables.values():
            rows.write()

    def _of(self, table: Table) -> _TableRows:
        found = self._tables.get(table.name)
        if found is None:
            found = self._tables[table.name] = _TableRows(self._connection, table)
        return found


class _TableRows:
    def __init__(self, connection: Connection, table: Table) -> None:
        self._connection = connection
        self._table = table
        self._columns = tuple(column.name for column in table.columns)
        self._key = tuple(column.name for column in table.primary_key if column.name != "valid_from")
        # The open row of each key that was read or replaced, in its state after the changes so far.
        self._present: dict[Values, Row | None] = {}
        self._asked: set[tuple[tuple[str, Any], ...]] = set()
        self._replaced: set[Values] = set()
        self._ends: list[dict[str, Any]] = []
        self._ended: list[Values] = []

    def open_rows(self, matches: Mapping[str, Any]) -> list[Row]:
        if len(matches) == len(self._key):
            place = tuple([matches[name] for name in self._key])
            if place not in self._present:
                self._present[place] = next(iter(self._select(matches)), None)
            row = self._present[place]
            return [row] if row is not None else []
        part = tuple(sorted(matches.items()))
        if part not in self._asked:
            for found in self._select(matches):
                self._present.setdefault(self._place(found), found)
            self._asked.add(part)
        open_now = (row for row in self._present.values() if row is not None)
        return [row for row in open_now if all(row[name] == value for name, value in part)]

    def replace(self, key: Mapping[str, Any], values: Mapping[str, Any] | None, position: int) -> None:
        place = self._place(key)
        if place not in self._replaced:
            # The row in the database, if there is one: its values are not needed to end it.
            self._replaced.add(place)
            if self._present.get(place, key) is not None:
                ends = {f"key_{name}": value for name, value in zip(self._key, place, strict=True)}
                self._ends.append({**ends, "ends_at": position})
        else:
            present = self._present[place]
            # A row that began at this very position was never valid, and is dropped without a trace.
            if present is not None and present["valid_from"] != position:
                self._ended.append(self._values({**present, "valid_to": position}))
        row = None if values is None else {**key, **values, "valid_from": position, "valid_to": None}
        self._present[place] = row

    def write(self) -> None:
        if self._ends:
            key = (self._table.c[name] == sa.bindparam(f"key_{name}") for name in self._key)
            end = sa.update(self._table).where(self._table.c.valid_to.is_(None), *key)
            self._connection.execute(end.values(valid_to=sa.bindparam("ends_at")), self._ends)
        begun = (self._present[place] for place in self._replaced)
        rows = [*self._ended, *(self._values(row) for row in begun if row is not None)]
        if rows:
            copy_rows(self._connection, self._table, rows)

    def _select(self, matches: Mapping[str, Any]) -> Iterable[Row]:
        key = (self._table.c[name] == value for name, value in matches.items())
        found = self._connection.execute(sa.select(self._table).where(self._table.c.valid_to.is_(None), *key))
        return [dict(row) for row in found.mappings()]

    def _place(self, row: Mapping[str, Any]) -> Values:
        return tuple([row[name] for name in self._key])

    def _values(self, row: Row) -> Values:
        return tuple(map(row.get, self._columns))
