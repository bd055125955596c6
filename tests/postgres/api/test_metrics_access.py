"""Access to /metrics, which names tenants."""

from __future__ import annotations

from fastapi.testclient import TestClient

from backend.api.app import create_app
from backend.estate.ports import free_ports
from tests.support.api import http
from tests.support.api.callers import new_user
from tests.support.api.rest import TOKEN, Rest, problem, rest_settings
from tests.support.database.postgres import Database


def test_metrics_are_for_those_who_may_read_the_estate(both: Rest) -> None:
    problem(both.client.get("/metrics"), 401, "not-authenticated")
    nobody = {"Authorization": "Bearer treeline_nobody"}
    problem(both.client.get("/metrics", headers=nobody), 401, "not-authenticated")
    member = new_user(both, "ada", acme="owner")
    problem(both.client.get("/metrics", headers=_bearer(member.token)), 403, "not-allowed")
    viewer = new_user(both, "vic", "viewer")
    for token in (viewer.token, TOKEN):
        answer = both.client.get("/metrics", headers=_bearer(token))
        assert answer.status_code == 200
        assert 'treeline_cluster_online{cluster="c1"}' in answer.text


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_port_of_its_own_serves_metrics_without_a_token_and_nothing_else(both: Rest, database: Database) -> None:
    port = free_ports(1)[0]
    app = create_app(rest_settings(database.url, metrics_port=port))
    with TestClient(app) as client:
        told = http.get(f"http://127.0.0.1:{port}/metrics")
        assert told.status_code == 200 and 'treeline_cluster_online{cluster="c1"}' in told.text
        assert http.get(f"http://127.0.0.1:{port}/api/v1/clusters").text.count("bootstrap_servers") == 0
        assert client.get("/metrics").status_code == 401


def test_a_port_that_another_process_has_is_logged_and_stops_nothing(database: Database) -> None:
    port = free_ports(1)[0]
    first, second = (create_app(rest_settings(database.url, metrics_port=port)) for _ in range(2))
    with TestClient(first), TestClient(second) as client:
        assert client.get("/livez").status_code == 200
        assert http.get(f"http://127.0.0.1:{port}/metrics").status_code == 200
