"""Plans for a real cluster of three brokers: read by a worker, computed by a process, and stored."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.queries.placement.placements import requested_placements
from tests.eventually import eventually
from tests.kafka.placement.planner import Made
from tests.nightly import some_now
from tests.support.kafka.three_brokers import Brokers
from workers.placement.planning import compute


@pytest.fixture
def topic(brokers: Brokers) -> str:
    """Create six partitions of two replicas, all led by broker 1."""
    name = f"plans.{secrets.token_hex(4)}"
    brokers.create(name, [[1, 2]] * 6)
    return name


@pytest.mark.parametrize(
    "spark_from", [300_000, pytest.param(0, marks=pytest.mark.nightly)], ids=["alone", "on Spark"]
)
def test_what_is_uneven_is_evened_with_the_fewest_moves(make_planner: Made, topic: str, spark_from: int) -> None:
    planner = make_planner(placement_spark_replicas=spark_from)
    found = planner.plan()
    assert (found["state"], found["reason"]) == ("planned", None), found
    summary, plan = found["summary"], found["plan"]
    assert summary["moves"] == summary["lower_bound"] > 0 and summary["violations"] == {}
    for counts in (plan["replicas_per_broker"], plan["leaders_per_broker"]):
        assert max(counts.values()) - min(counts.values()) <= 1, counts
    assert plan["digest"] == found["digest"]
    moved, back = planner.reassignment(found["id"]), planner.reassignment(found["id"], "present")
    mine = [place for place in moved if place[0] == topic]
    assert mine and moved.keys() == back.keys()
    assert all(back[place] == [1, 2] != moved[place] for place in mine)


def test_what_two_processes_compute_is_kept_of_the_faster_one(make_planner: Made, topic: str) -> None:
    planner = make_planner()
    asked = planner.rest("POST", "/placements", {"cluster": "east"}).json()
    services = planner.rest.client.app.state.services  # type: ignore[attr-defined]
    with services.engine.connect() as connection:
        (row,) = requested_placements(connection)
    compute(services.engine, services.config, row)
    first = planner.rest("GET", f"/placements/{asked['id']}").json()
    assert first["state"] == "planned" and first["plan"]["digest"] == first["digest"]
    # The cluster has changed when the slower process reads it.
    planner.move(topic)
    compute(services.engine, services.config, row)
    assert planner.rest("GET", f"/placements/{asked['id']}").json() == first


@some_now(
    "wish, told",
    [
        ({"target_brokers": [1, 77]}, "/target_brokers: 77 not among the cluster's brokers 1, 2, 3"),
        ({"excluded_topics": ["nothing"]}, "/excluded_topics: there is no topic nothing"),
        ({"replication_factor": {"nothing": 2}}, "/replication_factor: there is no topic nothing"),
    ],
    now=(0,),
)
def test_a_wish_that_does_not_fit_the_cluster_is_explained(
    make_planner: Made, topic: str, wish: dict[str, Any], told: str
) -> None:
    found = make_planner().plan(**wish)
    assert (found["state"], found["reason"], found["plan"]) == ("failed", told, None)


@pytest.mark.nightly  # test_request_document has the violation
def test_more_replicas_than_brokers_leave_everything_where_it_is(make_planner: Made, topic: str) -> None:
    planner = make_planner()
    found = planner.plan(replication_factor={topic: 4})
    assert found["state"] == "planned" and found["summary"]["violations"] == {"replication-factor": 6}
    (violation,) = found["plan"]["violations"]
    assert "4 replicas need 4 brokers, and only 3 may hold replicas" in violation["detail"]
    assert not [place for place in planner.reassignment(found["id"]) if place[0] == topic]


@pytest.mark.nightly
def test_a_broker_that_is_away_has_to_be_spoken_of(
    make_planner: Made, topic: str, brokers: Brokers, admin: ReplicaAdmin
) -> None:
    planner = make_planner()
    brokers.kill(3)
    eventually(lambda: not admin.read().brokers[3].is_here, "it is told to be gone")
    assert "brokers are unavailable (3): start them, or set target_brokers" in planner.plan()["reason"]
    assert planner.plan(target_brokers=[1, 3])["reason"] == (
        "target_brokers lists unavailable brokers (3): start them, or leave them out"
    )
    found = planner.plan(target_brokers=[1, 2])
    assert found["state"] == "planned", found
    assert all(3 not in row for row in planner.reassignment(found["id"]).values())


@pytest.mark.nightly
def test_a_cluster_that_does_not_answer_is_named(make_planner: Made) -> None:
    planner = make_planner()
    planner.rest.add_clusters("west")  # where nobody listens
    found = planner.plan(cluster="west")
    assert found["state"] == "failed" and "west" in found["reason"], found
