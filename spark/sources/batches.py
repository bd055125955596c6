"""Columns of Python values as Spark's sources give them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa


def batch(columns: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """The columns, in the schema's order."""
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
