"""Segments and answers compared with a plain read of the same logs from beginning to end."""

from __future__ import annotations

import random

from spark import transforms
from spark.sources import log_records

LOGS = 60


def random_log(source):
    """Generate a log with holes, disorder in time, and mixed origins.

    Rows are (offset, timestamp, origin, incarnation, reached).
    """
    origins = {number: [1, 0] for number in source.sample(range(1, 6), source.randint(1, 4))}
    offset, rows = source.choice((0, 0, 990, 40_000)), []
    for _ in range(source.randint(0, 40)):
        offset += source.choice((1, 1, 1, 2, 30, 1_200))
        # Some records have no timestamp.
        timestamp = -1 if source.random() < 0.05 else source.randint(0, 500)
        if source.random() < 0.05:
            rows.append((offset, timestamp, None, None, None))
            continue
        number = source.choice(list(origins))
        reached = origins[number]
        if source.random() < 0.05:
            reached[:] = [reached[0] + 1, -1]
        reached[1] += source.randint(1, 3)
        rows.append((offset, timestamp, number, *reached))
    return rows


def reference(rows, at):
    before = [row for row in rows if row[0] < at]
    behind = [row[1] for row in rows if row[0] >= at and row[1] >= 0]
    vector = {}
    for _, _, origin, incarnation, reached in before:
        if origin is not None:
            vector[origin] = max(vector.get(origin, (-1, -1)), (incarnation, reached))
    return (
        before[-1][1] if before else None,
        min(behind, default=None),
        sorted((origin, *reached) for origin, reached in vector.items()),
    )


def answered(rows):
    return {
        (row.log, row.offset): (
            row.last_timestamp_ms,
            row.safe_timestamp_ms,
            [tuple(each) for each in row.vector or ()],
        )
        for row in rows
    }


def test_what_stands_at_committed_offsets_of_random_logs(spark):
    source = random.Random(7)
    logs = {number: random_log(source) for number in range(LOGS)}
    asked = {
        (number, offset)
        for number, rows in logs.items()
        for offset in source.sample(range((rows[-1][0] if rows else 0) + 3), 3)
    }
    records = spark.createDataFrame(
        [(number, *row) for number, rows in logs.items() for row in rows], log_records.SCHEMA
    )
    asking = spark.createDataFrame(sorted(asked) * 2, transforms.ASKED)
    found = transforms.segments(records, asking)
    expected = {(number, offset): reference(logs[number], offset) for number, offset in asked}
    assert answered(transforms.answers(found, asking).collect()) == expected


def test_an_index_of_earlier_runs_stands_for_the_records(spark):
    """The blocks in question are read again; the others are taken as segments from the index."""
    source = random.Random(11)
    logs = {number: random_log(source) for number in range(LOGS)}
    rows = [(number, *row) for number, log in logs.items() for row in log]
    nothing = spark.createDataFrame([], transforms.ASKED)
    index = transforms.segments(spark.createDataFrame(rows, log_records.SCHEMA), nothing).collect()
    asked = {(number, source.choice(log)[0]) for number, log in logs.items() if log}
    blocks = {(number, offset // transforms.BLOCK) for number, offset in asked}
    read = [row for row in rows if (row[0], row[1] // transforms.BLOCK) in blocks]
    kept = [row for row in index if (row.log, row.first // transforms.BLOCK) not in blocks]
    asking = spark.createDataFrame(sorted(asked), transforms.ASKED)
    new = transforms.segments(spark.createDataFrame(read, log_records.SCHEMA), asking)
    found = new.unionByName(spark.createDataFrame(kept, transforms.SEGMENTS))
    expected = {(number, offset): reference(logs[number], offset) for number, offset in asked}
    assert answered(transforms.answers(found, asking).collect()) == expected


def test_the_latest_commit_of_a_group_and_nobody_elses(spark):
    from spark.sources import commits

    rows = [
        ("c1", "acme-app", "orders", 0, 5, "", 100, 3, 10),
        ("c1", "acme-app", "orders", 0, 9, "mine", 200, 3, 12),
        ("c1", "acme-app", "orders", 1, 4, None, 150, 3, 11),
        ("c2", "acme-app", "orders", 0, 2, "", 400, 3, 1),
        ("c1", "gone", "orders", 0, 7, "", 100, 2, 1),
        ("c1", "gone", "orders", 0, None, None, None, 2, 5),
        ("c1", "_treeline.distributor.c1.2.0", "orders", 0, 1, "3:", 500, 1, 1),
        ("c1", "follower", "orders", 0, 3, "", 100, 0, 1),
        ("c1", "follower", "orders", 0, 8, "treeline:1;copy-flags=0100", 300, 0, 2),
    ]
    found = transforms.latest(spark.createDataFrame(rows, commits.SCHEMA)).collect()
    assert {tuple(row) for row in found} == {
        ("c1", "acme-app", "orders", 0, 9, 200),
        ("c1", "acme-app", "orders", 1, 4, 150),
        ("c2", "acme-app", "orders", 0, 2, 400),
        ("c1", "follower", "orders", 0, 3, 100),
    }
