"""Reassignments in Kafka's format that are submitted as plans: read, checked and counted, never guessed at."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.placement.documents import reassignment
from backend.placement.errors import PlacementInvalid
from backend.placement.external_plan import plan_for_request
from backend.placement.plan import make
from backend.placement.reading import parse
from backend.placement.reassignment import read_reassignment
from backend.placement.request_document import read_problem
from tests.support.domain.placement_instances import question

BROKERS = [{"id": each, "rack": rack} for each, rack in ((1, "az1"), (2, "az2"), (3, "az3"), (4, "az1"))]
CLUSTER: dict[str, Any] = {
    "brokers": BROKERS,
    "partitions": [
        {"topic": "orders", "partition": number, "replicas": [1, 2, 3], "size_bytes": 10} for number in range(4)
    ],
}


def row(number: int, *replicas: Any, **more: Any) -> dict[str, Any]:
    return {"topic": "orders", "partition": number, "replicas": list(replicas), **more}


def document(*rows: Any, **more: Any) -> dict[str, Any]:
    return {"version": 1, "partitions": list(rows), **more}


def planned(*rows: Any) -> dict[str, Any]:
    return plan_for_request({**CLUSTER, "reassignment": document(*rows)}).document()


def test_it_is_the_plan_as_it_stands_and_counted() -> None:
    found = planned(row(0, 2, 4, 3, log_dirs=["any", "any", "any"]), row(3, 1, 2, 3))
    places = {each["partition"]: each["replicas"] for each in found["partitions"]}
    assert places == {0: [2, 4, 3], 1: [1, 2, 3], 2: [1, 2, 3], 3: [1, 2, 3]}, "leaders as they were written"
    assert (found["moves"], found["lower_bound"], found["gap"], found["moved_bytes"]) == (1, 1, 0, 10)
    assert (found["leader_changes"], found["violations"], found["given"]) == (1, [], True)
    assert found["replicas_per_broker"] == {"1": 3, "2": 4, "3": 4, "4": 1}
    assert found["notes"][:2] == [
        "this plan was submitted as a reassignment, not computed: its moves are the listed ones",
        "1 of the 2 listed partitions are placed like this already",
    ]
    assert "same replication factors takes 2 moves" in found["notes"][2]


def test_what_it_does_to_racks_is_told_and_what_was_so_before_is_not() -> None:
    found = planned(row(0, 1, 4, 2))
    (violation,) = found["violations"]
    assert (violation["constraint"], violation["partitions"]) == ("racks", ["orders-0"])
    before = {**CLUSTER, "partitions": [row(0, 1, 4, 2), row(1, 1, 2, 3)]}
    other = plan_for_request({**before, "reassignment": document(row(1, 2, 1, 3))}).document()
    assert other["violations"] == []


def test_another_factor_is_told() -> None:
    found = planned(row(0, 1, 2), row(1, 1, 2, 3, 4))
    assert "2 partitions change their replication factor" in found["notes"] and found["moves"] == 1


def test_replicas_on_a_broker_that_is_gone_may_stay_and_none_may_come() -> None:
    cluster = {**CLUSTER, "partitions": [row(0, 9, 2), row(1, 1, 2)]}
    kept = plan_for_request({**cluster, "reassignment": document(row(0, 2, 9))}).document()
    assert kept["partitions"][0]["replicas"] == [2, 9]
    with pytest.raises(
        PlacementInvalid, match="/reassignment/partitions/0/replicas: 9 not among the cluster's brokers 1, 2"
    ):
        plan_for_request({**cluster, "reassignment": document(row(1, 1, 9))})


@pytest.mark.parametrize(
    ("handed_in", "told"),
    [
        ([], "/: must be an object, not []"),
        ({}, "/partitions: is missing"),
        (document(), "/partitions: is empty"),
        (document(row(0, 1), version=2), "/version: must be 1, not 2"),
        (document(row(0, 1), version="1"), '/version: must be the number 1, not "1"'),
        (document(row(0, 1), topics=[]), ": unknown fields of a reassignment: topics"),
        (document(7), "/partitions/0: must be an object, not 7"),
        (document(row(0, 1), row(0, 2)), "/partitions/1: orders-0 is listed twice, first at /partitions/0"),
        (document(row(0, 1, 2, 1)), "/partitions/0/replicas: orders-0 names a broker twice: [1, 2, 1]"),
        (document(row(0)), "/partitions/0/replicas: orders-0 has no replica"),
        (document(row(0, 1.0)), "the floating-point number 1.0; write 1"),
        (document(row(0, True)), "/partitions/0/replicas/0: must be a broker's id, not true"),
        (document(row(0, -1)), "/partitions/0/replicas/0: must be a broker's id of 0 or more, not -1"),
        (document(row(0, None)), "/partitions/0/replicas/0: must be a broker's id, not null"),
        (document(row(0.5, 1)), "/partitions/0/partition: must be a partition's number, not 0.5"),
        (document(row(0, 2**31)), "replicas/0: must be a broker's id of at most 2147483647, not 2147483648"),
        (document(row(10**400, 1)), "/partitions/0/partition: must be a partition's number of at most 21474836"),
        (document(row(0, -(10**400))), "/partitions/0/replicas/0: must be a broker's id of 0 or more, not -1"),
        (document(row(0, float("inf"))), "/partitions/0/replicas/0: must be a broker's id, not Infinity"),
        (
            document({**row(0, 1), "topic": "a\0b"}),
            '/partitions/0/topic: "a\\u0000b" is not a valid topic name in Kafka',
        ),
        (document({**row(0, 1), "topic": "\ud800"}), '/topic: "\\ud800" is not a valid topic name'),
        (document({**row(0, 1), "topic": ".."}), '/topic: ".." is not a valid topic name'),
        (document({**row(0, 1), "topic": "a" * 250}), "is not a valid topic name"),
        (document({**row(0, 1), "topic": "a\n"}), "is not a valid topic name"),
        (document(row(0, 1, log_dir="/a")), "/partitions/0: unknown fields of a reassignment: log_dir"),
        (document(row(0, 1, log_dirs=["any", "any"])), "/partitions/0/log_dirs: has 2 entries for 1 replicas"),
        (
            document(row(0, 1, log_dirs=["/a"])),
            'log_dirs: "/a" is not supported: log directories cannot be chosen; use "any"',
        ),
    ],
)
def test_what_means_two_things_or_nothing_is_refused_with_its_place(handed_in: Any, told: str) -> None:
    with pytest.raises(PlacementInvalid) as refused:
        read_reassignment(handed_in)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [row(0, 1, 2, 3), row(9, 1)],
            "/reassignment/partitions/1: the cluster has no partition orders-9",
        ),
        ([{**row(0, 1), "topic": "order"}], "/reassignment/partitions/0: the cluster has no topic order"),
        ([row(0, 1, 77)], "/reassignment/partitions/0/replicas: 77 not among the cluster's brokers 1, 2, 3, 4"),
    ],
)
def test_what_the_cluster_does_not_have_is_named(rows: list[Any], told: str) -> None:
    with pytest.raises(PlacementInvalid) as refused:
        planned(*rows)
    assert str(refused.value) == told


def test_of_many_that_do_not_fit_the_first_are_named_and_all_counted() -> None:
    with pytest.raises(PlacementInvalid) as refused:
        planned(row(0, 1, 77), row(8, 1), row(9, 1), {**row(0, 1), "topic": "order"}, row(1, 78), row(2, 2, 1))
    at = "/reassignment/partitions"
    assert str(refused.value) == (
        f"{at}/0/replicas: 77 not among the cluster's brokers 1, 2, 3, 4; {at}/1: "
        f"the cluster has no partition orders-8; {at}/2: the cluster has no partition orders-9; and 2 more"
    )


def test_it_goes_with_no_other_wish() -> None:
    asked = {**CLUSTER, "target_brokers": [1, 2, 3], "reassignment": document(row(0, 1))}
    with pytest.raises(PlacementInvalid, match="/target_brokers: cannot be combined with a reassignment"):
        plan_for_request(asked)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("reasignment", "/reasignment: unknown field; did you mean reassignment?"),
        ("target_broker", "/target_broker: unknown field; did you mean target_brokers?"),
    ],
)
def test_a_name_that_is_spelled_wrong_is_refused_with_what_was_meant(name: str, told: str) -> None:
    with pytest.raises(PlacementInvalid) as refused:
        plan_for_request({**CLUSTER, name: document(row(0, 1))})
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"version": 1, "version": 1}', 'an object has "version" twice (1 and 1): remove one'),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "replicas": [2]}]}',
            'an object has "replicas" twice ([1] and [2]): remove one',
        ),
        ('{"version": NaN}', "invalid JSON: NaN is not a number"),
        ('{"version": 1,}', "invalid JSON: "),
        ("[" * 100_000, "invalid JSON: it is nested too deeply"),
    ],
)
def test_of_two_values_of_one_name_none_is_dropped(text: str, told: str) -> None:
    with pytest.raises(PlacementInvalid) as refused:
        parse(text)
    assert told in str(refused.value)


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_what_was_written_is_read_as_the_same_plan(seed: int) -> None:
    asked = question(seed)
    made = make(read_problem(asked))
    written = reassignment(made.problem, made.replicas)
    if not written["partitions"]:
        return
    cluster = {name: asked[name] for name in ("brokers", "partitions")}
    found = plan_for_request({**cluster, "reassignment": parse(json.dumps(written))})
    assert found.document()["partitions"] == made.document()["partitions"]
    assert (found.counted.moves, found.counted.leader_changes) == (made.counted.moves, made.counted.leader_changes)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["version", "partitions", "topic", "partition", "replicas", "log_dirs"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(_JSON)
@settings(max_examples=300, deadline=None)
def test_garbage_is_refused_and_nothing_else_happens(garbage: Any) -> None:
    try:
        plan_for_request({**CLUSTER, "reassignment": garbage})
    except PlacementInvalid as error:
        assert str(error).startswith("/reassignment")
