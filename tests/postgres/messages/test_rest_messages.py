"""`GET /messages`: rights, parameters, and the audit; the clusters are down, so that no message is ever read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy.engine import make_url

from backend.messages import reader
from tests.support.api.callers import new_user
from tests.support.api.rest import Rest, problem
from tests.support.api.streams import applied, worker_records
from tests.support.database.postgres import Database

ORDERS = "acme/retail/prod/orders"
ITEMS = "globex/retail/prod/items"


@pytest.fixture
def rest(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rest]:
    """Yield the API, which waits only a moment for a cluster."""
    monkeypatch.setattr(reader, "BOUNDS", replace(reader.BOUNDS, seconds=0.3))
    yield rest
    rest.client.app.state.messages.close()  # type: ignore[attr-defined]


@pytest.fixture
def orders(both: Rest) -> Rest:
    """Return the API with topics of acme's orders on c1 and c2."""
    for cluster in ("c1", "c2"):
        worker_records(both, applied(cluster))
    return both


def path(stream: str = ORDERS, **query: Any) -> str:
    given = {"stream": stream, "cluster": "c1", **query}
    return "/messages?" + "&".join(f"{name.rstrip('_')}={quote(str(value))}" for name, value in given.items())


def reads(rest: Rest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rest("GET", "/audit?kind=MessagesRead").json()["items"]
    return found


@pytest.mark.parametrize(
    ("role", "tenants"),
    [("operator", {}), ("admin", {}), ("tenant", {"acme": "member"}), ("tenant", {"acme": "owner"})],
)
def test_those_who_may_read_reach_the_cluster(orders: Rest, role: str, tenants: dict[str, str]) -> None:
    ada = new_user(orders, "ada", role, **tenants)
    found = problem(ada("GET", path(), User_Agent="a browser"), 503, "cluster-silent")
    assert found["detail"].startswith("c1 does not answer: ")
    [row] = reads(orders)
    assert (row["actor"], row["tenant"], row["means"], row["address"], row["agent"]) == (
        *("ada", "acme", "token ci"),
        *("testclient", "a browser"),
    )
    assert row["reason"] == f"{ORDERS} on c1, partition 0, from latest"


def test_a_viewer_may_not_whether_or_not_the_stream_exists(orders: Rest) -> None:
    viewer = new_user(orders, "vic", "viewer")
    for stream in (ORDERS, "acme/retail/prod/none", "nobody/retail/prod/orders"):
        found = problem(viewer("GET", path(stream)), 403, "not-allowed")
        assert "messages:read" in found["detail"]
    assert reads(orders) == []


@pytest.mark.parametrize("role", ["member", "owner"])
def test_anothers_stream_cannot_be_told_from_one_that_nobody_has(orders: Rest, role: str) -> None:
    gil = new_user(orders, "gil", globex=role)
    streams = (ORDERS, "acme/retail/prod/none", "nobody/a/b/c", "_treeline.verify", "globex/retail/prod/none")
    for stream in streams:
        for query in ({}, {"cluster": "none"}, {"partition": 99}):
            found = problem(gil("GET", path(stream, **query)), 404, "not-found")
            assert (
                found["detail"] == f"there is no stream '{stream}'; name it as tenant/instance/environment/stream"
            )
            assert found["errors"] == []
    assert reads(orders) == []


def test_internal_streams_are_unknown_to_admins_too(orders: Rest) -> None:
    for stream in ("_treeline.verify", "acme/retail/prod/none", "acme/retail", "a/b/c/d/e", "\x00/a/b/c"):
        assert "there is no stream" in problem(orders("GET", path(stream)), 404, "not-found")["detail"]


def test_a_cluster_must_be_in_the_tree_and_have_the_topic(orders: Rest) -> None:
    orders.add_clusters("outside")
    for cluster in ("none", "outside"):
        found = problem(orders("GET", path(cluster=cluster)), 404, "not-found")
        assert found["detail"] == f"there is no cluster '{cluster}' in the tree of stream {ORDERS}"
    found = problem(orders("GET", path(cluster="c3")), 404, "not-found")
    assert found["detail"] == f"stream {ORDERS} has no topic on c3: its topic is pending there"
    assert reads(orders) == []


def test_without_a_cluster_it_is_the_one_that_clients_use(orders: Rest) -> None:
    primary = orders("GET", "/discovery?tenant=acme&instance=retail&environment=prod").json()["cluster"]
    assert primary == "c1"
    problem(orders("GET", f"/messages?stream={ORDERS}"), 503, "cluster-silent")
    assert reads(orders)[0]["reason"].startswith(f"{ORDERS} on c1,")


def test_if_the_topic_is_not_there_it_is_another(both: Rest) -> None:
    found = problem(both("GET", f"/messages?stream={ORDERS}"), 404, "not-found")
    assert found["detail"] == f"stream {ORDERS} has no topic on any cluster yet"
    worker_records(both, applied("c3"))
    problem(both("GET", f"/messages?stream={ORDERS}"), 503, "cluster-silent")
    assert reads(both)[0]["reason"].startswith(f"{ORDERS} on c3,")


WRONG = [
    ({"from_": "yesterday"}, "/from"),
    ({"from_": "4711"}, "/from"),
    ({"from_": "after:0=1,1"}, "/from"),
    ({"from_": "after:99=1"}, "/from"),
    ({"partition": 99}, "/partition"),
    ({"filter": ""}, "/filter"),
    ({"filter": "header:"}, "/filter"),
    ({"filter": "json:$.a =="}, "/filter"),
    ({"filter": "json:$.a[?match(@.b, '(')"}, "/filter"),
]


@pytest.mark.parametrize(("query", "pointer"), WRONG)
def test_a_wrong_parameter_is_named_and_nothing_is_read(orders: Rest, query: dict[str, str], pointer: str) -> None:
    found = problem(orders("GET", path(**query)), 422, "value-invalid")
    assert [error["pointer"] for error in found["errors"]] == [pointer]
    assert reads(orders) == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "partition=-1", "partition=x", "unknown=1", "cluster=a&x=1"]
)
def test_what_the_description_forbids_is_refused(orders: Rest, query: str) -> None:
    answer = orders("GET", f"/messages?stream={ORDERS}&{query}")
    assert answer.status_code == 422, answer.text
    assert orders("GET", "/messages").status_code == 422


def test_a_request_reads_at_most_256_partitions(orders: Rest) -> None:
    streams = "/tenants/acme/instances/retail/environments/prod/streams"
    assert orders("POST", streams, {"name": "wide", "partitions": 300}).status_code == 201
    worker_records(orders, replace(applied("c1"), stream="wide"))
    found = problem(orders("GET", path("acme/retail/prod/wide")), 422, "value-invalid")
    said = "stream acme/retail/prod/wide has 300 partitions, and one request reads at most 256: choose one"
    assert found["errors"] == [{"pointer": "/partition", "detail": said}]
    problem(orders("GET", path("acme/retail/prod/wide", partition=299)), 503, "cluster-silent")


def test_filters_are_repeated_and_in_the_audit(orders: Rest) -> None:
    asked = path(from_="earliest", filter="key:a b") + "&filter=json:$.n%20%3E%203"
    problem(orders("GET", asked), 503, "cluster-silent")
    [row] = reads(orders)
    assert row["reason"] == f"{ORDERS} on c1, partition 0, filter key:a b, filter json:$.n > 3, from earliest"


def test_so_many_requests_read_at_once_and_no_more(orders: Rest) -> None:
    pages = orders.client.app.state.messages._pages  # type: ignore[attr-defined]
    with ExitStack() as others:
        for number in range(reader.AT_ONCE - 1):
            others.enter_context(pages.one(f"user-{number % 4}"))
        with pages.one("user-9"):
            answer = orders("GET", path())
            assert f"{reader.AT_ONCE} requests are reading" in problem(answer, 503, "messages-busy")["detail"]
            assert answer.headers["Retry-After"]
        assert reads(orders) == []
        for _ in range(2):
            problem(orders("GET", path()), 503, "cluster-silent")
        assert len(reads(orders)) == 2, "a request that fails makes room for the next"
    with ExitStack() as own:
        for _ in range(reader.OF_A_USER):
            own.enter_context(pages.one("admin"))
        assert "3 of your requests" in problem(orders("GET", path()), 503, "messages-busy")["detail"]
        with pages.one("another"):
            pass


def test_nothing_is_read_without_a_row_in_the_audit(
    orders: Rest, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: Any) -> None:
        raise AssertionError("a message was read")

    monkeypatch.setattr(reader, "read_messages", read)
    with database.owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        name = make_url(database.url).database
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    orders.client.app.state.services.engine.dispose()  # type: ignore[attr-defined]
    assert orders("GET", path()).status_code == 503
    assert reads(orders) == []


def test_owners_see_who_read_their_messages(orders: Rest) -> None:
    new_user(orders, "ada", "operator")("GET", path())
    worker_records(orders, replace(applied("c1"), instance="retail", stream="items"), stream="tenant-globex")
    gil = new_user(orders, "gil", globex="owner")
    gil("GET", path(ITEMS))
    olga = new_user(orders, "olga", acme="owner")
    found = olga("GET", "/tenants/acme/audit").json()["items"]
    assert found[0]["kind"] == "MessagesRead"
    assert (found[0]["actor"], found[0]["address"], found[0]["tenant"]) == ("ada", None, "acme")
    assert {item["stream"] for item in found[1:]} == {"tenant-acme"}
    assert {item["tenant"] for item in found} == {"acme"}
    only = olga("GET", "/tenants/acme/audit?kind=MessagesRead").json()["items"]
    assert only == found[:1]
    assert olga("GET", "/tenants/acme/audit?actor=gil").json()["items"] == []
    assert [item["actor"] for item in reads(orders)] == ["gil", "ada"]
    assert [item["actor"] for item in orders("GET", "/audit?tenant=globex&kind=Logins").json()["items"]] == ["gil"]
    problem(new_user(orders, "mia", acme="member")("GET", "/tenants/acme/audit"), 403, "not-allowed")
    problem(gil("GET", "/tenants/acme/audit"), 404, "not-found")
    problem(orders("GET", "/tenants/nobody/audit"), 404, "not-found")
    # The tenant is in the path, and nowhere else.
    assert olga("GET", "/tenants/acme/audit?tenant=globex").status_code == 422
