"""A placement from the request to the plan."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from backend.domain.base.errors import AlreadyExists, NotFound, ValueInvalid
from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placements import (
    INITIAL,
    PlacementFailed,
    PlacementGiven,
    PlacementPlanned,
    PlacementRequested,
    PlacementState,
    RecordFailure,
    RecordPlan,
    RequestPlacement,
    SubmitReassignment,
    decide,
    evolve,
)

REQUEST = RequestPlacement(placement="p1", cluster="c1", aims=Aims(), known_clusters=["c1"])
PLAN = RecordPlan(digest="1f", summary={"moves": 3})


def requested() -> Any:
    (event,) = decide(INITIAL, REQUEST)
    assert isinstance(event, PlacementRequested)
    return evolve(INITIAL, event)


def test_what_is_asked_for_is_planned_once() -> None:
    state = requested()
    (planned,) = decide(state, PLAN)
    assert planned == PlacementPlanned(placement="p1", cluster="c1", digest="1f", summary={"moves": 3})
    state = evolve(state, planned)
    assert state is not None and state.state is PlacementState.PLANNED
    assert decide(state, RecordPlan(digest="2e", summary={})) == [], "another worker was faster"
    assert decide(state, RecordFailure(reason="too late")) == []


def test_what_is_handed_in_is_checked_and_planned_alike() -> None:
    given = SubmitReassignment(placement="p1", cluster="c1", partitions=7, digest="d", known_clusters=["c1"])
    (event,) = decide(INITIAL, given)
    assert event == PlacementGiven(placement="p1", cluster="c1", partitions=7, digest="d")
    state = evolve(INITIAL, event)
    (planned,) = decide(state, PLAN)
    assert isinstance(planned, PlacementPlanned)
    with pytest.raises(AlreadyExists):
        decide(state, given)
    with pytest.raises(ValueInvalid, match="'c2'"):
        decide(INITIAL, dataclasses.replace(given, cluster="c2"))


def test_what_cannot_be_planned_says_why() -> None:
    state = requested()
    (failed,) = decide(state, RecordFailure(reason="nobody answers"))
    assert failed == PlacementFailed(placement="p1", cluster="c1", reason="nobody answers")
    state = evolve(state, failed)
    assert state is not None and state.state is PlacementState.FAILED and decide(state, PLAN) == []


def test_there_is_one_of_a_name_and_none_of_an_unknown_one() -> None:
    with pytest.raises(AlreadyExists):
        decide(requested(), REQUEST)
    with pytest.raises(NotFound):
        decide(None, PLAN)


@pytest.mark.parametrize(
    ("aims", "pointer", "told"),
    [
        (Aims(target_brokers=()), "/target_brokers", "is empty"),
        (Aims(target_brokers=(1, -1)), "/target_brokers/1", "not -1"),
        (Aims(target_brokers=(2**31,)), "/target_brokers/0", "not 2147483648"),
        (Aims(no_leaders=(-5,)), "/no_leaders/0", "not -5"),
        (Aims(replication_factor=101), "/replication_factor", "1 to 100"),
        (Aims(replication_factors={"orders": 0}), "/replication_factor/orders", "not 0"),
        (Aims(excluded_topics=tuple(map(str, range(10_001)))), "", "more than 10000"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(aims: Aims, pointer: str, told: str) -> None:
    with pytest.raises(ValueInvalid) as refused:
        decide(INITIAL, dataclasses.replace(REQUEST, aims=aims))
    (error,) = refused.value.errors
    assert (error.pointer, told in error.detail) == (pointer, True)


DECLARED = dataclasses.replace(
    REQUEST, aims=Aims(as_declared=True), declared_factors={"b": 2, "a": 3, "c": 1}, brokers=3
)


@pytest.mark.parametrize(
    ("aims", "brokers", "factors"),
    [
        (Aims(as_declared=True), 3, {"a": 3, "b": 2, "c": 1}),
        (Aims(as_declared=True), 2, {"a": 2, "b": 2, "c": 1}),
        (Aims(as_declared=True, target_brokers=(1, 1)), 3, {"a": 1, "b": 1, "c": 1}),
        (Aims(as_declared=True, target_brokers=(4, 5, 6)), 1, {"a": 3, "b": 2, "c": 1}),
        (Aims(as_declared=True, excluded_topics=("b",)), 3, {"a": 3, "c": 1}),
    ],
)
def test_what_streams_declare_is_resolved_when_it_is_asked_for(
    aims: Aims, brokers: int, factors: dict[str, int]
) -> None:
    (event,) = decide(INITIAL, dataclasses.replace(DECLARED, aims=aims, brokers=brokers))
    assert isinstance(event, PlacementRequested)
    assert event.aims == dataclasses.replace(aims, replication_factors=factors)


@pytest.mark.parametrize(
    "change", [{"declared_factors": {}}, {"aims": Aims(as_declared=True, excluded_topics=("a", "b", "c"))}]
)
def test_what_nobody_declares_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueInvalid, match="no stream has a topic on c1") as refused:
        decide(INITIAL, dataclasses.replace(DECLARED, **change))
    assert refused.value.errors[0].pointer == "/replication_factor"


def test_an_unknown_cluster_is_named() -> None:
    with pytest.raises(ValueInvalid, match="'c2'"):
        decide(INITIAL, dataclasses.replace(REQUEST, cluster="c2"))
