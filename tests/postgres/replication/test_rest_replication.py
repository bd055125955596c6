"""Replication over REST, with no cluster answering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend import deciders
from backend.domain.clusters.cluster import RecordOffline, RecordOnline
from backend.queries.replication.replication import find_topics, store_health
from tests.eventually import eventually
from tests.support.api.rest import Rest, problem
from tests.support.api.shell import shell_of
from tests.support.api.streams import worker_records
from tests.support.database.postgres import Database
from workers.replication import ReplicationHost

SEEN: dict[str, Any] = {"topics": 1, "alerts": [{"alert": "broker-away"}]}


@pytest.fixture
def cluster(cluster: Rest) -> Rest:
    """Return c1, which was online a moment ago and is unreachable."""
    worker_records(cluster, RecordOnline(kafka_cluster_id="K1", brokers=3), deciders.CLUSTER, "cluster-c1")
    return cluster


def see(database: Database, kafka_cluster_id: str = "K1") -> None:
    with database.engine.begin() as connection:
        store_health(connection, kafka_cluster_id, SEEN)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "replication"), ("POST", "elect-preferred-leaders")],
)
def test_a_cluster_that_is_not_known_is_told(rest: Rest, method: str, path: str) -> None:
    for name in ("nowhere", "NO%20NAME"):
        problem(rest(method, f"/clusters/{name}/{path}"), 404, "not-found")


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_a_cluster_that_does_not_answer_is_named_and_nothing_is_recorded(cluster: Rest, query: str) -> None:
    head = cluster.head()
    answer = cluster("POST", f"/clusters/c1/elect-preferred-leaders{query}")
    assert "c1: " in problem(answer, 503, "cluster-silent")["detail"]
    assert answer.headers["Retry-After"] and cluster.head() == head


@pytest.mark.parametrize(
    "body", [{"topics": []}, {"topics": ["t"] * 1001}, {"topics": "t"}, {"topic": ["t"]}, {"topics": [1]}]
)
def test_a_wish_that_makes_no_sense_is_refused_before_anybody_is_asked(
    cluster: Rest, body: dict[str, Any]
) -> None:
    problem(cluster("POST", "/clusters/c1/elect-preferred-leaders", body), 422, "invalid")


def test_who_has_seen_another_description_elects_nothing(cluster: Rest) -> None:
    answer = cluster("POST", "/clusters/c1/elect-preferred-leaders", None, If_Match='"7"')
    problem(answer, 412, "stale-version")


def test_what_was_seen_is_told_with_its_age_and_why_it_is_no_newer(cluster: Rest, database: Database) -> None:
    see(database)
    found = cluster("GET", "/clusters/c1/replication").json()
    assert (found["alerts"], found["health"]) == (SEEN["alerts"], {"topics": 1})
    assert found["age_seconds"] >= 0 and (found["state"], found["reason"]) == ("online", None)
    worker_records(cluster, RecordOffline(reason="nobody answers"), deciders.CLUSTER, "cluster-c1")
    later = cluster("GET", "/clusters/c1/replication").json()
    assert (later["state"], later["reason"], later["health"]) == ("offline", "nobody answers", {"topics": 1})
    assert later["age_seconds"] > found["age_seconds"]


def test_what_was_seen_of_another_cluster_is_not_told(cluster: Rest, database: Database) -> None:
    see(database, "K2")
    assert cluster("GET", "/clusters/c1/replication").json()["health"] is None


@pytest.mark.nightly  # a cluster that does not answer stays
def test_a_look_that_fails_leaves_what_was_seen_before_and_says_why(cluster: Rest, database: Database) -> None:
    see(database)
    see(database, "K2")
    services = cluster.client.app.state.services  # type: ignore[attr-defined]
    host = ReplicationHost(database.engine, services.config)

    def told() -> dict[str, Any] | None:
        host.tick()
        found: dict[str, Any] = cluster("GET", "/clusters/c1/replication").json()
        return found if found["reason"] else None

    found = eventually(told, "it is told that the cluster does not answer")
    assert "c1: " in found["reason"] and found["health"] == {"topics": 1}
    # Nothing is kept of a cluster that is not known any more.
    body = {"name": "c2", "bootstrap_servers": "127.0.0.1:9", "accept_offline": True}
    assert cluster("POST", "/clusters", body).status_code == 201
    worker_records(cluster, RecordOnline(kafka_cluster_id="K2", brokers=1), deciders.CLUSTER, "cluster-c2")
    assert cluster("GET", "/clusters/c2/replication").json()["health"] is None


def test_single_topics_are_kept_and_not_told(cluster: Rest, database: Database) -> None:
    topic = {"fewest": 1, "most": 1, "moving": False, "min_insync_replicas": 1, "unclean_election": False}
    with database.engine.begin() as connection:
        store_health(connection, "K1", {**SEEN, "declared_topics": {"a.topic": topic}})
        (seen,) = find_topics(connection, {"c1": ("K1", "a.topic")}).values()
    assert seen[0].fewest == 1
    assert cluster("GET", "/clusters/c1/replication").json()["health"] == {"topics": 1}


def test_the_command_counts_one_of_each_as_one(cluster: Rest, database: Database, tmp_path: Path) -> None:
    quiet = {"count": 0, "examples": []}
    names = ("without_leader", "under_replicated", "under_min_isr", "down_to_min_isr", "not_preferred", "moving")
    one = {"count": 1, "examples": ["t-0"]}
    health = {
        "topics": 1,
        "partitions": 1,
        "brokers": [{"id": 1}],
        "away": quiet,
        "conditions": {**dict.fromkeys(names, quiet), "unreplicated": one},
        "alerts": [],
    }
    with database.engine.begin() as connection:
        store_health(connection, "K1", health)
    with shell_of(database.url, tmp_path) as shell:
        said = shell("replication", "show", "c1").stderr
    assert "1 broker, 1 topic, 1 partition\nof these 1 with replication factor 1\n" in said
