"""Temporal rows in memory: what `temporal.py` writes to instead of a database while a log is folded in bulk.

Holds all rows, ended ones as bare tuples, so memory grows with the rows: some hundred bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Table

Row = dict[str, Any]
Values = tuple[Any, ...]


class MemoryRows:
    """Rows of any temporal tables; the functions of `temporal.py` define what each method means."""

    def __init__(self) -> None:
        self._tables: dict[str, _TableRows] = {}

    def open_rows(self, table: Table, matches: Mapping[str, Any]) -> list[Row]:
        """Return rows without an end whose key has these values."""
        return self._of(table).open_rows(matches)

    def replace(
        self, table: Table, key: Mapping[str, Any], values: Mapping[str, Any] | None, position: int
    ) -> None:
        """End the row of a key and begin the next."""
        self._of(table).replace(key, values, position)

    def rows(self, table: Table) -> Iterator[Values]:
        """Return all rows, their values in the order of the table's columns."""
        return self._of(table).rows()

    def _of(self, table: Table) -> _TableRows:
        found = self._tables.get(table.name)
        if found is None:
            found = self._tables[table.name] = _TableRows(table)
        return found


class _TableRows:
    def __init__(self, table: Table) -> None:
        self._columns = tuple(column.name for column in table.columns)
        self._key = tuple(column.name for column in table.primary_key if column.name != "valid_from")
        self._open: dict[Values, Row] = {}
        self._ended: list[Values] = []
        # Indexes by the columns of a partial key: its values -> keys of open rows. Built at the first lookup,
        # since scanning all rows for each event would make a fold quadratic.
        self._indexes: dict[Values, dict[Values, dict[Values, None]]] = {}

    def open_rows(self, matches: Mapping[str, Any]) -> list[Row]:
        if len(matches) == len(self._key):
            row = self._open.get(tuple([matches[name] for name in self._key]))
            return [row] if row is not None else []
        names = tuple(name for name in self._key if name in matches)
        if len(names) != len(matches):
            raise ValueError(f"{sorted(matches)} are not all part of the key {self._key}")
        if names not in self._indexes:
            self._indexes[names] = {}
            for place in self._open:
                self._index(names, place, present=True)
        found = self._indexes[names].get(tuple(matches[name] for name in names), {})
        return [self._open[place] for place in found]

    def replace(self, key: Mapping[str, Any], values: Mapping[str, Any] | None, position: int) -> None:
        place = tuple([key[name] for name in self._key])
        present = self._open.pop(place, None)
        # A row that began at this very position was never valid, and is dropped without a trace.
        if present is not None and present["valid_from"] != position:
            self._ended.append(self._values({**present, "valid_to": position}))
        if values is not None:
            self._open[place] = {**key, **values, "valid_from": position, "valid_to": None}
        if (present is None) == (values is not None):
            for names in self._indexes:
                self._index(names, place, present=values is not None)

    def rows(self) -> Iterator[Values]:
        yield from self._ended
        yield from map(self._values, self._open.values())

    def _values(self, row: Row) -> Values:
        return tuple(map(row.get, self._columns))

    def _index(self, names: Values, place: Values, *, present: bool) -> None:
        part = tuple(value for name, value in zip(self._key, place, strict=True) if name in names)
        index = self._indexes[names]
        if present:
            index.setdefault(part, {})[place] = None
        else:
            del index[part][place]
            if not index[part]:
                del index[part]
