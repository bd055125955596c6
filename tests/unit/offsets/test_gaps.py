"""Translated commits after the log has lost its beginning: never too much, never less than before.

Where the answer may be too little, it says so.
"""

from __future__ import annotations

import random

import pytest

from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records import origin
from backend.domain.records.log_index import Prefix, Prefixes
from spark.micro_batch import Answer
from tests.support.domain.log_marks import joined
from tests.unit.distribution.test_log_index import answer, segments
from workers.offsets.batch import AskedLog

HERE = 1
LOG = ("cluster-1", "acme/retail/prod/orders", 0)


def stands(rows, marks, low, end, offset, checkpoints, prefixes):
    """Return (facts at an offset, the marks then), as the translator finds them with the remaining records."""
    one = AskedLog(log=LOG, topic="t", incarnations=((0, 1),), asked={offset}, low=low, end=end)
    one.marks, one.checkpoints = marks, checkpoints
    one.make_plan(10**6)
    if one.has_gap:
        one.prefixes = Prefixes([*(each for each in prefixes if each.offset <= offset), *one.known_places()])
    found = segments([row for row in rows if row[0] >= low], one.plan.parts, one.places)
    last, safe, vector = answer([*found, *one.plan.known], one.at(offset))
    stood = one.facts_at(offset, Answer(timestamp_ms=last, safe_timestamp_ms=safe, vector=vector), HERE)
    return stood, joined(() if one.plan.anew else one.marks, one.new_marks(found))


def read_before(rows, offset):
    return origin.merge({number: (1, reached)} for at, _, number, _, reached in rows if at < offset)


@pytest.mark.parametrize(
    "seed", [*range(100), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(100, 200))]
)
def test_retention_between_commits_takes_nothing_from_what_was_read(seed):
    source = random.Random(seed)
    rows, marks, prefixes, checkpoints, low, before = [], [], {}, [], 0, {}
    others = dict.fromkeys(range(2, source.randint(2, 4)), -1)
    for _ in range(10):
        for _ in range(source.choice((0, 3, 400, 2_500))):
            number = source.choice((HERE, *others))
            if number != HERE:
                others[number] += 1
            at = rows[-1][0] + 1 if rows else 0
            rows.append((at, at, number, 1, at if number == HERE else others[number]))
        end = len(rows)
        if source.random() < 0.3:
            checkpoints.append(Checkpoint(end, 1, read_before(rows, end)))
        low = max(low, source.choice((low, low, end, source.randint(low, end))))
        group, offset = source.choice("ab"), source.randint(0, end)
        stood, marks = stands(rows, marks, low, end, offset, checkpoints, prefixes.values())
        truth = read_before(rows, offset)
        said = origin.merge([stood.vector, stood.passed])
        assert origin.covers(truth, stood.vector, stood.vector), f"seed {seed}: it has not read that"
        assert {number: reached for number, reached in said.items() if number != HERE}.items() <= {
            **{number: reached for number, reached in truth.items() if number != HERE}
        }.items() or not stood.whole
        assert said.get(HERE, (1, -1)) == ((1, offset - 1) if offset else (1, -1))
        if stood.whole:
            assert stood.vector == truth or (low > 0 and origin.covers(stood.vector, truth, set(truth) - {HERE}))
        if group in before and before[group][0] <= offset:
            assert origin.covers(said, before[group][1], before[group][1]), f"seed {seed}: less than before"
        prefixes[group] = Prefix(offset=offset, seen=stood.vector, whole=stood.whole)
        before[group] = (offset, said)


@pytest.mark.parametrize("checkpoints", [(), (Checkpoint(400, 1, {2: (1, 399)}),)])
def test_copies_that_are_gone_before_anybody_looked(checkpoints):
    rows = [(at, at, 2, 1, at) for at in range(500)]
    stood, marks = stands(rows, [], 400, 500, 400, checkpoints, ())
    assert stood.whole == bool(checkpoints)
    assert stood.vector == ({2: (1, 399)} if checkpoints else {})
    # Marks made then know no more than their sources, until a checkpoint does.
    stood, _ = stands(rows, marks, 400, 500, 450, checkpoints, ())
    assert (stood.whole, stood.vector) == (bool(checkpoints), {2: (1, 449)})


def test_an_index_that_knew_too_little_goes_on_as_a_whole():
    low, end = 5_000, 12_000
    rows = [(at, at, 2, 1, at) for at in range(end)]
    _, marks = stands(rows, [], low, end, low + 10, (), ())
    assert not any(mark.whole for mark in marks)
    checkpoints = [Checkpoint(8_000, 1, {2: (1, 7_999)})]
    stood, marks = stands(rows, marks, low, end, 9_500, checkpoints, ())
    assert (stood.whole, stood.vector) == (True, {2: (1, 9_499)}), "a checkpoint inside it tells"
    stood, _ = stands(rows, marks, low, end, 7_500, checkpoints, ())
    assert (stood.whole, stood.vector) == (False, {2: (1, 7_499)})
    rows += [(at, at, 2, 1, at) for at in range(end, end + 2_000)]
    _, marks = stands(rows, marks, low, end + 2_000, 13_500, checkpoints, ())
    assert [mark.whole for mark in marks if mark.first >= 12_000] == [True, True, True]


def test_a_commit_behind_the_end_says_nothing_of_what_will_be_there():
    rows = [(at, at, 1, 1, at) for at in range(50)]
    stood, _ = stands(rows, [], 0, 50, 1_000, (), ())
    assert stood.incarnation is None
    stood, _ = stands(rows, [], 0, 50, 50, (), ())
    assert stood.incarnation == 1
