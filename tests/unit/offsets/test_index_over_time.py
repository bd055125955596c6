"""The translator's index of a log through retention, long logs, holes and groups far behind.

Every commit is answered, what is read for it is bounded, and the answer equals that of a complete reading.
"""

from __future__ import annotations

import random

import pytest

from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records import origin
from backend.domain.records.log_index import BLOCK, Prefix, Prefixes
from spark.micro_batch import Answer
from tests.nightly import some_now
from tests.unit.distribution.test_log_index import answer, segments
from tests.unit.offsets.test_gaps import HERE, LOG, read_before
from workers.offsets.batch import AskedLog


class Kept:
    """Stored state of one log; `most` as in the translator."""

    def __init__(self, most, rows=(), low=0, end=0):
        self.most, self.rows, self.low, self.end = most, list(rows), low, end
        self.marks, self.prefixes, self.checkpoints, self.from_low = {}, {}, [], False
        self.read_offsets = 0

    def tick(self, asked):
        """Return (log requested, offset -> answer) of one round of the translator."""
        one = AskedLog(
            log=LOG, topic="t", incarnations=((0, 1),), asked=set(asked), low=self.low, end=self.end,
            from_low=self.from_low, checkpoints=self.checkpoints,
        )  # fmt: skip
        one.marks = [self.marks[first] for first in sorted(self.marks)]
        one.make_plan(self.most)
        if one.has_gap:
            known = [each for each in self.prefixes.values() if each.offset <= max(asked)]
            one.prefixes = Prefixes([*known, *one.known_places()])
        self.read_offsets += sum(part.end - part.first for part in one.plan.parts)
        found = segments([row for row in self.rows if row[0] >= self.low], one.plan.parts, one.places)
        if one.plan.anew:
            self.marks = {}
        self.marks |= {mark.first: mark for mark in one.new_marks(found)}
        self.marks = {first: mark for first, mark in self.marks.items() if first >= one.kept_from}
        if not one.plan.answers:
            return one, {}
        answers = {}
        for offset in asked:
            last, safe, vector = answer([*found, *one.plan.known], one.at(offset))
            stood = Answer(timestamp_ms=last, safe_timestamp_ms=safe, vector=vector)
            if one.says_enough(offset, stood):
                answers[offset] = stood
                self.from_low = False
            else:
                self.from_low = True
        return one, answers

    def until_answered(self, asked):
        """Return (log requested, offset -> answer) once all are answered."""
        found, last = {}, None
        for _ in range(80):
            last, answers = self.tick(sorted(set(asked) - found.keys()))
            found |= {offset: (last, stood) for offset, stood in answers.items()}
            if found.keys() == set(asked):
                return found
        pytest.fail(f"it reads on and on: {asked}")


def records(source, at, others):
    """Add records after an offset, with holes: (offset, timestamp, origin, incarnation, reached)."""
    rows = []
    for _ in range(source.choice((0, 3, 300, 900))):
        number = source.choice((HERE, *others))
        if number != HERE:
            others[number] += 1
        rows.append((at, at, number, 1, at if number == HERE else others[number]))
        at += 1 if source.random() < 0.95 else source.choice((5, 40, 1_500))
    return rows, at


def check(kept, offset, one, answered, seed):
    """Check an answer against the complete log; return the facts of the group's commit."""
    stood, truth = one.facts_at(offset, answered, HERE), read_before(kept.rows, offset)
    there = f"seed {seed}, offset {offset}"
    assert origin.covers(truth, stood.vector, stood.vector), f"{there}: it has not read that"
    said = origin.merge([stood.vector, stood.passed])
    if stood.whole:
        elsewhere = {number: reached for number, reached in truth.items() if number != HERE}
        assert {number: reached for number, reached in said.items() if number != HERE} == elsewhere, there
    before = [row for row in kept.rows if kept.low <= row[0] < min(offset, kept.end)]
    if offset >= kept.low and before:
        assert answered.timestamp_ms == before[-1][1], there
    behind = [row[1] for row in kept.rows if row[0] >= max(offset, kept.low)]
    assert answered.safe_timestamp_ms == min(behind, default=None), there
    return stood


# 237 and 390: parts that are adjacent, one with a gap.
@some_now(
    "seed",
    [*range(25), 237, 390, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(25, 150))],
    now=(0, 1, 2, 3, 25, 26),
)
def test_every_commit_is_answered_as_by_a_reading_from_end_to_end(seed):
    source = random.Random(seed)
    kept, others = Kept(source.choice((2_000, 3_000, 10**6))), dict.fromkeys(range(2, source.randint(2, 4)), -1)
    for _ in range(12):
        rows, kept.end = records(source, kept.end, others)
        kept.rows += rows
        if source.random() < 0.4:
            at = source.randint(kept.low, kept.end)
            kept.checkpoints.append(Checkpoint(at, 1, read_before(kept.rows, at)))
        if source.random() < 0.3:
            kept.low = max(kept.low, source.choice((kept.end, source.randint(kept.low, kept.end))))
        commits = {group: source.randint(0, kept.end + 3) for group in source.sample("abcd", source.randint(1, 3))}
        answered = kept.until_answered(commits.values())
        for group, offset in commits.items():
            stood = check(kept, offset, *answered[offset], seed)
            kept.prefixes.pop(group, None)
            if stood.incarnation is not None:
                kept.prefixes[group] = Prefix(offset=offset, seen=stood.vector, whole=stood.whole)
        for mark in kept.marks.values():
            truth = read_before(kept.rows, mark.first)
            assert mark.seen == truth or (not mark.whole and origin.covers(truth, mark.seen, mark.seen))
    for _ in range(2):
        kept.until_answered([kept.end])
    assert all(first > kept.low - BLOCK for first in sorted(kept.marks)[:-1]), "it grows without end"


def test_the_last_record_is_the_last_one_before_the_offset_though_its_block_has_lost_its_first_ones():
    rows = [(at, (0 if at < 1_300 else 9) * 3_600_000 + at, HERE, 1, at) for at in range(5_000)]
    kept = Kept(10**6, rows, 0, 5_000)
    kept.until_answered([4_900])
    kept.low = 1_200
    ((_, stood),) = kept.until_answered([1_300]).values()
    assert stood.timestamp_ms == 1_299


def test_a_group_far_behind_has_the_index_made_once():
    """A group at the newest records, one that reads a backlog, and sparse checkpoints between them."""
    kept = Kept(4_000, [], 0, 60_000)
    kept.rows = [(at, at, HERE, 1, at) for at in range(kept.end)]
    kept.low = 5_000
    for at in (40_000, 55_000, 59_000):
        kept.checkpoints.append(Checkpoint(at, 1, read_before(kept.rows, at)))
    kept.until_answered([59_500])
    for behind in range(6_000, 16_000, 1_000):
        kept.until_answered([behind])
        kept.until_answered([59_900])
    assert kept.read_offsets < 3 * kept.end


def test_markers_and_holes_before_the_offset_are_read_over_once():
    kept = Kept(4_000, [], 0, 25_000)
    kept.rows = [(at, at, HERE, 1, at) for at in range(25_000) if not 15_000 <= at < 20_000]
    kept.low = 5_000
    kept.checkpoints = [Checkpoint(17_000, 1, read_before(kept.rows, 17_000))]
    ((_, stood),) = kept.until_answered([19_000]).values()
    assert stood.timestamp_ms == 14_999
    assert kept.read_offsets < 2 * kept.end
