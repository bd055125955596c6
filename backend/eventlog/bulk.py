"""Bulk insert of rows into a table by PostgreSQL's COPY."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Table
from sqlalchemy.dialects.postgresql import JSONB

from backend.eventlog.faults import translate


def copy_rows(connection: Connection, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    """Append rows, each with a value per column in the table's order, in the caller's transaction."""
    quote = connection.dialect.identifier_preparer.quote
    names = ", ".join(quote(column.name) for column in table.columns)
    documents = [index for index, column in enumerate(table.columns) if isinstance(column.type, JSONB)]
    driver = connection.connection.driver_connection
    assert driver is not None  # the caller has a transaction on it
    try:
        with driver.cursor() as cursor, cursor.copy(f"COPY {quote(table.name)} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(_wrapped(row, documents) if documents else row)
    except psycopg.Error as error:
        # This bypasses SQLAlchemy, and with it the translation of its connections' errors.
        fault = translate(error.sqlstate, str(error), lost=driver.closed)
        if fault is None:
            raise
        raise fault from error


def _wrapped(row: Sequence[Any], documents: Sequence[int]) -> list[Any]:
    values = list(row)
    for index in documents:
        values[index] = Jsonb(values[index])
    return values
