"""The form that changes a stream, where Kafka would remove records: none of its clusters can be asked here."""

from __future__ import annotations

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.tenants.stream_records import RecordApplied
from backend.queries.replication.replication import store_health
from tests.support.console.consoles import Console
from tests.support.console.visitors import (
    API_PROD,
    PROD,
    STREAM,
    Visitor,
    code,
    hidden,
    record,
    rows,
    said,
    visitor,
)
from tests.support.database.postgres import Database

PATH, NAME = f"{PROD}/orders/-change", "acme/retail/prod/orders"
SHORTER = {**STREAM, "retention_ms": "1 h"}


def put_a_topic_on_c1(database: Database) -> None:
    place = {"instance": "retail", "environment": "prod", "stream": "orders"}
    record(database, RecordApplied(**place, cluster="c1", topic_id="T", replication_factor=1))


def test_what_removes_records_wants_the_whole_name(database: Database, acme: Console, owner: Visitor) -> None:
    put_a_topic_on_c1(database)
    seen = {"version": hidden(owner.get(PATH))["version"]}
    longer = owner.preview(PATH, **seen, **{**STREAM, "retention_ms": "8 d"})
    assert 'name="confirm"' not in longer.text
    preview = owner.preview(PATH, **seen, **SHORTER)
    assert "Kafka will remove records older than 1 hour" in said(preview)
    assert f"Type {NAME}" in said(preview)
    assert code(preview, "same-command").endswith(f"treeline apply -f orders.yaml --confirm {NAME}")
    assert f"orders?confirm={NAME}" in code(preview, "same-curl")
    sent = {**hidden(preview), "step": "confirm"}
    for typed in ("", "orders"):
        page = owner.client.post(PATH, data={**sent, "confirm": typed})
        assert page.status_code == 409
        assert ("the confirmation names" if typed else "has, or may have, records on c1") in said(page)
    assert owner.client.post(PATH, data={**sent, "confirm": NAME}).status_code == 303
    assert acme.rest.ok("GET", f"{API_PROD}/streams/orders")["retention_ms"] == 3_600_000


def test_a_factor_is_declared_anew_and_the_page_tells_what_there_is(
    database: Database, acme: Console, owner: Visitor
) -> None:
    put_a_topic_on_c1(database)
    record(database, RecordOnline(kafka_cluster_id="K1", brokers=3), CLUSTER, "cluster-c1")
    seen = {"version": hidden(owner.get(PATH))["version"]}
    undeclared = {"replication_factor": "", "min_insync_replicas": ""}
    same = owner.preview(PATH, **seen, **{**STREAM, **undeclared, "partitions": "9"})
    assert "keep their replicas" not in said(same)
    wish = {**STREAM, "replication_factor": "3", "min_insync_replicas": "2"}
    preview = owner.preview(PATH, **seen, **wish)
    assert "Existing topics keep their replicas until a placement of their cluster" in said(preview)
    assert owner.client.post(PATH, data={**hidden(preview), "step": "confirm"}).status_code == 303
    assert acme.rest.ok("GET", f"{API_PROD}/streams/orders")["replication_factor"] == 3
    orders = {"fewest": 2, "most": 2, "moving": True, "min_insync_replicas": 1, "unclean_election": True}
    with database.engine.begin() as connection:
        store_health(connection, "K1", {"declared_topics": {"acme-retail-prod-orders": orders}})
    told = rows(owner.get(f"{PROD}/orders/-settings"), "data-replication")
    assert told["c1"].startswith("c1 3 2, reassigning 1 acks=all: a record may be on one broker only")
    assert "unclean leader election is on" in told["c1"]
    assert told["c2"] == "c2 3 – – not observed yet"


def test_a_member_takes_away_nothing_but_changes_what_has_no_topics(database: Database, acme: Console) -> None:
    member = visitor(acme, "member")
    seen = {"version": hidden(member.get(PATH))["version"]}
    preview = member.preview(PATH, **seen, **SHORTER)
    assert "only an owner of the tenant may do" in said(preview)
    assert member.client.post(PATH, data={**hidden(preview), "step": "confirm"}).status_code == 303
    put_a_topic_on_c1(database)
    seen = {"version": hidden(member.get(PATH))["version"]}
    preview = member.preview(PATH, **seen, **{**STREAM, "retention_ms": "1 min"})
    answer = member.client.post(PATH, data={**hidden(preview), "step": "confirm", "confirm": NAME})
    assert answer.status_code == 403
    assert acme.rest.ok("GET", f"{API_PROD}/streams/orders")["retention_ms"] == 3_600_000
