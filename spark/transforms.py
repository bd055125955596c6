"""Transforms from records of logs to timestamps and origin vectors at committed offsets (decision 20).

A log is divided into **segments**: at every `BLOCK` offsets, and at every committed offset in question. Each
record is in one segment, so a single pass over the records builds all segments, however many groups have committed
in the log; the answer at an offset then depends only on the segments before and after it. Segments between two
block boundaries also form the index: a later run reads a block again only if an offset in question is inside it,
and reuses all others.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from backend.domain.distribution.assignment import OWN_GROUPS
from backend.domain.offsets import commit_metadata
from backend.domain.records.log_index import BLOCK

SEGMENTS = (
    "log int not null, first bigint not null, origin int, incarnation bigint, reached bigint, "
    "min_timestamp_ms bigint, last_offset bigint, last_timestamp_ms bigint"
)
"""Schema of segments, one row for each origin in a segment.

A row has the highest position of that origin (incarnation, offset where it was produced), the smallest timestamp
(null if no record has one), and the last record. `first` is the segment's first offset.
"""
ASKED = "log int not null, offset bigint not null"
"""Schema of committed offsets: the next record that a group reads."""

_PLACE = ["log", "first"]


def segments(records: DataFrame, asked: DataFrame) -> DataFrame:
    """Divide `records` (columns of `treeline_log`) into segments at blocks and at the offsets of `asked`."""
    return (
        records.withColumn("block", _block("offset"))
        # Each record is joined with the cuts in its block by comparing numbers: searching an array of them took
        # longer than reading the records.
        .join(
            f.broadcast(_cuts(asked)),
            f.expr("log = cut_log and block = cut_block and offset >= cut and offset < next_cut"),
            "left",
        )
        .withColumn("first", f.coalesce("cut", f.col("block") * BLOCK))
        # Group plain numbers first, incarnation by incarnation: rows of numbers are grouped by hash; with a struct
        # they would be sorted, which takes longer than reading all records.
        .groupBy("log", "first", "origin", "incarnation")
        .agg(
            f.max("reached").alias("reached"),
            # A negative timestamp means that the record has none.
            f.min(f.when(f.col("timestamp_ms") >= 0, f.col("timestamp_ms"))).alias("min_timestamp_ms"),
            f.max("offset").alias("last_offset"),
            f.max_by("timestamp_ms", "offset").alias("last_timestamp_ms"),
        )
        .groupBy("log", "first", "origin")
        .agg(
            f.max(f.struct("incarnation", "reached")).alias("highest"),
            f.min("min_timestamp_ms").alias("min_timestamp_ms"),
            f.max(f.struct("last_offset", "last_timestamp_ms")).alias("last"),
        )
        .select(
            "log",
            "first",
            "origin",
            "highest.incarnation",
            "highest.reached",
            "min_timestamp_ms",
            "last.last_offset",
            "last.last_timestamp_ms",
        )
    )


def _cuts(asked: DataFrame) -> DataFrame:
    """Return the boundaries of segments in blocks with an offset of `asked`, each with the next one."""
    offsets = asked.select(f.col("log").alias("cut_log"), _block("offset").alias("cut_block"), "offset")
    beginnings = offsets.withColumn("offset", f.col("cut_block") * BLOCK)
    in_order = Window.partitionBy("cut_log", "cut_block").orderBy("cut")
    return (
        offsets.union(beginnings)
        .withColumnRenamed("offset", "cut")
        .distinct()
        .withColumn("next_cut", f.coalesce(f.lead("cut").over(in_order), (f.col("cut_block") + 1) * BLOCK))
    )


def latest(commits: DataFrame) -> DataFrame:
    """Return each group's last commit (columns of `treeline_commits`) for a partition.

    Commits of Treeline's own groups, and those made by an offset committer, are ignored, since they are no group's
    progress. A group whose last record is a tombstone has no commit.
    """
    foreign = commits.where(
        ~f.startswith("group", f.lit(OWN_GROUPS))
        & ~f.coalesce(f.startswith("metadata", f.lit(commit_metadata.PREFIX)), f.lit(False))
    )
    # All commits of a group are in one partition of the log, whose offsets order them.
    return (
        foreign.groupBy("cluster", "group", "topic", "partition")
        .agg(
            f.max_by("offset", "log_offset").alias("offset"),
            f.max_by("committed_at_ms", "log_offset").alias("committed_at_ms"),
        )
        .where("offset is not null")
    )


def answers(found: DataFrame, asked: DataFrame) -> DataFrame:
    """Compute the answer at each offset of `asked`, given all segments of its log, including those known before.

    Columns: log, offset; last_timestamp_ms: that of the last record before the offset, null if there is none;
    safe_timestamp_ms: the smallest of the records at or after it, null if there are none; vector: [(origin,
    incarnation, reached)] of the records before it.
    """
    asked = asked.distinct()
    return _timestamps(found, asked).join(_vectors(found, asked), ["log", "offset"], "left")


def _timestamps(found: DataFrame, asked: DataFrame) -> DataFrame:
    whole = found.groupBy(*_PLACE).agg(
        f.min("min_timestamp_ms").alias("min_timestamp_ms"),
        f.max(f.struct("last_offset", "last_timestamp_ms")).alias("last"),
    )
    rows = whole.withColumn("asks", f.lit(0)).unionByName(_probes(asked), allowMissingColumns=True)
    # An offset in question sorts before the segment that begins there.
    ordered = Window.partitionBy("log").orderBy("first", f.desc("asks"))
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    # The same rows in reverse: a window that ends at the last row is computed again for each row of the log.
    backwards = Window.partitionBy("log").orderBy(f.desc("first"), "asks")
    behind = backwards.rowsBetween(Window.unboundedPreceding, -1)
    return (
        rows.withColumn("before", f.max("last").over(before))
        .withColumn("safe_timestamp_ms", f.min("min_timestamp_ms").over(behind))
        .where("asks = 1")
        .select(
            "log",
            f.col("first").alias("offset"),
            f.col("before.last_timestamp_ms").alias("last_timestamp_ms"),
            "safe_timestamp_ms",
        )
    )


def _vectors(found: DataFrame, asked: DataFrame) -> DataFrame:
    known = found.where("origin is not null")
    probes = _probes(asked).join(f.broadcast(known.select("log", "origin").distinct()), "log")
    highest = f.struct("incarnation", "reached")
    rows = (
        known.select(*_PLACE, "origin", highest.alias("highest"))
        .withColumn("asks", f.lit(0))
        .unionByName(probes, allowMissingColumns=True)
    )
    ordered = Window.partitionBy("log", "origin").orderBy("first", f.desc("asks"))
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    return (
        rows.withColumn("seen", f.max("highest").over(before))
        .where("asks = 1 and seen is not null")
        .groupBy("log", f.col("first").alias("offset"))
        .agg(f.array_sort(f.collect_list(f.struct("origin", "seen.incarnation", "seen.reached"))).alias("vector"))
    )


def _probes(asked: DataFrame) -> DataFrame:
    return asked.select("log", f.col("offset").alias("first"), f.lit(1).alias("asks"))


def _block(column: str) -> Column:
    # Use integers: a double cannot represent every offset.
    return f.expr(f"{column} div {BLOCK}")
