"""From records of logs to what stands at a committed offset: timestamps and origin vector (design, "Offsets").

A log is cut into **segments**: at every `BLOCK` offsets, and at every committed offset that is asked about. Each
record is in one segment, so one pass over the records makes all segments, however many groups have committed in
the log; what stands at an offset then is a matter of the segments before it and behind it. Segments between two
cuts of blocks are also the index: a later run reads a block again only if an offset within it is asked about, and
takes the others as they are.
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
"""One row for each origin in a segment: the highest that came of it (incarnation, offset where it was born), the
smallest timestamp (null if no record has one), and the last record. `first` is where the segment begins."""
ASKED = "log int not null, offset bigint not null"
"""Offsets that groups have committed: the next record that they will read."""

_PLACE = ["log", "first"]


def segments(records: DataFrame, asked: DataFrame) -> DataFrame:
    """Segments of `records` (columns of `treeline_log`), cut at the blocks and at the offsets of `asked`."""
    return (
        records.withColumn("block", _block("offset"))
        # Each record meets the cuts in its block, by comparing numbers: to search in an array of them took longer
        # than to read the records.
        .join(
            f.broadcast(_cuts(asked)),
            f.expr("log = cut_log and block = cut_block and offset >= cut and offset < next_cut"),
            "left",
        )
        .withColumn("first", f.coalesce("cut", f.col("block") * BLOCK))
        # Plain numbers first, incarnation by incarnation: rows of numbers are grouped by hash; with a struct among
        # them they would be sorted, which for all records takes longer than to read them.
        .groupBy("log", "first", "origin", "incarnation")
        .agg(
            f.max("reached").alias("reached"),
            # Negative: the record has none.
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
    """Where segments begin in the blocks in which there is an offset of `asked`, and where the next one does."""
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
    """Of each group's commits (columns of `treeline_commits`) for a partition the last one in the log.

    Those of our own groups, and those that an offset committer made, are nobody's progress. A group whose last one
    is a tombstone has none any more.
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
    """What stands at each offset of `asked`, given all segments of its log (also those known from before).

    log, offset; last_timestamp_ms: of the last record before the offset, null if there is none; safe_timestamp_ms:
    the smallest of the records at or behind it, null if there are none; vector: [(origin, incarnation, reached)]
    of the records before it.
    """
    asked = asked.distinct()
    return _timestamps(found, asked).join(_vectors(found, asked), ["log", "offset"], "left")


def _timestamps(found: DataFrame, asked: DataFrame) -> DataFrame:
    whole = found.groupBy(*_PLACE).agg(
        f.min("min_timestamp_ms").alias("min_timestamp_ms"),
        f.max(f.struct("last_offset", "last_timestamp_ms")).alias("last"),
    )
    rows = whole.withColumn("asks", f.lit(0)).unionByName(_probes(asked), allowMissingColumns=True)
    # An offset that is asked about comes before the segment that begins there.
    ordered = Window.partitionBy("log").orderBy("first", f.desc("asks"))
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    # The same rows backwards: a window that ends at the last row is computed anew for each row of the log.
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
    # Whole numbers: a double does not hold every offset.
    return f.expr(f"{column} div {BLOCK}")
