"""REST on real Kafka clusters: reachability, one cluster added twice, and streams with records."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import httpx2
import pytest
from confluent_kafka import Producer

from tests.eventually import eventually
from tests.support.api import http
from tests.support.api.rest import NOBODY_LISTENS, problem
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import create_topic, produce, read_all

STREAM = "/tenants/acme/instances/retail/environments/prod/streams"


@pytest.fixture
def api(estate: RunningEstate) -> Iterator[httpx2.Client]:
    """A client of the estate's control plane, below /api/v1."""
    headers = {"Authorization": f"Bearer {estate.token}"}
    with http.client(base_url=f"{estate.url}/api/v1", headers=headers) as client:
        yield client


def test_clusters_that_answer_are_online_with_their_kafka_ids(api: httpx2.Client) -> None:
    rows = api.get("/clusters").json()["items"]
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["state"] for row in rows} == {"online"}
    assert len({row["kafka_cluster_id"] for row in rows}) == len(rows)


def test_the_same_kafka_cluster_twice_is_409(api: httpx2.Client) -> None:
    first = api.get("/clusters/cluster-1").json()
    for offline in (False, True):
        body = {"name": "twin", "bootstrap_servers": first["bootstrap_servers"], "accept_offline": offline}
        refused = problem(api.post("/clusters", json=body), 409, "state-conflict")
        assert "cluster-1" in refused["detail"]


def test_another_kafka_cluster_behind_a_known_name_is_409(api: httpx2.Client) -> None:
    other = api.get("/clusters/cluster-2").json()["bootstrap_servers"]
    problem(api.patch("/clusters/cluster-1", json={"bootstrap_servers": other}), 409, "state-conflict")


def test_nobody_at_the_address_is_422_and_a_new_address_of_the_same_cluster_is_taken(api: httpx2.Client) -> None:
    body = {"name": "nobody", "bootstrap_servers": NOBODY_LISTENS}
    problem(api.post("/clusters", json=body), 422, "cluster-unreachable")
    problem(
        api.patch("/clusters/cluster-1", json={"bootstrap_servers": NOBODY_LISTENS}), 422, "cluster-unreachable"
    )
    before = api.get("/clusters/cluster-1").json()["bootstrap_servers"]
    port = before.rpartition(":")[2]
    moved = {"bootstrap_servers": f"localhost:{port}"}
    # A dry run: others use this estate at the same time.
    answer = api.patch("/clusters/cluster-1", params={"dry_run": True}, json=moved)
    assert (answer.status_code, answer.json()["bootstrap_servers"]) == (200, moved["bootstrap_servers"])


def test_a_stream_with_records_is_deleted_only_on_confirmation_and_can_come_again(
    api: httpx2.Client, estate: RunningEstate
) -> None:
    def is_applied() -> bool:
        return set(api.get(f"{STREAM}/short-lived").json()["applied"].values()) == {"applied"}

    assert api.post(STREAM, json={"name": "short-lived", "partitions": 2}).status_code == 201
    eventually(is_applied, "the topics exist everywhere")
    found = api.get(f"{STREAM}/short-lived").json()
    assert set(found["incarnations"].values()) == {1}
    producer = Producer({"bootstrap.servers": estate.bootstrap_servers("cluster-1")})
    producer.produce(found["technical_names"]["cluster-1"], b"value")
    assert producer.flush(30) == 0
    refused = problem(api.delete(f"{STREAM}/short-lived"), 409, "state-conflict")
    assert "cluster-1" in refused["detail"]
    name = "acme/retail/prod/short-lived"
    assert api.delete(f"{STREAM}/short-lived", params={"confirm": name}).status_code == 204
    eventually(
        lambda: api.post(STREAM, json={"name": "short-lived", "partitions": 2}).status_code == 201,
        "the topics are gone everywhere",
    )
    eventually(is_applied, "the topics exist everywhere")
    assert set(api.get(f"{STREAM}/short-lived").json()["incarnations"].values()) == {2}
    assert api.delete(f"{STREAM}/short-lived").status_code == 204


def test_records_are_taken_away_by_a_change_only_on_confirmation(
    api: httpx2.Client, estate: RunningEstate
) -> None:
    stream, shorter = f"{STREAM}/kept-for-long", {"retention_ms": 86_400_000}
    assert api.post(STREAM, json={"name": "kept-for-long"}).status_code == 201
    eventually(
        lambda: set(api.get(stream).json()["applied"].values()) == {"applied"}, "the topics exist everywhere"
    )
    assert api.patch(stream, json=shorter).status_code == 200, "nobody has written anything"
    topic = api.get(stream).json()["technical_names"]["cluster-2"]
    produce(estate.bootstrap_servers("cluster-2"), topic, [{"value": b"x"}])
    refused = problem(api.patch(stream, json={"retention_ms": 3_600_000}), 409, "state-conflict")
    assert "cluster-2" in refused["detail"]
    assert api.patch(stream, json={"retention_ms": 90_000_000}).status_code == 200, "longer takes nothing away"
    confirmed = {"confirm": "acme/retail/prod/kept-for-long"}
    assert api.patch(stream, json={"cleanup_policy": "compact"}, params=confirmed).status_code == 200
    assert api.delete(stream, params=confirmed).status_code == 204


# Records of an adopted topic: test_rest_stream_removal, test_a_stream_with_records stays on real clusters.
@pytest.mark.nightly
def test_a_topic_that_was_there_before_is_never_lost_with_its_stream_without_a_word(
    api: httpx2.Client, estate: RunningEstate
) -> None:
    servers = estate.bootstrap_servers("cluster-1")
    names = [f"legacy{number}-{secrets.token_hex(3)}" for number in range(6)]
    for name in names:
        create_topic(servers, f"acme-retail-prod-{name}", retention_ms="-1")
        produce(servers, f"acme-retail-prod-{name}", [{"value": b"x"}] * 5)
    for number, name in enumerate(names):
        assert api.post(STREAM, json={"name": name, "retention_ms": -1}).status_code == 201
        # Before, while and after workers find the topic.
        time.sleep(0.3 * number)
        refused = problem(api.delete(f"{STREAM}/{name}"), 409, "state-conflict")
        assert "cluster-1" in refused["detail"]
    assert all(len(read_all(servers, f"acme-retail-prod-{name}")) == 5 for name in names)
    for name in names:
        confirmed = api.delete(f"{STREAM}/{name}", params={"confirm": f"acme/retail/prod/{name}"})
        assert confirmed.status_code == 204


def test_a_factor_above_the_brokers_is_declared_and_said(api: httpx2.Client) -> None:
    body = {"name": "wide", "replication_factor": 3}
    clusters = {row["name"]: row["brokers"] for row in api.get("/clusters").json()["items"]}
    made = api.post(STREAM, json=body).json()
    assert made["under_provisioned"] == [name for name, brokers in clusters.items() if brokers < 3]
    assert api.delete(f"{STREAM}/wide", params={"confirm": "acme/retail/prod/wide"}).status_code == 204
