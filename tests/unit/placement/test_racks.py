"""The number of replicas of one partition in each rack."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.placement.racks import rack_bounds, spread_over


@pytest.mark.parametrize(
    ("sizes", "replicas", "least", "most"),
    [
        ([3, 3, 3], 3, [1, 1, 1], [1, 1, 1]),
        ([3, 3, 3], 2, [0, 0, 0], [1, 1, 1]),
        ([3, 3, 3], 4, [1, 1, 1], [2, 2, 2]),
        # The small rack is full: the others have to take the rest.
        ([1, 4], 5, [1, 4], [1, 4]),
        ([1, 4], 3, [1, 2], [1, 2]),
        ([1, 4, 4], 4, [1, 1, 1], [1, 2, 2]),
        ([0, 2, 2], 3, [0, 1, 1], [0, 2, 2]),
        ([5], 3, [3], [3]),
    ],
)
def test_a_partition_spans_as_many_racks_as_it_can(
    sizes: list[int], replicas: int, least: list[int], most: list[int]
) -> None:
    found = rack_bounds(np.array(sizes), replicas)
    assert (found[0].tolist(), found[1].tolist()) == (least, most)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(1, 8))
def test_what_is_allowed_is_what_is_most_even(sizes: list[int], replicas: int) -> None:
    """The allowed distributions are the most balanced ones of all, by exhaustive search."""
    if replicas > sum(sizes):
        with pytest.raises(ValueError, match="brokers"):
            rack_bounds(np.array(sizes), replicas)
        return
    ways = [way for way in product(*(range(size + 1) for size in sizes)) if sum(way) == replicas]
    evenest = min(sum(each * each for each in way) for way in ways)
    for way in ways:
        is_evenest = sum(each * each for each in way) == evenest
        assert spread_over(np.array(way), np.array(sizes), replicas) == is_evenest, way
