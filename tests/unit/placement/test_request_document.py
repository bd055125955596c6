"""Requests that are invalid, and requests that cannot be satisfied: explained, and nothing moves."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from backend.placement.documents import reassignment
from backend.placement.errors import PlacementInvalid
from backend.placement.plan import make
from backend.placement.request_document import read_brokers, read_problem

RACKS = {1: "az1", 2: "az2", 3: "az3", 4: "az1"}
GOOD: dict[str, Any] = {
    "brokers": [{"id": each, "rack": rack} for each, rack in RACKS.items()],
    "target_brokers": [1, 2, 3, 4],
    "partitions": [
        {"topic": "orders", "partition": number, "replicas": [1, 2, 3], "size_bytes": 10} for number in range(4)
    ],
}


def changed(path: str, value: Any, of: dict[str, Any] = GOOD) -> dict[str, Any]:
    """Return the valid request, or another one, with one value replaced; DROP removes it."""
    found = deepcopy(of)
    *parts, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    owner: Any = found
    for part in parts:
        owner = owner[part]
    if value is DROP:
        del owner[last]
    else:
        owner[last] = value
    return found


DROP = object()


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("brokers", DROP, "/brokers: is missing"),
        ("brokers", [], "/brokers: is empty"),
        ("brokers", {"id": 1}, "/brokers: must be a list"),
        ("brokers/0", 1, "/brokers/0: must be an object, not 1"),
        ("brokers/0/id", "1", '/brokers/0/id: must be a broker\'s id, not "1"'),
        ("brokers/0/id", True, "/brokers/0/id: must be a broker's id, not true"),
        ("brokers/0/id", 2, "broker 2 is listed twice"),
        ("brokers/0/rack", DROP, "1 have no rack and the others have one"),
        ("brokers/0/rack", 7, "/brokers/0/rack: must be a name"),
        ("target_brokers", [1, 2, 9], "/target_brokers: 9 not among the cluster's brokers 1, 2, 3, 4"),
        ("target_brokers", [], "/target_brokers: is empty"),
        ("partitions", DROP, "/partitions: is missing"),
        ("partitions/1/topic", "", "/partitions/1/topic: must be a topic's name"),
        ("partitions/1/partition", 0, "orders-0 is listed twice, first at /partitions/0"),
        ("partitions/1/partition", -1, "/partitions/1/partition: must be a partition's number of 0 or more"),
        # JSON that was edited by hand, or went through a tool.
        ("partitions/1/partition", 1.0, "not the floating-point number 1.0; write 1"),
        ("partitions/1/partition", 1.5, "/partitions/1/partition: must be a partition's number, not 1.5"),
        (
            "partitions/1/replicas",
            [1.0, 2, 3],
            "/partitions/1/replicas/0: must be a broker's id, not the float",
        ),
        ("partitions/1/replicas", [1, 2, 1], "orders-1 names a broker twice: [1, 2, 1]"),
        ("partitions/1/replicas", [], "orders-1 has no replica"),
        ("partitions/1/size_bytes", "10", "/partitions/1/size_bytes: must be a number of bytes"),
        ("replication_factor", 0, "/replication_factor: must be 1 or more"),
        ("replication_factor", {"order": 2}, "/replication_factor: there is no topic order"),
        ("excluded_topics", ["order"], "/excluded_topics: there is no topic order"),
        ("no_leaders", [9], "/no_leaders: 9 not among the cluster's brokers"),
        # Not a string, although it reads like a topic's name.
        ("excluded_topics", [7], "/excluded_topics/0: must be a topic's name, not 7"),
        ("excluded_topics", ["7", ["a"]], '/excluded_topics/1: must be a topic\'s name, not ["a"]'),
        ("excluded_topics", "orders", "/excluded_topics: must be a list"),
        ("partitions/1/topic", 7, "/partitions/1/topic: must be a topic's name, not 7"),
        ("target_brokers", [1, True], "/target_brokers/1: must be a broker's id, not true"),
        ("no_leaders", [1.0], "/no_leaders/0: must be a broker's id, not the floating-point number 1.0"),
        ("replication_factor", "3", '/replication_factor: must be a whole number, not "3"'),
        ("replication_factor", {"orders": 0}, "/replication_factor/orders: must be 1 or more"),
        ("replication_factor", 2**31, "/replication_factor: must be a whole number of at most 2147483647"),
        # Kafka stores a broker's id in 32 bits everywhere.
        ("brokers/3/id", 2**31, "/brokers/3/id: must be a broker's id of at most 2147483647"),
        ("target_brokers", [2**31], "/target_brokers/0: must be a broker's id of at most 2147483647"),
        ("no_leaders", [2**31], "/no_leaders/0: must be a broker's id of at most 2147483647"),
        ("partitions/1/replicas", [2**31], "/partitions/1/replicas/0: must be a broker's id of at most 2147"),
        ("partitions/1/size_bytes", 2**62 + 1, "/partitions/1/size_bytes: must be a number of bytes of at most"),
        # Unknown names.
        ("target_broker", [1, 2], "/target_broker: unknown field; did you mean target_brokers?"),
        ("exclude_topics", ["orders"], "/exclude_topics: unknown field; did you mean excluded_topics?"),
        ("x", 1, "/x: unknown field; known fields: brokers, target_brokers, partitions, replication_factor"),
        ("brokers/0/racks", "az1", "/brokers/0/racks: unknown field; did you mean rack?"),
        ("partitions/1/sizebytes", 7, "/partitions/1/sizebytes: unknown field; did you mean size_bytes?"),
        ("partitions/1/leader", 2, "/partitions/1/leader: unknown field; known fields: topic, partition"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(path: str, value: Any, told: str) -> None:
    asked = changed("partitions/3/topic", "7")
    read_problem(asked)
    with pytest.raises(PlacementInvalid) as refused:
        read_problem(changed(path, value, asked))
    assert told in str(refused.value)


def test_partitions_are_read_as_kafkas_tool_lists_them() -> None:
    asked = changed("partitions/1/log_dirs", ["any", "any", "any"])
    assert make(read_problem(asked)).document() == make(read_problem(GOOD)).document()


def test_a_question_for_brokers_alone_is_read_with_the_same_care() -> None:
    assert len(read_brokers(GOOD).broker_ids) == len(GOOD["brokers"])
    with pytest.raises(PlacementInvalid, match=r"/broker: unknown field; did you mean brokers\?"):
        read_brokers({"broker": GOOD["brokers"]})


@pytest.mark.parametrize("document", [None, 1, [], "brokers"])
def test_what_is_no_question_is_refused(document: object) -> None:
    with pytest.raises(PlacementInvalid, match="must be an object"):
        read_problem(document)


def test_fewer_brokers_than_replicas_leave_partitions_as_they_are() -> None:
    asked = changed("target_brokers", [1, 2])
    asked["partitions"].append({"topic": "small", "partition": 0, "replicas": [3]})
    found = make(read_problem(asked)).document()
    (told,) = found["violations"]
    assert (told["constraint"], told["count"]) == ("replication-factor", 4)
    assert told["partitions"] == [f"orders-{number}" for number in range(4)]
    assert (
        "3 replicas need 3 brokers, and only 2 may hold replicas" in told["detail"]
        and "lower the replication factor to 2" in told["detail"]
    )
    rows = {(each["topic"], each["partition"]): each["replicas"] for each in found["partitions"]}
    assert all(rows["orders", number] == [1, 2, 3] for number in range(4))
    assert (found["moves"], len(rows["small", 0]), rows["small", 0] == [3]) == (1, 1, False), (
        "this one can be moved"
    )


def test_replicas_on_brokers_that_are_gone_are_copied_from_the_others() -> None:
    asked = changed("partitions/0/replicas", [77, 2, 3])
    found = make(read_problem(asked)).document()
    assert found["violations"] == [] and "(77)" in found["notes"][0]
    assert all(77 not in each["replicas"] for each in found["partitions"])
    assert "77" not in found["replicas_per_broker"]


@pytest.mark.parametrize(
    ("rack", "told"), [("az1", "no placement survives the loss of that rack"), (None, "no broker has a rack")]
)
def test_one_rack_and_none_are_told(rack: str | None, told: str) -> None:
    asked = {**GOOD, "brokers": [{"id": each, "rack": rack} for each in RACKS]}
    found = make(read_problem(asked)).document()
    assert told in found["notes"][0] and found["violations"] == []
    assert set(found["replicas_per_broker"].values()) == {3}


def test_a_question_is_answered_the_same_whatever_its_order() -> None:
    turned = {name: list(reversed(value)) for name, value in GOOD.items()}
    assert make(read_problem(turned)).document() == make(read_problem(GOOD)).document()


def test_the_digest_is_of_what_was_asked_and_what_came_out() -> None:
    digest = make(read_problem(GOOD)).digest
    for path, value in (
        ("partitions/3/replicas", [1, 3, 2]),
        ("brokers/3/rack", "az2"),
        ("target_brokers", [1, 2, 3]),
    ):
        assert make(read_problem(changed(path, value))).digest != digest


def test_moved_bytes_are_right_however_many_they_are() -> None:
    asked = changed("target_brokers", [1, 2, 4])
    for row in asked["partitions"]:
        row["size_bytes"] = 2**62
    found = make(read_problem(asked)).document()
    assert (found["moves"], found["moved_bytes"]) == (4, 4 * 2**62)


def test_kafkas_tool_is_given_what_changes() -> None:
    asked = changed("partitions/1/replicas", [4, 2, 3])
    plan = make(read_problem(asked))
    document = reassignment(plan.problem, plan.replicas)
    before = {each["partition"]: each["replicas"] for each in asked["partitions"]}
    after = {each["partition"]: each["replicas"] for each in plan.document()["partitions"]}
    assert document["version"] == 1
    told = {each["partition"]: each["replicas"] for each in document["partitions"]}
    assert told == {number: row for number, row in after.items() if row != before[number]} and told
