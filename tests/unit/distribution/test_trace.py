"""Route of a record by its headers and the trees of its time, and the reason why a cluster lacks it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from backend.domain.distribution import trace
from backend.domain.distribution.trace import CameFrom, DistributorSeen, Marks, TreeVersion
from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.domain.tree import routes, tree_shape
from tests.support.domain.trees import random_targets, random_tree, seeds

ID = origin.stream_id("acme/retail/prod/orders")
BORN = Origin(1, ID, 0, 7, 1)
ROOT = tree_shape.parse(
    {
        "level": 2,
        "children": [
            {"level": 1, "children": [{"cluster": "a"}, {"cluster": "b"}]},
            {"level": 1, "children": [{"cluster": "c"}, {"cluster": "d"}]},
        ],
    },
    frozenset("abcd"),
)
DEFAULT = tree_shape.default_targets(ROOT)


def version(began=0, ended=None, **targets):
    moved = {(name[0], int(name[1])): target for name, target in targets.items()}
    return TreeVersion(ROOT, {**DEFAULT, **moved}, began, ended)


@given(seeds)
def test_flags_tell_the_hops_and_the_trees_the_way(seed):
    source = random.Random(seed)
    root = random_tree(source, 12)
    targets = random_targets(source, root)
    now = TreeVersion(root, targets, 0, None)
    for born, edges in routes.routes(root, targets).items():
        steps = {born: 0}
        for edge in edges:
            steps[edge.target] = steps[edge.source] + 1
            assert trace.hops(edge.flags) == steps[edge.target]
            found = trace.came_from([now], born, edge.target, edge.flags, 0, None)
            assert found == CameFrom(edge.source, certain=True)


@pytest.mark.parametrize(
    ("versions", "produced", "arrived", "expected"),
    [
        ([version()], 5, 9, CameFrom("a", True)),
        # Level 2 from b to c instead changes nothing for what was born on a.
        ([version(0, 100_000), version(100_000, b2="c")], 5, None, CameFrom("a", True)),
        ([], 5, 9, None),
    ],
)
def test_one_way_is_certain(versions, produced, arrived, expected):
    assert trace.came_from(versions, "a", "c", 0b10, produced, arrived) == expected


@pytest.mark.parametrize(
    ("produced", "arrived", "expected"),
    [
        (500_000, 500_100, CameFrom("d", True)),  # the new tree has long been in force
        (5, 9, CameFrom("c", True)),  # arrived before the change
        (5, 500_000, CameFrom("d", False)),  # produced before and arrived after it
        (5, None, CameFrom("d", False)),
        (100_500, 100_900, CameFrom("d", False)),  # distributors may not have followed yet
    ],
)
def test_a_change_of_targets_makes_it_uncertain_only_near_the_change(produced, arrived, expected):
    """Records of a reach b from c or from d, depending on a's target, with the same flags."""
    deep = tree_shape.parse(
        {
            "level": 3,
            "children": [
                {"cluster": "a"},
                {
                    "level": 2,
                    "children": [
                        {"cluster": "b"},
                        {"level": 1, "children": [{"cluster": "c"}, {"cluster": "d"}]},
                    ],
                },
            ],
        },
        frozenset("abcd"),
    )
    default = tree_shape.default_targets(deep)
    before = {**default, ("a", 3): "c", ("c", 2): "b"}
    after = {**default, ("a", 3): "d", ("d", 2): "b"}
    versions = [TreeVersion(deep, before, 0, 100_000), TreeVersion(deep, after, 100_000, None)]
    assert trace.came_from(versions, "a", "b", 0b110, produced, arrived) == expected


def test_flags_that_no_tree_gives_have_no_way():
    assert trace.came_from([version()], "a", "c", 0b1000, 5, 9) is None
    assert trace.came_from([version()], "z", "c", 0b10, 5, 9) is None


@pytest.mark.parametrize(
    ("values", "copied"),
    [
        ([origin.encode(BORN)], True),
        ([], False),
        ([b"short"], False),
        ([None], False),
        ([origin.encode(BORN)] * 2, False),
        ([origin.encode(Origin(1, origin.stream_id("another"), 0, 7, 1))], False),
        ([origin.encode(Origin(1, ID, 3, 7, 1))], False),
        ([origin.encode(Origin(2, ID, 0, 7, 1))], False),  # of this very cluster
    ],
)
def test_what_is_a_copy(values, copied):
    headers = [("x", b"1"), *(("copy-origin", value) for value in values), ("copy-flags", copy_flags.encode(5))]
    marks = trace.read_marks(headers, "copy-flags", "copy-origin")
    assert marks.flags == 5
    assert trace.is_copy(marks, ID, 0, 2) is copied


def test_no_headers_are_no_marks():
    assert trace.read_marks(None, "copy-flags", "copy-origin") == Marks(0, None)


ROUTE = version().route("a")
SEEN = DistributorSeen("running", None, 0)


@pytest.mark.parametrize(
    ("cluster", "holders", "unknown", "seen", "later_there", "said"),
    [
        ("c", "a", "", {("a", 2): DistributorSeen("paused", None, 5)}, False, "distributor a:2 is paused"),
        ("c", "a", "", {("a", 2): DistributorSeen("blocked", "no answer", 5)}, False, "a:2 is blocked: no answer"),
        ("c", "a", "", {("a", 2): DistributorSeen("running", None, 1200)}, False, "with a lag of 1,200"),
        ("c", "a", "", {("a", 2): DistributorSeen("running", None, None)}, False, "not known yet"),
        ("c", "a", "", {("a", 2): SEEN}, False, "without a lag"),
        ("c", "a", "", {}, False, "nothing is known"),
        ("c", "a", "", {("a", 2): SEEN}, True, "later records"),
        ("d", "a", "", {}, False, "comes from c, which does not have it either"),
        ("d", "a", "c", {}, False, "comes from c, which could not be asked"),
        ("a", "c", "", {}, False, "no route"),
    ],
)
def test_why_a_cluster_lacks_a_record(cluster, holders, unknown, seen, later_there, said):
    assert said in trace.why_absent(cluster, ROUTE, set(holders), set(unknown), seen, later_there)
