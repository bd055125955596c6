"""Conversion of pieces of a cluster's partitions between Arrow tables and the arrays of `backend.placement`.

A piece is what one call in a Python worker handles: some partitions, each with its number `p` among all of the
cluster (by topic and number). Brokers are identified by id in tables and by index in arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backend.placement.plan import settle
from backend.placement.problem import Brokers, Ints, Problem, Replicas, starts_of

PARTITION = "p long, topic int, number long, wanted int, size_bytes long, is_fixed boolean, now array<long>"
"""Schema of a partition: its present state and what is requested of it."""
COLUMNS = tuple(each.split(" ")[0] for each in PARTITION.split(", "))
SUMS = "what string, at binary, value long"
"""Schema of values that are added up over pieces; `at` is a key of integers of eight bytes each."""


@dataclass(frozen=True)
class Piece:
    """Some of a cluster's partitions."""

    partitions: Ints
    """Numbers of the partitions, in order."""
    problem: Problem
    """The problem restricted to these partitions; its topics have no names."""

    @property
    def settled(self) -> Problem:
        """Return the problem with partitions fixed that cannot be placed."""
        return settle(self.problem)

    def some(self, rows: Ints) -> Piece:
        """Return a part of the piece."""
        return Piece(self.partitions[rows], self.problem.some(rows))


def read(table: pa.Table, brokers: Brokers) -> tuple[Piece, pa.Table]:
    """Convert a table of PARTITION, possibly with more columns, to a piece; also return the table in its order."""
    table = table.sort_by("p").combine_chunks()
    now = lists(table, "now")
    problem = Problem(
        **vars(brokers),
        topics=(),
        topic_of=numbers(table, "topic"),
        numbers=numbers(table, "number"),
        now=Replicas(now.starts, index_of(brokers, now.brokers)),
        wanted=numbers(table, "wanted"),
        size_bytes=numbers(table, "size_bytes"),
        is_fixed=np.asarray(table["is_fixed"].to_numpy(), bool),
    )
    return Piece(numbers(table, "p"), problem), table


def numbers(table: pa.Table, name: str) -> Ints:
    """Return a column of integers."""
    return np.asarray(table[name].to_numpy(), np.int64)


def lists(table: pa.Table, name: str) -> Replicas:
    """Return a column of lists of integers."""
    column = table[name]
    counts = np.asarray(pc.list_value_length(column).to_numpy(), np.int64)
    return Replicas(starts_of(counts), np.asarray(pc.list_flatten(column).to_numpy(), np.int64))


def as_lists(values: Replicas) -> pa.Array:
    """Return the column that `lists` reads."""
    starts = pa.array(values.starts.astype(np.int32))
    return pa.ListArray.from_arrays(starts, pa.array(np.ascontiguousarray(values.brokers)))


def listed(owners: Ints, values: Ints, count: int) -> Replicas:
    """Group values by owner, 0 to `count` (exclusive), in the given order."""
    starts = starts_of(np.bincount(owners, minlength=count))
    return Replicas(starts, values[np.argsort(owners, kind="stable")])


def index_of(brokers: Brokers, ids: Ints) -> Ints:
    """Return the indexes of broker ids; all of them must be known."""
    order = np.argsort(brokers.broker_ids)
    found: Ints = order[np.searchsorted(brokers.broker_ids, ids, sorter=order)]
    return found


def sums(found: Mapping[str, tuple[Ints, Ints]]) -> pa.Table:
    """Build rows of SUMS: for each name (integers or rows of integers as keys, values)."""
    parts = []
    for what, (at, values) in found.items():
        width = 8 * (at.shape[1] if at.ndim == 2 else 1)
        buffer = pa.py_buffer(np.ascontiguousarray(at, np.int64).tobytes())
        keys = pa.Array.from_buffers(pa.binary(width), len(values), [None, buffer]).cast(pa.binary())
        names = pa.array([what] * len(values), pa.string())
        parts.append(pa.table({"what": names, "at": keys, "value": pa.array(np.asarray(values, np.int64))}))
    return pa.concat_tables(parts)


def summed(table: pa.Table) -> dict[str, tuple[Ints, Ints]]:
    """Convert rows of SUMS to what was given to `sums`, with keys in order."""
    found = {}
    for what in table["what"].unique().to_pylist():
        mine = table.filter(pc.equal(table["what"], what))
        keys = mine["at"].to_pylist()
        at = np.frombuffer(b"".join(keys), np.int64).reshape(len(keys), -1)
        order = np.lexsort(at.T[::-1])
        found[what] = at[order], numbers(mine, "value")[order]
    return found


def of_brokers(values: Ints) -> tuple[Ints, Ints]:
    """Convert an array by broker to the form that `sums` takes."""
    some = np.flatnonzero(values)
    return some, values[some]


def by_broker(found: Mapping[str, tuple[Ints, Ints]], what: str, brokers: Brokers) -> Ints:
    """Return one of the sums whose keys are broker indexes as an array by broker."""
    values = np.zeros(len(brokers.broker_ids), dtype=np.int64)
    if what in found:
        at, counts = found[what]
        values[at[:, 0]] = counts
    return values
