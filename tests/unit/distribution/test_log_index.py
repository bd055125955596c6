"""The index of a log over many runs gives the answers of one reading from end to end."""

from __future__ import annotations

import random

from backend.domain.records import log_index
from backend.domain.records.log_index import BLOCK, Mark, Segment
from backend.domain.records.origin import merge
from tests.nightly import some_now
from tests.support.domain.log_marks import joined


def grow(source, rows, origins):
    """More records: (offset, timestamp, origin, incarnation, reached)."""
    offset = rows[-1][0] if rows else source.choice((-1, 700, 12_345))
    for _ in range(source.randint(0, 60)):
        offset += source.choice((1, 1, 2, 7, 180, 1_900))
        number = source.choice(list(origins))
        origins[number] = (origins[number][0], origins[number][1] + source.randint(1, 3))
        rows.append((offset, source.randint(0, 999), number, *origins[number]))


def segments(rows, parts, asked):
    """Return the index that the Spark job makes of these records."""
    found = {}
    cuts = sorted(asked)
    for part in parts:
        for offset, timestamp, number, incarnation, reached in rows:
            if part.first <= offset < part.end:
                block = offset // BLOCK * BLOCK
                first = max([cut for cut in cuts if block <= cut <= offset], default=block)
                found.setdefault((first, number), []).append((offset, timestamp, (incarnation, reached)))
    return [
        Segment(
            first=first,
            origin=number,
            reached=max(row[2] for row in some),
            min_timestamp_ms=min(row[1] for row in some),
            last=max((row[0], row[1]) for row in some),
        )
        for (first, number), some in found.items()
    ]


def answer(every, at):
    before = [row for row in every if row.first < at]
    behind = [row.min_timestamp_ms for row in every if row.first >= at and row.min_timestamp_ms is not None]
    lasts = [row.last for row in before if row.last is not None]
    vector = merge([{row.origin: row.reached} for row in before if row.origin is not None])
    return (max(lasts)[1] if lasts else None), min(behind, default=None), vector


def reference(rows, at):
    before = [row for row in rows if row[0] < at]
    vector = {}
    for _, _, number, *reached in before:
        vector[number] = max(vector.get(number, (-1, -1)), tuple(reached))
    return (
        before[-1][1] if before else None,
        min((row[1] for row in rows if row[0] >= at), default=None),
        vector,
    )


@some_now("seed", range(120), now=range(30))
def test_answers_over_many_runs_are_those_of_the_whole_log(seed):
    source = random.Random(seed)
    rows, origins = [], dict.fromkeys(range(1, source.randint(2, 5)), (1, -1))
    marks, answered = [], 0
    for _ in range(12):
        grow(source, rows, origins)
        low = rows[0][0] if rows else 0
        end = (rows[-1][0] if rows else 0) + source.choice((1, 1, 3))
        asked = {source.randint(low, end) for _ in range(source.randint(1, 3))}
        base = None
        if not marks or min(asked) < marks[0].first:
            # A checkpoint, or the log's beginning.
            near = [row for row in rows if row[0] <= min(asked)]
            at = source.choice([low, *(row[0] for row in near)])
            base = Mark(first=at, seen=reference(rows, at)[2])
        most = source.choice((10**9, 10**9, 3_000))
        for _ in range(200):
            plan = log_index.plan(marks, base, low, end, asked, most)
            read = segments(rows, plan.parts, asked)
            if plan.anew:
                marks = []
            if plan.answers:
                break
            for part in plan.parts:
                marks = joined(marks, log_index.extended(part, read))
            if marks and min(asked) >= marks[0].first:
                base = None
        assert plan.answers, "it reads on and on"
        for at in asked:
            last, safe, vector = answer([*read, *plan.known], at)
            expected = reference(rows, at)
            assert (safe, vector) == expected[1:], f"seed {seed}, offset {at}"
            # Of what lies before a checkpoint, or before the first mark, nothing is known.
            since = base.first if base is not None else marks[0].first
            assert last == (expected[0] if any(since <= row[0] < at for row in rows) else None)
            answered += 1
        for part in plan.parts:
            marks = joined(marks, log_index.extended(part, read))
        places = [mark.first for mark in marks]
        assert places == [places[0] + BLOCK * n for n in range(len(places))] if places else True
        for mark in marks:
            assert mark.seen == reference(rows, mark.first)[2]
    assert answered


def test_a_part_that_ends_where_a_block_does_ends_with_a_mark():
    part = log_index.Part(first=0, end=2 * BLOCK, seen={})
    found = [Segment(first=BLOCK, origin=1, reached=(1, 7), min_timestamp_ms=5, last=(BLOCK + 9, 6))]
    assert log_index.extended(part, found) == [
        Mark(first=0, seen={}),
        Mark(first=BLOCK, seen={}, min_timestamp_ms=5, last=(BLOCK + 9, 6)),
        Mark(first=2 * BLOCK, seen={1: (1, 7)}),
    ]
