"""Execution of placements by a worker on three real brokers, over REST as an operator does it."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from backend.kafka.admin.replica_admin import ReplicaAdmin
from tests.eventually import eventually
from tests.kafka.placement.driving import MANY, SLOW_BYTES_PER_SECOND, fill
from tests.kafka.placement.planner import Made, Planner
from tests.support.kafka.kafka_tools import REASSIGN, tool
from tests.support.kafka.three_brokers import Brokers, all_rates
from tests.support.kafka.topics import configure

SLOW = {"bytes_per_second": SLOW_BYTES_PER_SECOND}


@pytest.fixture
def topic(brokers: Brokers) -> str:
    """Create three partitions of two replicas, all led by broker 1."""
    name = f"runs.{secrets.token_hex(4)}"
    brokers.create(name, [[1, 2]] * 3)
    return name


def replicas_of(admin: ReplicaAdmin, topic: str) -> list[tuple[int, ...]]:
    admin.ongoing()
    found = admin.read().partitions
    return [found[place].replicas for place in sorted(found) if place[0] == topic]


def refused(planner: Planner, placement: str, word: str, **body: Any) -> tuple[int, str]:
    """Return (status, slug) of a problem."""
    answer = planner.rest("POST", f"/placements/{placement}/{word}", body or None)
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_a_plan_is_applied_and_taken_back(
    make_planner: Made, topic: str, brokers: Brokers, admin: ReplicaAdmin
) -> None:
    planner = make_planner()
    plan = planner.plan_for(topic, 3)
    assert plan["summary"]["moves"] == 3 and (plan["run"], plan["now"]) == (0, None)
    planner.apply(plan, bytes_per_second=50_000_000, moves_per_broker=1)
    found = planner.over(plan["id"])
    assert (found["state"], found["reason"], found["run"]) == ("applied", None, 1), found
    report = found["report"]
    assert (report["partitions"], report["arrived"]) == (3, 3)
    assert all(report[what]["count"] == 0 for what in ("gone", "changed_by_others", "grown", "not_led"))
    planned = planner.reassignment(plan["id"])
    assert replicas_of(admin, topic) == [tuple(planned[topic, at]) for at in range(3)]
    assert all(admin.read().partitions[topic, at].leader == planned[topic, at][0] for at in range(3))
    assert all(rates == {} for rates in all_rates(brokers).values()), "the throttle is gone"
    assert refused(planner, plan["id"], "apply", digest=plan["digest"]) == (409, "state-conflict")
    assert planner.say(plan["id"], "rollback")["state"] == "rolling-back"
    back = planner.over(plan["id"])
    assert (back["state"], back["run"], back["limits"]["bytes_per_second"]) == ("rolled-back", 2, 50_000_000)
    assert replicas_of(admin, topic) == [(1, 2)] * 3
    assert all(admin.read().partitions[topic, at].leader == 1 for at in range(3)), "leaders, too"
    planner.apply(plan)
    assert planner.over(plan["id"])["state"] == "applied", "it may be applied once more"


# Carried out and taken back as the plan of the first test; handing in stays in the test of one that does not
# fit.
@pytest.mark.nightly
def test_a_reassignment_that_is_handed_in_is_carried_out_and_taken_back(
    make_planner: Made, topic: str, brokers: Brokers, admin: ReplicaAdmin, tmp_path: Path
) -> None:
    planner = make_planner()
    wanted = [[3, 2], [2, 1], [1, 2, 3]]
    rows = [{"topic": topic, "partition": at, "replicas": row} for at, row in enumerate(wanted)]
    plan = planner.plan(reassignment={"version": 1, "partitions": rows})
    assert (plan["state"], plan["given"], plan["summary"]["moves"]) == ("planned", 3, 2), plan
    moves = tmp_path / "moves.json"
    moves.write_text(json.dumps(planner.rest("GET", f"/placements/{plan['id']}/reassignment").json()))
    planner.apply(plan)
    assert planner.over(plan["id"])["state"] == "applied"
    assert replicas_of(admin, topic) == [tuple(row) for row in wanted]
    assert all(admin.read().partitions[topic, at].leader == wanted[at][0] for at in range(3))
    said = tool(
        REASSIGN,
        *("--bootstrap-server", brokers.servers, "--reassignment-json-file", str(moves)),
        *("--verify", "--preserve-throttles"),
    )
    assert len([line for line in said if "is completed" in line]) == 3, said
    planner.say(plan["id"], "rollback")
    assert planner.over(plan["id"])["state"] == "rolled-back"
    assert replicas_of(admin, topic) == [(1, 2)] * 3


def test_a_reassignment_that_does_not_fit_the_cluster_is_explained_and_moves_nothing(
    make_planner: Made, topic: str, brokers: Brokers, admin: ReplicaAdmin
) -> None:
    planner = make_planner()

    def reason(*rows: dict[str, Any]) -> str:
        found = planner.plan(reassignment={"version": 1, "partitions": list(rows)})
        assert (found["state"], found["plan"]) == ("failed", None), found
        return str(found["reason"])

    def row(number: int, *replicas: int, name: str = topic) -> dict[str, Any]:
        return {"topic": name, "partition": number, "replicas": list(replicas)}

    assert f"/partitions/1: the cluster has no partition {topic}-3" in reason(row(0, 2, 1), row(3, 1, 2))
    assert "/partitions/0: the cluster has no topic nothing" in reason(row(0, 1, name="nothing"))
    assert "/partitions/0/replicas: 8 not among the cluster's brokers 1, 2, 3" in reason(row(0, 1, 8))
    configure(brokers.servers, topic, {"min.insync.replicas": "2"})
    told = reason(row(0, 2, 1), row(1, 1))
    assert (
        f"fewer replicas than min.insync.replicas ({topic}-1: 1 of 2)" in told
        and "lower min.insync.replicas first" in told
    )
    brokers.kill(3)
    eventually(lambda: not admin.read().brokers[3].is_here, "it is told to be gone")
    assert f"replicas would be placed on unavailable brokers ({topic}-0: broker 3): start them first" in reason(
        row(0, 1, 3)
    )
    assert replicas_of(admin, topic) == [(1, 2)] * 3


@pytest.mark.nightly
def test_a_plan_that_leaves_no_broker_that_may_be_away_says_so(
    make_planner: Made, topic: str, brokers: Brokers
) -> None:
    planner = make_planner()
    configure(brokers.servers, topic, {"min.insync.replicas": "3"})
    told = f"topics get only as many replicas as min.insync.replicas ({topic}): while one of their brokers"
    for more, is_told in (([1, 2, 3], True), ([2, 1], False)):
        rows = [{"topic": topic, "partition": 0, "replicas": more}]
        found = planner.plan(reassignment={"version": 1, "partitions": rows})
        assert any(note.startswith(told) for note in found["plan"]["notes"]) is is_told, found["plan"]["notes"]
    assert any(note.startswith(told) for note in planner.plan_for(topic, 3)["plan"]["notes"]), (
        "a computed one, too"
    )


# Pause, resume and cancel: test_placement_runs; on brokers, taken back in the middle: test_carrying_out.
@pytest.mark.nightly
def test_one_is_paused_goes_on_and_is_cancelled(
    make_planner: Made, topic: str, brokers: Brokers, admin: ReplicaAdmin
) -> None:
    for at in range(3):
        fill(brokers.servers, topic, at, MANY)
    planner = make_planner()
    plan = planner.plan_for(topic, 3)
    planner.apply(plan, **SLOW, partitions_at_once=1)
    row = planner.until(plan["id"], "one moves", lambda row: (row["now"] or {}).get("moves_in_flight") == 1)
    assert (row["now"]["moves_done"], row["now"]["moves_left"], row["now"]["failing"]) == (0, 2, None)
    assert all_rates(brokers)[3] != {}, "it is throttled"
    assert planner.say(plan["id"], "pause")["state"] == "paused"
    # Ongoing moves continue, faster now; no others begin.
    planner.apply(plan, bytes_per_second=None, partitions_at_once=3)
    row = planner.until(plan["id"], "the one has come", lambda row: row["now"]["moves_done"] == 1)
    assert (row["state"], row["now"]["moves_in_flight"], row["now"]["moves_left"]) == ("paused", 0, 2)
    assert sorted(len(each) for each in replicas_of(admin, topic)) == [2, 2, 3]
    planner.apply(plan, **SLOW, partitions_at_once=3)
    planner.say(plan["id"], "resume")
    planner.until(plan["id"], "the others move", lambda row: row["now"]["moves_in_flight"] == 2)
    assert planner.say(plan["id"], "cancel")["state"] == "cancelling"
    assert planner.over(plan["id"])["state"] == "cancelled"
    assert admin.ongoing() == {}
    assert sorted(len(each) for each in replicas_of(admin, topic)) == [2, 2, 3], "what had come stays"
    assert all(rates == {} for rates in all_rates(brokers).values())
    planner.say(plan["id"], "rollback", bytes_per_second=None)
    assert planner.over(plan["id"])["state"] == "rolled-back"
    assert [sorted(each) for each in replicas_of(admin, topic)] == [[1, 2]] * 3


@pytest.mark.nightly
def test_another_worker_goes_on_where_one_has_stopped(
    make_planner: Made, topic: str, brokers: Brokers, admin: ReplicaAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new worker also finds and removes the throttle, because it was stored before it was set."""
    for at in range(3):
        fill(brokers.servers, topic, at, MANY)
    planner = make_planner()
    plan = planner.plan_for(topic, 3)
    planner.apply(plan, **SLOW)
    planner.until(plan["id"], "they move", lambda row: (row["now"] or {}).get("moves_in_flight") == 3)
    with monkeypatch.context() as patched:
        planner.stop(patched)
        assert all_rates(brokers)[3] != {}
    # A new thread knows nothing of the previous one.
    planner.apply(plan, bytes_per_second=None)
    assert planner.over(plan["id"])["state"] == "applied"
    assert all(rates == {} for rates in all_rates(brokers).values())


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("deleted", "topics were deleted ({topic})"),
        pytest.param("grown", "topics have more partitions ({topic}-3)", marks=pytest.mark.nightly),
        pytest.param(
            "moved", "replicas are elsewhere than when the plan was made ({topic}-0)", marks=pytest.mark.nightly
        ),
        pytest.param("away", "brokers that are to get replicas are unavailable (3)", marks=pytest.mark.nightly),
    ],
)
def test_a_cluster_that_is_another_one_is_left_as_it_is(
    make_planner: Made, topic: str, brokers: Brokers, admin: ReplicaAdmin, what: str, told: str
) -> None:
    planner = make_planner()
    plan = planner.plan_for(topic, 3)
    brokers.change(what, topic)
    planner.apply(plan)
    found = planner.over(plan["id"])
    assert found["state"] == "planned" and "east has changed since the plan was made" in found["reason"], found
    assert told.format(topic=topic) in found["reason"]
    assert admin.ongoing() == {} and all(3 not in each for each in replicas_of(admin, topic)[:3])
    if what != "away":
        assert all(rates == {} for rates in all_rates(brokers).values())


@pytest.mark.nightly  # test_placement_runs refuses the second; test_drift sees the moved replicas
def test_of_two_plans_one_is_applied(make_planner: Made, topic: str, brokers: Brokers) -> None:
    fill(brokers.servers, topic, 0, MANY)
    planner = make_planner()
    first, second = planner.plan_for(topic, 3), planner.plan_for(topic, 3)
    planner.apply(first, **SLOW)
    planner.until(first["id"], "it moves", lambda row: (row["now"] or {}).get("moves_in_flight", 0) > 0)
    answer = planner.rest("POST", f"/placements/{second['id']}/apply", {"digest": second["digest"]})
    assert answer.status_code == 409 and f"placement {first['id']} is moving replicas of east" in answer.text
    assert f"placement {first['id']} is applying" in planner.plan()["reason"], "nor is anything planned meanwhile"
    planner.apply(first, bytes_per_second=None)
    assert planner.over(first["id"])["state"] == "applied"
    planner.apply(second)
    found = planner.over(second["id"])
    assert found["state"] == "planned" and "replicas are elsewhere" in found["reason"]


@pytest.mark.nightly
def test_a_topic_that_is_deleted_on_the_way_is_named(make_planner: Made, topic: str, brokers: Brokers) -> None:
    fill(brokers.servers, topic, 0, MANY)
    planner = make_planner()
    plan = planner.plan_for(topic, 3)
    planner.apply(plan, **SLOW)
    planner.until(plan["id"], "it moves", lambda row: (row["now"] or {}).get("moves_in_flight", 0) > 0)
    brokers.change("deleted", topic)
    found = planner.over(plan["id"])
    assert (found["state"], found["report"]["gone"]["count"]) == ("applied", 3), found
    assert f"{topic}-0" in found["report"]["gone"]["examples"]
    assert all(rates == {} for rates in all_rates(brokers).values())


def test_what_cannot_be_meant_is_refused(make_planner: Made, topic: str) -> None:
    planner = make_planner()
    plan = planner.plan_for(topic, 3)
    one, digest = plan["id"], plan["digest"]
    assert refused(planner, one, "apply", digest="0" * 32) == (409, "plan-stale")
    assert refused(planner, one, "apply") == (422, "invalid")
    assert refused(planner, one, "apply", digest=digest, moves_per_broker=0) == (422, "invalid")
    assert refused(planner, one, "apply", digest=digest, bytes_per_second=-1) == (422, "invalid")
    for word in ("pause", "resume", "cancel", "rollback"):
        assert refused(planner, one, word) == (409, "state-conflict"), word
        assert refused(planner, "nobody", word) == (404, "not-found"), word
    failed = planner.plan(target_brokers=[77])
    assert refused(planner, failed["id"], "apply", digest=digest) == (409, "state-conflict")
