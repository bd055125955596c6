"""Detection of drift between a cluster and the state that a plan was made from."""

from __future__ import annotations

from typing import Any

import pytest

from backend.placement.execution.drift import PlannedFrom, drift

PLANNED = PlannedFrom(
    replicas={("a", 0): (1, 2), ("a", 1): (2, 3), ("b", 0): (3, 1)},
    racks={1: "az1", 2: "az2", 3: "az3", 4: None},
    needed={2, 3},
)
REPLICAS: dict[tuple[str, int], tuple[int, ...]] = dict(PLANNED.replicas)
BROKERS: dict[int, str | None] = {1: "az1", 2: "az2", 3: "az3", 4: None}


def found(**other: Any) -> list[str]:
    return drift(PLANNED, other.get("replicas", REPLICAS), other.get("brokers", BROKERS), other.get("ongoing", ()))


def test_the_same_cluster_is_none() -> None:
    assert found() == []
    assert found(replicas={place: list(brokers) for place, brokers in REPLICAS.items()}) == []
    assert found(replicas={**REPLICAS, ("new", 0): (1, 2)}) == [], "new topics do not concern the plan"
    assert found(brokers={2: "az2", 3: "az3", 9: "az1"}) == [], "the plan gives no replicas to the other brokers"


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            {"replicas": {place: REPLICAS[place] for place in REPLICAS if place[0] != "b"}},
            "topics were deleted (b)",
        ),
        ({"replicas": {("a", 0): (1, 2), ("b", 0): (3, 1)}}, "topics have fewer partitions (a-1)"),
        ({"replicas": {**REPLICAS, ("a", 2): (1, 2)}}, "topics have more partitions (a-2)"),
        (
            {"replicas": {**REPLICAS, ("a", 0): (2, 1)}},
            "replicas are elsewhere than when the plan was made (a-0)",
        ),
        (
            {"brokers": {1: "az1", 2: "az2", 4: None}},
            "brokers that are to get replicas are unavailable (3)",
        ),
        ({"brokers": {**BROKERS, 4: "az9"}}, "brokers are in another rack (4)"),
        ({"ongoing": [("x", 5)]}, "replicas are being moved (x-5)"),
    ],
)
def test_what_is_another_is_named(other: dict[str, Any], told: str) -> None:
    assert found(**other) == [told]


def test_many_are_counted() -> None:
    planned = PlannedFrom(replicas={(f"t{at}", 0): (1,) for at in range(9)}, racks={}, needed=())
    assert drift(planned, {}, {}, ()) == ["topics were deleted (t0, t1, t2, t3, t4 and 4 more)"]
