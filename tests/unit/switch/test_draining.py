"""Vectors tell what a target lacks: never less than that, and all of it once it has come."""

from __future__ import annotations

import random

import pytest

from backend.domain.records.log_index import Prefix
from backend.domain.records.origin import merge
from backend.domain.switch import draining
from backend.domain.tree import routes, tree_shape

HERE, TARGET, OTHER = 1, 2, 3


def log(source):
    """(offset, origin, reached) of a log on HERE, with holes; its topic was made anew, or cut off, at times."""
    rows, incarnations, place, others = [], [(0, 1)], 0, {TARGET: -1, OTHER: -1}
    for _ in range(source.randint(0, 60)):
        place += source.choice((1, 1, 1, 4))
        if source.random() < 0.03:
            incarnations.append((place, incarnations[-1][1] + 1))
        number = source.choice((HERE, HERE, TARGET, OTHER))
        if number == HERE:
            rows.append((place, HERE, (incarnations[-1][1], place)))
        else:
            others[number] += source.choice((1, 2))
            rows.append((place, number, (1, others[number])))
    return rows, tuple(incarnations), place + 1


def vector(rows):
    return merge({number: reached} for _, number, reached in rows)


@pytest.mark.parametrize("seed", range(300))
def test_what_is_lacking_and_what_is_at_risk(seed):
    source = random.Random(seed)
    rows, incarnations, end = log(source)
    held = [row for row in rows if row[0] < source.choice((end, end // 2))]
    has = {HERE: source.randint(0, len(held)), OTHER: source.randint(0, len(held))}
    arrived = [row for number, count in has.items() for row in [r for r in held if r[1] == number][:count]]
    wanted, covered = vector(held), vector(arrived)
    lost = [row for row in held if row not in arrived and row[1] != TARGET]
    lacks = draining.lacking(wanted, covered, TARGET)
    assert bool(lacks) == bool(lost)
    assert set(lacks) == {number for _, number, _ in lost}
    assert draining.most_missing(lacks, covered, end) >= len(lost)
    assert draining.lacking(wanted, wanted, TARGET) == {}
    # What is at risk: records born here that the other one does not have.
    low = source.randint(0, end)
    own = [place for place, number, _ in lost if number == HERE and place >= low]
    at = source.randint(0, end)
    known = source.choice((None, Prefix(offset=at, seen=vector([row for row in rows if row[0] < at]))))
    last = max((row[0] for row in held), default=-1) + 1
    first = draining.first_at_risk(HERE, incarnations, low, last, known if known and at <= last else None, covered)
    assert all(first is not None and first <= place < last for place in own)


@pytest.mark.parametrize(
    ("has", "known", "first"),
    [
        ({}, None, 5),
        ({HERE: (1, 7)}, None, 8),
        ({HERE: (1, 7)}, Prefix(offset=15, seen={HERE: (1, 7)}), 15),
        ({HERE: (1, 7)}, Prefix(offset=15, seen={HERE: (1, 9)}), 8),
        ({HERE: (1, 19)}, None, None),
        ({}, Prefix(offset=20, seen={OTHER: (1, 7)}), None),
    ],
)
def test_the_first_offset_at_risk(has, known, first):
    assert draining.first_at_risk(HERE, ((0, 1),), 5, 20, known, has) == first


def test_of_a_log_that_was_cut_off_what_was_born_since_is_at_risk():
    incarnations = ((0, 1), (10, 2))
    assert draining.first_at_risk(HERE, incarnations, 0, 20, None, {HERE: (1, 30)}) == 10
    assert draining.first_at_risk(HERE, incarnations, 0, 20, None, {HERE: (2, 12)}) == 13
    assert draining.first_at_risk(HERE, ((0, 2),), 0, 20, None, {HERE: (1, 30)}) == 0


def test_what_is_gone_from_the_log_is_not_wanted():
    wanted, lacks = {HERE: (1, 9), OTHER: (1, 7), TARGET: (1, 1)}, {OTHER: (1, 7)}
    assert draining.still_there(wanted, lacks, {}) == {HERE: (1, 9), TARGET: (1, 1)}
    assert draining.still_there(wanted, lacks, {OTHER: (1, 4)}) == {**wanted, OTHER: (1, 4)}
    bases = [Prefix(offset=50, seen={OTHER: (1, 7)}), Prefix(offset=80, seen={OTHER: (1, 9)})]
    assert draining.gone_before(lacks, bases, 60) == lacks
    assert draining.gone_before(lacks, bases, 40) == {}
    assert draining.gone_before({OTHER: (1, 8)}, bases, 60) == {}


def test_the_way_of_an_origins_records_to_a_target():
    document = {
        "level": 2,
        "children": [{"cluster": "a"}, {"level": 1, "children": [{"cluster": "b"}, {"cluster": "c"}]}],
    }
    root = tree_shape.parse(document, {"a", "b", "c"})
    found = routes.routes(root, {("a", 2): "b", ("b", 2): "a", ("c", 2): "a", ("b", 1): "c", ("c", 1): "b"})
    ways = {
        (origin, target): [(edge.source, edge.target) for edge in routes.way(found[origin], origin, target)]
        for origin in "abc"
        for target in "abc"
    }
    assert ways["a", "c"] == [("a", "b"), ("b", "c")]
    assert ways["c", "a"] == [("c", "a")]
    assert ways["a", "a"] == [] == list(routes.way((), "a", "b"))
