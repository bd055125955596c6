"""Required hosts and headers of requests, and the limit on wrong tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from backend.api.app import create_app
from backend.host_check import MOST_HEADER_BYTES, MOST_HEADERS, AllowedHosts, HostCheck
from backend.login_limits import ATTEMPTS
from backend.registry.app import with_registries
from tests.support.api.callers import new_user
from tests.support.api.rest import TOKEN, Rest, problem, rest_settings
from tests.support.database.postgres import Database


@pytest.fixture
def front(database: Database) -> Iterator[TestClient]:
    """Yield the API behind the checks that every request passes first."""
    config = rest_settings(database.url, url="https://treeline.example", allowed_hosts=["*.inside.example"])
    app = create_app(config)
    yield TestClient(HostCheck(app, config), base_url="http://127.0.0.1")
    app.state.services.engine.dispose()


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("10.1.0.7", True),
        ("localhost:8000", True),
        ("api:8000", True),
        ("TREELINE.example", True),
        ("treeline.example.:443", True),
        ("a.inside.example", True),
        ("inside.example", False),
        ("evil.example", False),
        ("treeline.example.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_a_request_names_a_host_of_ours(host: str, allowed: bool) -> None:
    hosts = AllowedHosts(["*.inside.example"], "https://treeline.example")
    assert hosts.allow(host) is allowed
    assert AllowedHosts(["*"], None).allow(host)


def test_another_host_is_refused_everywhere(front: TestClient) -> None:
    for path in ("/livez", "/login", "/registries/c1/subjects", "/api/v1/clusters"):
        problem(front.get(path, headers={"Host": "evil.example"}), 421, "host-not-allowed")
    assert front.get("/livez").status_code == 200


def test_headers_have_a_bounded_size(front: TestClient) -> None:
    assert front.get("/livez", headers={"X": "x" * (MOST_HEADER_BYTES // 2)}).status_code == 200
    problem(front.get("/livez", headers={"Cookie": "x" * MOST_HEADER_BYTES}), 431, "headers-too-large")
    many = {f"X-{n}": "x" for n in range(MOST_HEADERS)}
    problem(front.get("/livez", headers=many), 431, "headers-too-large")


def _wrong(rest: Rest, token: str = "treeline_nobody", **headers: str) -> int:
    return rest("GET", "/me", Authorization=f"Bearer {token}", **headers).status_code


def test_wrong_tokens_are_limited_by_address_and_kept_for_the_audit(rest: Rest) -> None:
    user = new_user(rest, "vic", "viewer")
    # The request's own claim about its address does not count: no proxy is trusted.
    found = [_wrong(rest, X_Forwarded_For=f"10.0.0.{n}") for n in range(ATTEMPTS + 2)]
    assert found == [401] * ATTEMPTS + [429] * 2
    stopped = rest("GET", "/me", Authorization="Bearer x")
    problem(stopped, 429, "too-many-attempts")
    assert stopped.headers["retry-after"] == "60"
    # Right tokens that are too long to be guessed stay accepted.
    assert rest("GET", "/me").status_code == 200
    headers = {"Authorization": f"Bearer {user.token}"}
    assert rest.client.get("/api/v1/me", headers=headers).status_code == 200
    kept = rest.client.get("/api/v1/audit?kind=LoginRefused", headers=headers).json()["items"]
    assert len(kept) == ATTEMPTS
    assert {(row["means"], row["actor"]) for row in kept} == {("token", None)}
    assert TOKEN not in str(kept) and "treeline_nobody" not in str(kept)


def test_a_short_token_of_the_settings_waits_with_wrong_ones(database: Database) -> None:
    """A short token could be guessed, so an address with too many attempts is refused even with the right one."""
    app = create_app(rest_settings(database.url, admin_token=SecretStr("short")))
    client = TestClient(app)
    right, wrong = ({"Authorization": f"Bearer {token}"} for token in ("short", "wrong"))
    assert client.get("/api/v1/me", headers=right).status_code == 200
    for _ in range(ATTEMPTS):
        assert client.get("/api/v1/me", headers=wrong).status_code == 401
    assert client.get("/api/v1/me", headers=right).status_code == 429
    app.state.services.engine.dispose()


def test_pages_and_metrics_are_no_way_around_the_limit(rest: Rest) -> None:
    for n in range(ATTEMPTS):
        path = ("/", "/metrics", "/api/v1/me")[n % 3]
        rest.client.get(path, headers={"Authorization": "Bearer wrong"})
    assert rest.client.get("/", headers={"Authorization": "Bearer wrong"}).status_code == 429


def test_nobody_s_token_is_not_a_wrong_one(rest: Rest) -> None:
    for _ in range(2 * ATTEMPTS):
        assert rest.client.get("/api/v1/me").status_code == 401
    assert rest("GET", "/me").status_code == 200


def test_registries_count_wrong_tokens_with_the_api(rest: Rest) -> None:
    app = rest.client.app  # type: ignore[attr-defined]
    asked = TestClient(with_registries(app, app.state.services))
    for n in range(ATTEMPTS):
        authorization = "Bearer wrong" if n % 2 else "Basic eDp3cm9uZw=="
        answer = asked.get("/registries/c1/subjects", headers={"Authorization": authorization})
        assert answer.status_code == 401
    answer = asked.get("/registries/c1/subjects", headers={"Authorization": "Bearer wrong"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert _wrong(rest) == 429


def test_registries_count_by_the_address_that_a_trusted_proxy_tells(database: Database) -> None:
    """Otherwise one wrong program behind the proxy would stop all others, as in the API."""
    app = create_app(rest_settings(database.url, trusted_proxies=["10.9.9.9"]))
    served = with_registries(app, app.state.services)

    def asked(path: str, told: str, proxy: str = "10.9.9.9") -> int:
        client = TestClient(served, client=(proxy, 50_000))
        return client.get(path, headers={"Authorization": "Bearer wrong", "X-Forwarded-For": told}).status_code

    subjects = "/registries/c1/subjects"
    assert [asked(subjects, "192.0.2.1") for _ in range(ATTEMPTS + 1)] == [401] * ATTEMPTS + [429]
    assert asked("/api/v1/me", "192.0.2.1") == 429
    assert asked(subjects, "192.0.2.2") == asked("/api/v1/me", "192.0.2.2") == 401
    # The header of any other sender does not count.
    found = [asked(subjects, f"192.0.2.{n + 10}", proxy="10.9.9.8") for n in range(ATTEMPTS + 1)]
    assert found == [401] * ATTEMPTS + [429]
    admin = {"Authorization": f"Bearer {TOKEN}"}
    kept = TestClient(app).get("/api/v1/audit?kind=LoginRefused", headers=admin).json()["items"]
    assert {row["address"] for row in kept} == {"192.0.2.1", "192.0.2.2", "10.9.9.8"}
    app.state.services.engine.dispose()


def test_a_position_beyond_the_head_tells_a_tenant_nothing(both: Rest) -> None:
    ada = {"Authorization": f"Bearer {new_user(both, 'ada', acme='owner').token}"}
    here = "/api/v1/tenants/acme/instances/retail/environments/prod/streams"
    answers = [
        both.client.get(f"{here}?at={position}", headers=ada)
        for position in (both.head(), both.head() + 1, 10**6, 2**63 - 1, 2**80)
    ]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    # A caller who may read the estate learns that there is no such position.
    assert str(both.head()) in problem(both("GET", f"{here[7:]}?at=1000000"), 422, "value-invalid")["detail"]
