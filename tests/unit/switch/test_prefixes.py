"""Ranges of a log that are read to compute the vectors at some of its offsets."""

from __future__ import annotations

import itertools
import random

import pytest

from backend.domain.records.log_index import Prefix
from workers.switches.prefixes import Stretch, stretches


def base(offset):
    return Prefix(offset=offset, seen={1: (1, offset - 1)})


@pytest.mark.parametrize(
    ("offsets", "bases", "low", "read"),
    [
        ([10], [], 0, [(0, 10)]),
        ([10], [4, 8, 12], 0, [(8, 10)]),
        ([10, 11, 30], [8, 29], 0, [(8, 11), (29, 30)]),
        ([10, 30], [8, 9], 0, [(9, 30)]),
        ([10, 30], [8, 10], 0, [(10, 30)]),
        ([10, 3], [2], 5, [(5, 10)]),
        ([], [2], 0, []),
        ([7], [7], 0, [(7, 7)]),
    ],
)
def test_what_is_read(offsets, bases, low, read):
    found = list(stretches(offsets, [base(each) for each in bases], low))
    assert [(each.first, each.end) for each in found] == read


@pytest.mark.parametrize("seed", range(200))
def test_each_offset_is_at_the_end_or_inside_of_a_stretch_that_begins_where_the_vector_is_known(seed):
    source = random.Random(seed)
    low, bases = source.randint(0, 50), [base(source.randint(0, 100)) for _ in range(source.randint(0, 8))]
    offsets = [source.randint(low, 100) for _ in range(source.randint(1, 8))]
    found = list(stretches(offsets, bases, low))
    for offset in offsets:
        assert sum(each.first <= offset <= each.end for each in found) == 1
    for before, behind in itertools.pairwise(found):
        assert before.end < behind.first
    for each in found:
        assert isinstance(each, Stretch)
        assert each.first == low or each.first in {one.offset for one in bases}
        assert each.seen == max((one.seen for one in bases if one.offset <= each.first), key=max_of, default={})
    assert sum(each.end - each.first for each in found) <= max(offsets) - low


def max_of(seen):
    return seen[1]
