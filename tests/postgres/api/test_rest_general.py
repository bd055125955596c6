"""Rules common to all resources: access, problem documents, content types, limits, headers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.exceptions import HTTPException

from backend.api.app import create_app
from backend.api.frame.gate import MOST_BODY_BYTES, _limited
from tests.support.api.observations import observe
from tests.support.api.rest import NOBODY_LISTENS, TOKEN, Rest, problem, rest_settings
from tests.support.database.postgres import Database

_MALFORMED = "malformed-request"
CLUSTER = {"name": "c1", "bootstrap_servers": NOBODY_LISTENS, "accept_offline": True}


@pytest.mark.parametrize("path", ["/clusters", "/trees/main", "/events", "/events/stream", "/nothing/here"])
@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", "Bearer \u00fc"]
)
def test_without_the_token_nothing_is_told_but_that_it_is_needed(
    empty_rest: Rest, path: str, authorization: str | None
) -> None:
    empty_rest.forget_wrong_tokens()
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    answer = empty_rest.client.get(f"/api/v1{path}", headers=headers)
    problem(answer, 401, "not-authenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    given = authorization in ("Bearer wrong", "Bearer \u00fc")
    assert answer.json()["title"] == ("Invalid token" if given else "A token is needed")


def test_without_a_configured_token_no_token_opens_anything(database) -> None:
    for token in (None, ""):
        app = create_app(rest_settings(database.url, admin_token=token))
        with TestClient(app) as client:
            for sent in ("Bearer ", "Bearer None", "Bearer"):
                assert client.get("/api/v1/clusters", headers={"Authorization": sent}).status_code == 401


def test_a_body_is_not_parsed_for_those_without_a_token(empty_rest: Rest) -> None:
    problem(empty_rest.client.post("/api/v1/clusters", content=b"{"), 401, "not-authenticated")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/openapi.json"])
def test_health_and_openapi_are_open(empty_rest: Rest, path: str) -> None:
    assert empty_rest.client.get(path).status_code == 200


def test_ready_names_what_is_checked(empty_rest: Rest) -> None:
    answer = empty_rest("GET", "./readyz").json()
    assert answer == {"ready": True, "checks": {"database": "ok", "migrations": "ok", "projections": "ok"}}


def test_not_ready_while_the_database_is_away() -> None:
    with TestClient(create_app(rest_settings("postgresql+psycopg://nobody@127.0.0.1:9/none"))) as client:
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["ready"] is False
        headers = {"Authorization": f"Bearer {TOKEN}"}
        refused = client.get("/api/v1/clusters", headers=headers)
        problem(refused, 503, "database-unavailable")
        assert "Retry-After" in refused.headers
        assert client.get("/livez").status_code == 200


@pytest.mark.parametrize("path", ["/nothing", "/clusters/", "/clusters/c1/more", "/trees/other"])
def test_an_unknown_route_is_a_problem_document(empty_rest: Rest, path: str) -> None:
    problem(empty_rest("GET", path), 404, "not-found")


def test_an_unknown_page_is_a_problem_document_too(empty_rest: Rest) -> None:
    problem(empty_rest("GET", "./nothing"), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/clusters", "GET, POST"),
        ("PUT", "/clusters/c1", "DELETE, GET, PATCH"),
        ("POST", "/trees/main", "GET, PUT"),
        ("POST", "/events", "GET"),
    ],
)
def test_a_wrong_method_is_answered_with_the_right_ones(
    empty_rest: Rest, method: str, path: str, allowed: str
) -> None:
    answer = empty_rest(method, path)
    problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    "content",
    [b"{", b"{'name': 1}", b"[1,", b"\xff\xfe", b"nul", b'{"a": ' + b"1" * 5000 + b"}", b"[" * 100_000],
    ids=["open", "quotes", "list", "bytes", "word", "digits", "deep"],
)
def test_malformed_json_is_400(empty_rest: Rest, content: bytes) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    taking_none = (("POST", "/api/v1/projections/rebuild"), ("DELETE", "/api/v1/clusters/c1"))
    for method, path in (("POST", "/api/v1/clusters"), ("PUT", "/api/v1/trees/main"), *taking_none):
        problem(
            empty_rest.client.request(method, path, content=content, headers=headers), 400, "malformed-request"
        )


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ([], ""),
        ("text", ""),
        (7, ""),
        ({"name": "c1"}, "/bootstrap_servers"),
        ({**CLUSTER, "name": 7}, "/name"),
        ({**CLUSTER, "name": None}, "/name"),
        ({**CLUSTER, "name": "\ud800"}, "/name"),
        ({**CLUSTER, "name": "a\x00"}, "/name"),
        ({**CLUSTER, "accept_offline": "true"}, "/accept_offline"),
        ({**CLUSTER, "accept_offline": 1}, "/accept_offline"),
        ({**CLUSTER, "properties": ["sasl.username"]}, "/properties"),
        ({**CLUSTER, "properties": {"sasl.username": 7}}, "/properties/sasl.username"),
        ({**CLUSTER, "properties": {"a/b": 7}}, "/properties/a~1b"),
        ({**CLUSTER, "surprise": 1}, "/surprise"),
    ],
)
def test_invalid_content_is_422_at_its_place(empty_rest: Rest, body: object, pointer: str) -> None:
    answer = empty_rest("POST", "/clusters", body)
    assert answer.status_code == 422, answer.text
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


def test_no_body_is_422(empty_rest: Rest) -> None:
    problem(empty_rest("POST", "/clusters"), 422, "invalid")


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_body_that_is_declared_as_something_else_is_415(empty_rest: Rest, content_type: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": content_type}
    answer = empty_rest.client.post("/api/v1/clusters", content=b'{"name": "c1"}', headers=headers)
    problem(answer, 415, "unsupported-media-type")


@pytest.mark.parametrize("content_type", [None, "application/json; charset=utf-8", "application/merge-patch+json"])
def test_json_and_undeclared_bodies_are_read_as_json(rest: Rest, content_type: str | None) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Content-Type": content_type} if content_type else {})
    answer = rest.client.post("/api/v1/tenants", content=b'{"name": "acme"}', headers=headers)
    assert answer.status_code == 201, answer.text


def test_a_body_that_is_too_large_is_413(empty_rest: Rest) -> None:
    answer = empty_rest("POST", "/tenants", {"name": "x" * (1 << 20)})
    problem(answer, 413, "too-large")


def test_a_body_of_unknown_length_is_cut_off_at_the_same_limit(empty_rest: Rest) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    chunks = (b" " * 65536 for _ in range(20))
    answer = empty_rest.client.post("/api/v1/tenants", content=chunks, headers=headers)
    problem(answer, 413, "too-large")


def test_pieces_of_a_body_are_counted_together() -> None:
    """The tests' client passes a body as a whole, servers in pieces as they arrive."""
    pieces = iter([{"type": "http.request", "body": b" " * (MOST_BODY_BYTES // 4), "more_body": True}] * 5)

    async def receive() -> dict[str, Any]:
        return next(pieces)

    async def read_all() -> None:
        limited = _limited(receive, MOST_BODY_BYTES)
        for _ in range(5):
            await limited()

    with pytest.raises(HTTPException, match="at most 1048576 bytes"):
        asyncio.run(read_all())
    assert list(pieces) == [], "what the limit allows is read"


def test_every_answer_names_its_request_and_data_are_not_cached(empty_rest: Rest) -> None:
    answer = empty_rest("GET", "/clusters", X_Request_ID="mine-1")
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    strange = empty_rest("GET", "/clusters", X_Request_ID="a b<script>")
    assert strange.headers["x-request-id"] not in ("", "a b<script>")


def test_the_request_and_the_actor_are_in_the_event(rest: Rest) -> None:
    rest("POST", "/tenants", {"name": "acme"}, X_Request_ID="mine-2")
    [event] = rest("GET", "/events").json()["items"]
    assert event["metadata"] == {"actor": "admin", "request_id": "mine-2", "causation": None}


def test_a_surprise_is_500_without_internals(rest: Rest, monkeypatch) -> None:
    from backend.queries.clusters import clusters

    def fails(*_: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(clusters, "list_clusters", fails)
    answer = rest("GET", "/clusters", X_Request_ID="mine-3")
    document = problem(answer, 500, "internal-error")
    assert "secret" not in answer.text
    assert "mine-3" in document["detail"]


@pytest.mark.parametrize(
    "query",
    ["limit=0", "dryrun=true", "limit=1001", "limit=x", "cursor=x", "cursor=WzFd", "at=-1", "at=x", "at=1"],
)
def test_a_wrong_query_parameter_is_422(empty_rest: Rest, query: str) -> None:
    assert empty_rest("GET", f"/clusters?{query}").status_code == 422


def test_a_list_goes_on_where_its_page_ended(rest: Rest) -> None:
    names = [f"t{n}" for n in range(5)]
    for name in names:
        rest("POST", "/tenants", {"name": name})
    found, cursor = [], ""
    while True:
        page = rest("GET", f"/tenants?limit=2{cursor}").json()
        found += [item["name"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert found == names


def test_metrics_name_log_projections_and_clusters(rest: Rest) -> None:
    rest.add_clusters("c1")
    text = rest("GET", "./metrics").text
    assert "treeline_event_log_position 2.0" in text
    assert 'treeline_projection_lag_events{projection="clusters"} 0.0' in text
    assert 'treeline_cluster_online{cluster="c1"} 0.0' in text
    assert 'treeline_application_access_failed{cluster="c1"} 0.0' in text
    assert "treeline_build_info{" in text


def test_metrics_count_records_that_waited_for_schemas(tenant: Rest, database: Database) -> None:
    facts = {"schema_holds": 3, "schema_held_seconds": 1.5, "schema_waits_run_out": 1}
    observe(database.engine, "c1", 2, "c2", **facts)
    text = tenant("GET", "./metrics").text
    of = 'level="2",source="c1",target="c2"'
    # With two tasks each.
    assert f"treeline_schema_holds_total{{{of}}} 6.0" in text
    assert f"treeline_schema_held_seconds_total{{{of}}} 3.0" in text
    assert f"treeline_schema_waits_run_out_total{{{of}}} 2.0" in text
    (row,) = [
        each for each in tenant("GET", "/trees/main/distributors").json() if each["level"] == 2 and each["holder"]
    ]
    assert {name: row[name] for name in facts} == {name: 2 * value for name, value in facts.items()}
