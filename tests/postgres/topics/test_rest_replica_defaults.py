"""Replicas of streams that declare none: each cluster's default, shown before and after."""

from __future__ import annotations

import sqlalchemy as sa

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.topics.replica_defaults import ReplicaDefaults, Replicas, replicas_for
from tests.support.api.rest import Rest, problem, rest_settings
from tests.support.api.streams import PROD, worker_records
from tests.support.database.postgres import Database
from workers.topics import desired_topics


def test_replicas_that_are_not_declared_are_each_clusters_default(tenant: Rest) -> None:
    for cluster, brokers in (("c1", 3), ("c2", 1)):
        online = RecordOnline(kafka_cluster_id=cluster, brokers=brokers)
        worker_records(tenant, online, CLUSTER, f"cluster-{cluster}")
    streams = f"{PROD}/streams"
    dry = tenant("POST", f"{streams}?dry_run=true", {"name": "orders"}).json()
    assert dry["replicas"]["c1"] == {"replication_factor": 3, "min_insync_replicas": 2}
    made = tenant("POST", streams, {"name": "orders"}).json()
    assert (made["replication_factor"], made["min_insync_replicas"]) == (None, None)
    seen = tenant("GET", f"{streams}/orders").json()["replication"]
    assert [seen[each]["declared"] for each in ("c1", "c2")] == [3, 1], "as many as there are brokers for"
    assert tenant("GET", "/clusters/c1").json()["defaults"] == {"replication_factor": 3, "min_insync_replicas": 2}
    set_to = tenant("PATCH", "/clusters/c1", {"defaults": {"replication_factor": 2}})
    assert set_to.json()["defaults"] == {"replication_factor": 2, "min_insync_replicas": 1}
    assert set_to.json()["defaults_set"] == {"replication_factor": 2, "min_insync_replicas": None}
    found = tenant("GET", f"{streams}/orders").json()
    assert found["replicas"]["c1"] == {"replication_factor": 2, "min_insync_replicas": 1}
    one = tenant("PATCH", f"{streams}/orders", {"replication_factor": 1}).json()
    assert (one["replication_factor"], one["replicas"]["c1"]["replication_factor"]) == (1, 1)
    back = tenant("PATCH", f"{streams}/orders", {"replication_factor": "default"}).json()
    assert (back["replication_factor"], back["replicas"]["c1"]["replication_factor"]) == (None, 2)


def test_defaults_that_no_topic_could_have_are_refused(tenant: Rest) -> None:
    wrong = {"replication_factor": 2, "min_insync_replicas": 3}
    found = problem(tenant("PATCH", "/clusters/c1", {"defaults": wrong}), 422, "value-invalid")
    assert found["errors"][0]["pointer"] == "/defaults/min_insync_replicas"
    more = {"replication_factor": 1, "min_insync_replicas": 2}
    problem(tenant("POST", f"{PROD}/streams", {"name": "orders", **more}), 422, "value-invalid")


def test_workers_know_the_defaults_before_they_were_last_set(tenant: Rest, database: Database) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    assert replicas_before(database) == replicas_for(None, None, ReplicaDefaults())
    for factor in (2, 1):
        tenant("PATCH", "/clusters/c1", {"defaults": {"replication_factor": factor}})
    worker_records(tenant, RecordOnline(kafka_cluster_id="c1", brokers=3), CLUSTER, "cluster-c1")
    assert replicas_before(database) == replicas_for(None, None, ReplicaDefaults(replication_factor=2))
    tenant("PATCH", "/clusters/c1", {"defaults": {}})
    assert replicas_before(database) == replicas_for(None, None, ReplicaDefaults(replication_factor=1))


def test_a_cluster_that_is_added_again_has_no_defaults_of_the_former_one(rest: Rest, database: Database) -> None:
    rest.add_clusters("c1", defaults={"replication_factor": 2})
    assert rest("DELETE", "/clusters/c1").is_success
    rest("POST", f"{rest.set_up()}/streams", {"name": "orders"})
    assert replicas_before(database) == replicas_for(None, None, ReplicaDefaults())
    rest("PATCH", "/clusters/c1", {"defaults": {"replication_factor": 1}})
    assert replicas_before(database) == replicas_for(None, None, ReplicaDefaults())


def test_workers_read_no_row_of_what_clusters_were_before(tenant: Rest, database: Database) -> None:
    """Each time that a cluster goes away or comes back leaves a row, and workers look every few seconds."""
    statements: list[str] = []
    with database.engine.connect() as connection:
        sa.event.listen(
            connection, "before_cursor_execute", lambda *asked: statements.append(" ".join(asked[2].split()))
        )
        desired_topics.read(connection, rest_settings(database.url))
    of_clusters = [each for each in statements if "FROM clusters" in each]
    assert of_clusters and [each for each in of_clusters if "clusters.valid_to IS NULL" not in each] == []


def test_a_change_of_the_defaults_shows_as_one_of_the_defaults_alone(tenant: Rest) -> None:
    tenant("PATCH", "/clusters/c1", {"defaults": {"replication_factor": 2}})
    before = tenant.head()
    tenant("PATCH", "/clusters/c1", {"defaults": {"replication_factor": 1}})
    (found,) = tenant("GET", f"/events/differences?from={before}").json()["items"]
    assert (list(found["before"]), list(found["after"])) == (["defaults"], ["defaults"])


def replicas_before(database: Database) -> Replicas | None:
    """Return the replicas that workers assume a stream without declared ones had on c1."""
    with database.engine.connect() as connection:
        found = desired_topics.read(connection, rest_settings(database.url)).topics_on("c1")
    return next(topic.replicas_before for topic in found if topic.revision is not None)
