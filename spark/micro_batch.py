"""The transforms for a few commits at a time: answers at their offsets, and new segments for the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from backend.domain.records.log_index import Segment
from backend.domain.records.origin import Vector
from spark import transforms
from spark.jobs.offset_timestamps import records
from spark.sources.slices import Slice


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Timestamps and origin vector at a committed offset."""

    timestamp_ms: int | None
    """Timestamp of the last record before the offset; None if there is none."""
    safe_timestamp_ms: int | None
    """Smallest timestamp of the records at or after the offset; None if there is none."""
    vector: Vector
    """Origin vector of the records before the offset."""


@dataclass(frozen=True)
class Found:
    """The result of a run: segments by log, and answers by (log, offset)."""

    segments: dict[int, list[Segment]]
    answers: dict[tuple[int, int], Answer]


def run(
    spark: SparkSession,
    parts: Sequence[Slice],
    known: Sequence[tuple[int, Segment]],
    asked: Sequence[tuple[int, int]],
) -> Found:
    """Compute the answers for the offsets `asked`, pairs of (log, offset).

    `parts` are the ranges to read; `known` are earlier segments (log, segment). For each log, ranges and segments
    must cover it to its end, from its beginning or from where the vector is known.
    """
    asking = spark.createDataFrame(sorted(set(asked)), transforms.ASKED)
    new = transforms.segments(records(spark, parts), asking).persist()
    try:
        segments: dict[int, list[Segment]] = {}
        for row in new.collect():
            reached = None if row.origin is None else (row.incarnation, row.reached)
            segments.setdefault(row.log, []).append(
                Segment(
                    first=row.first,
                    origin=row.origin,
                    reached=reached,
                    min_timestamp_ms=row.min_timestamp_ms,
                    last=(row.last_offset, row.last_timestamp_ms),
                )
            )
        every = new.unionByName(spark.createDataFrame([_row(*each) for each in known], transforms.SEGMENTS))
        answers = {
            (row.log, row.offset): Answer(
                timestamp_ms=row.last_timestamp_ms,
                safe_timestamp_ms=row.safe_timestamp_ms,
                vector={each.origin: (each.incarnation, each.reached) for each in row.vector or ()},
            )
            for row in transforms.answers(every, asking).collect()
        }
        return Found(segments, answers)
    finally:
        new.unpersist()


def _row(log: int, segment: Segment) -> tuple[int | None, ...]:
    reached, last = segment.reached or (None, None), segment.last or (None, None)
    return (log, segment.first, segment.origin, *reached, segment.min_timestamp_ms, *last)
