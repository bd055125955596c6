"""Selection of rows by many keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY


def among(columns: Sequence[sa.ColumnElement[Any]], keys: Collection[Sequence[Any]]) -> sa.ColumnElement[bool]:
    """Return a condition that the columns' values are one of the keys, however many there are.

    Keys are sent as one array for each column: from some 10,000 keys on, PostgreSQL refuses a list of them by the
    depth of its stack or the number of parameters, and it is slow before.
    """
    if not keys:
        return sa.false()
    arrays = [
        sa.literal(list(values), ARRAY(column.type))
        for column, values in zip(columns, zip(*keys, strict=True), strict=True)
    ]
    names = [sa.column(f"part{number}", column.type) for number, column in enumerate(columns)]
    rows = sa.func.unnest(*arrays).table_valued(*names).render_derived("wanted")
    return sa.tuple_(*columns).in_(sa.select(*rows.c))
