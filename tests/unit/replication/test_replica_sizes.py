"""Bytes that were appended, by the growth of the leaders' logs."""

from __future__ import annotations

import pytest

from backend.domain.replication.replica_sizes import ReplicaSizes, appended_bytes

BEFORE = {("t", 0): (1, 100), ("t", 1): (2, 50)}


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({("t", 0): (1, 130), ("t", 1): (2, 50)}, 30),
        # Retention deleted a segment of one; the other grew.
        ({("t", 0): (1, 20), ("t", 1): (2, 57)}, 7),
        # Another replica leads, which has another size.
        ({("t", 0): (3, 900), ("t", 1): (2, 51)}, 1),
        # A new partition, and one that was not reported this time.
        ({("t", 0): (1, 101), ("u", 0): (1, 4000)}, 1),
        ({}, 0),
    ],
)
def test_growth_counts_where_the_leader_is_the_same(
    now: dict[tuple[str, int], tuple[int, int]], expected: int
) -> None:
    sizes = [ReplicaSizes(leaders=leaders, brokers={}) for leaders in (BEFORE, now)]
    assert appended_bytes(*sizes) == expected
