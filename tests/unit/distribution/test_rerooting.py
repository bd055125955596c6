"""Places from which the records of a cluster that left the tree continue."""

from __future__ import annotations

import pytest

from backend.domain.distribution.rerooting import roots

LOST, LEAVES = 9, ("a", "b", "c")
PARTITION = ("acme/retail/prod/orders", 0)


@pytest.mark.parametrize(
    ("root", "held", "found"),
    [
        pytest.param(None, {"a": (1, 3), "b": (1, 7), "c": (1, 5)}, "b", id="from the longest prefix"),
        pytest.param(None, {"c": (1, 7), "b": (1, 7)}, "b", id="of two that are as long from the first by name"),
        pytest.param(None, {"a": (2, 0), "b": (1, 7)}, "a", id="a later incarnation is further"),
        pytest.param(None, {"a": None, "b": (1, 0)}, "b", id="not from where none of them is"),
        pytest.param(None, {"a": None, "b": None}, None, id="nowhere are any"),
        pytest.param("c", {"a": (1, 7), "c": (1, 7)}, None, id="a root stays that nobody surpasses"),
        pytest.param("c", {"a": (1, 8), "c": (1, 7)}, "a", id="one that is surpassed moves"),
        pytest.param("c", {"a": (1, 8), "c": None}, "a", id="also if it has none of them any more"),
        pytest.param("c", {"a": (1, 8)}, None, id="one that cannot be asked stays"),
        pytest.param("z", {"a": (1, 3)}, "a", id="one that has left the tree moves"),
    ],
)
def test_a_lost_origins_records_go_on(root, held, found):
    vectors = {leaf: {PARTITION: {LOST: reached} if reached else {}} for leaf, reached in held.items()}
    present = {} if root is None else {PARTITION: root}
    assert roots(LOST, present, LEAVES, vectors) == ({} if found is None else {PARTITION: found})
