"""Every route declares what it needs, and gives it to nobody else; a tenant never sees another's things."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import Request
from starlette.datastructures import Headers

from backend.api.app import create_app
from backend.api.frame.access import NEEDS, allowed, find_caller
from backend.api.history.events import _read
from backend.domain.access.access import ADMIN, Action, Caller
from backend.queries.offsets.offset_tables import group_commits
from backend.settings import PROJECT_ROOT
from tests.support.api.callers import As, new_user
from tests.support.api.rest import Rest, problem, rest_settings, shared_rest
from tests.support.database.postgres import RunningPostgres

MINE, THEIRS, NOBODYS = "acme", "acme-2", "acme-3"
ENVIRONMENT = "/tenants/{}/instances/retail/environments/prod"
NAMES = {"instance": "retail", "environment": "prod", "stream": "orders", "cluster": "c1", "level": "1"}
NAMES |= {"user": "somebody", "token": "ci", "operation": "adoption-1", "application": "billing"}
NAMES |= {
    "client_id": "orders-1",
    "switch": "s1",
    "placement": "p1",
    "scenario": "log-divergence",
    "node": "zr-az1",
    "webhook": "ops",
    "position": "999999999",
}
# What a role or a membership may, beside what all may: see docs/access.md.
ESTATE = {Action.READ_ESTATE, Action.READ_TENANT}
CHANGES = {Action.CHANGE_ESTATE, Action.DECLARE_STREAMS, Action.MANAGE_TENANT, Action.DECIDE_ACCESS}
CHANGES |= {Action.READ_MESSAGES, Action.PRODUCE_MESSAGES}
MAY: dict[str, set[Action]] = {
    "nobody": set(),
    "viewer": ESTATE,
    "operator": ESTATE | CHANGES,
    "root": set(Action),
    "member": {Action.READ_TENANT, Action.READ_MESSAGES, Action.DECLARE_STREAMS},
    "owner": {
        Action.READ_TENANT,
        Action.READ_MESSAGES,
        Action.PRODUCE_MESSAGES,
        Action.DECLARE_STREAMS,
        Action.MANAGE_TENANT,
        Action.DECIDE_ACCESS,
        Action.MANAGE_MEMBERS,
    },
}


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """Return method, path and description of all operations of the API."""
    document = create_app(rest_settings("postgresql+psycopg://nobody@127.0.0.1:9/none")).openapi()
    return [
        (method.upper(), path.removeprefix("/api/v1"), described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
        if path.startswith("/api/v1")
    ]


OPERATIONS = operations()
PLAIN = [(method, path) for method, path, _ in OPERATIONS]
NEED = {(method, path): Action(found[NEEDS]) for method, path, found in OPERATIONS if NEEDS in found}


@pytest.fixture(scope="module")
def shared(postgres: RunningPostgres) -> Iterator[Rest]:
    with shared_rest(postgres) as rest:
        rest.set_up()
        for tenant in (MINE, THEIRS):
            rest("POST", "/tenants", {"name": tenant})
            rest("POST", f"/tenants/{tenant}/instances", {"name": "retail"})
            rest("POST", f"/tenants/{tenant}/instances/retail/environments", {"name": "prod"})
            assert rest("POST", ENVIRONMENT.format(tenant) + "/streams", {"name": "orders"}).status_code == 201
            _commit(rest, tenant)
        yield rest


@pytest.fixture(scope="module")
def callers(shared: Rest) -> dict[str, As]:
    return {
        "nobody": new_user(shared, "nobody"),
        "viewer": new_user(shared, "viewer", "viewer"),
        "operator": new_user(shared, "operator", "operator"),
        "root": new_user(shared, "root", "admin"),
        "member": new_user(shared, "member", acme="member"),
        "owner": new_user(shared, "owner", acme="owner"),
        "stranger": new_user(shared, "stranger", acme_2="owner"),
    }


def _commit(rest: Rest, tenant: str) -> None:
    """A group of the tenant has committed."""
    values: dict[str, Any] = {}
    for column in group_commits.columns:
        if column.nullable:
            continue
        values[column.name] = "x" if isinstance(column.type, sa.Text) else 1
        if isinstance(column.type, sa.Boolean):
            values[column.name] = False
    values |= {"cluster": "c1", "stream": f"{tenant}/retail/prod/orders", "group": f"{tenant}-group"}
    with rest.client.app.state.services.engine.begin() as connection:  # type: ignore[attr-defined]
        connection.execute(sa.insert(group_commits).values(values))


def test_every_route_declares_what_it_needs() -> None:
    assert [plain for plain in PLAIN if plain not in NEED] == []
    # What is not below /api/v1 is open to everybody but for /metrics; whatever comes here has to see to
    # its callers itself.
    document = create_app(rest_settings("postgresql+psycopg://nobody@127.0.0.1:9/none")).openapi()
    assert {path for path in document["paths"] if not path.startswith("/api/v1")} == {
        "/livez",
        "/readyz",
        "/metrics",
    }
    assert len(NEED) > 40


def test_the_docs_have_every_route_with_what_it_needs() -> None:
    text = (PROJECT_ROOT / "docs" / "access.md").read_text()
    listed = re.findall(r"^\| `([A-Z]+) (/\S+)` \| `([a-z:-]+)` \|$", text, re.MULTILINE)
    assert sorted(listed) == sorted((*route, str(action)) for route, action in NEED.items())


def test_a_route_without_a_declaration_is_open_to_nobody() -> None:
    route = SimpleNamespace(openapi_extra=None, path="/forgotten")
    with pytest.raises(RuntimeError, match="/forgotten does not declare"):
        asyncio.run(allowed(Request({"type": "http", "route": route, "path_params": {}}), ADMIN))


@pytest.mark.parametrize("who", MAY)
@pytest.mark.parametrize(("method", "path"), PLAIN)
def test_a_route_is_for_those_who_have_what_it_needs(
    callers: dict[str, As], who: str, method: str, path: str
) -> None:
    action = NEED[method, path]
    allowed = action in MAY[who] or action is Action.OWN_ACCOUNT
    if allowed and path in ("/events/stream", "/projections/rebuild"):
        return  # has no end; takes long: others hold that these can be asked
    answer = callers[who](method, path.format(tenant=MINE, **NAMES), None if method == "GET" else {}, **DRY)
    if allowed:
        assert answer.status_code not in (401, 403)
        assert answer.status_code != 404 or "no tenant" not in answer.text
    elif "{tenant}" in path and not MAY[who]:
        assert problem(answer, 404, "not-found")["detail"] == f"there is no tenant '{MINE}'"
    else:
        assert str(action) in problem(answer, 403, "not-allowed")["detail"]


# A request of the table that is allowed must still change nothing that the next one relies on.
DRY = {"If_Match": '"stale"'}


@pytest.mark.parametrize("who", ["nobody", "member", "owner"])
@pytest.mark.parametrize(("method", "path"), [plain for plain in PLAIN if "{tenant}" in plain[1]])
def test_anothers_tenant_cannot_be_told_from_one_that_nobody_has(
    callers: dict[str, As], who: str, method: str, path: str
) -> None:
    def ask(tenant: str) -> tuple[int, str]:
        answer = callers[who](method, path.format(tenant=tenant, **NAMES), None if method == "GET" else {})
        assert dict(answer.headers) | {"x-request-id": "", "content-length": ""} == {
            "cache-control": "no-store",
            "content-length": "",
            "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
            "content-type": "application/problem+json",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
            "x-request-id": "",
        }
        return answer.status_code, answer.text.replace(tenant, "TENANT")

    assert ask(THEIRS) == ask(NOBODYS)
    assert ask(THEIRS)[0] == 404


@pytest.mark.parametrize(
    "stream", [f"{THEIRS}/retail/prod/orders", f"{NOBODYS}/retail/prod/orders", "_treeline.x"]
)
def test_neither_can_their_streams_be(callers: dict[str, As], stream: str) -> None:
    for who in ("member", "owner"):
        answer = callers[who]("GET", f"/trace?cluster=c1&stream={stream}&partition=0&offset=0")
        known = problem(answer, 404, "not-found")["detail"]
        assert known == f"there is no stream '{stream}'; name it as tenant/instance/environment/stream"
    body = {"cluster": "c1", "stream": stream, "group": "g", "to": "earliest"}
    refused = problem(callers["owner"]("POST", "/offsets/reset", body), 404, "not-found")
    assert refused["detail"] == f"there is no stream '{stream}'"


def test_a_member_may_not_reset_what_it_may_see(callers: dict[str, As]) -> None:
    body = {"cluster": "c1", "stream": f"{MINE}/retail/prod/orders", "group": "g", "to": "earliest"}
    problem(callers["member"]("POST", "/offsets/reset", body), 403, "not-allowed")
    assert callers["owner"]("POST", "/offsets/reset", body).status_code not in (401, 403)


def test_lists_hold_nothing_of_other_tenants(callers: dict[str, As], shared: Rest) -> None:
    for who, own in (("member", {MINE}), ("stranger", {THEIRS}), ("nobody", set()), ("viewer", {MINE, THEIRS})):
        for path, found in (
            ("/tenants", lambda item: item["name"]),
            ("/offsets", lambda item: item["tenant"]),
            ("/events?limit=1000", lambda item: item["stream"].removeprefix("tenant-")),
            ("/events?limit=1000&stream=tenant-acme", lambda item: item["stream"].removeprefix("tenant-")),
        ):
            answer = callers[who]("GET", path)
            if who == "nobody":
                problem(answer, 403, "not-allowed")
                continue
            seen = {found(item) for item in answer.json()["items"]}
            assert seen >= own if who == "viewer" else seen == own, path


def test_the_stream_of_events_holds_a_tenants_own_only(callers: dict[str, As], shared: Rest) -> None:
    last = [e for e in shared("GET", "/events?limit=1000").json()["items"] if e["stream"] == f"tenant-{MINE}"][-1]
    services = shared.client.app.state.services  # type: ignore[attr-defined]

    def by(who: str) -> Callable[[], Caller | None]:
        return partial(find_caller, services, Headers({"authorization": f"Bearer {callers[who].token}"}), "")

    found = _read(services, by("member"), 0)
    assert found is not None
    page, place = found
    assert {event.stream for event in page} == {f"tenant-{MINE}"}
    assert page[-1].position == last["position"]
    assert place == shared.head()
    assert _read(services, by("nobody"), 0) is None


def test_a_taken_technical_name_does_not_tell_whose_it_is(rest: Rest) -> None:
    rest.add_clusters("c1", "c2", topic_format="{topic}", subject_format="{topic}")
    rest("PUT", "/trees/main", {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]})
    for tenant in (MINE, THEIRS):
        for path, body in (
            ("/tenants", {"name": tenant}),
            (f"/tenants/{tenant}/instances", {"name": "retail"}),
            (f"/tenants/{tenant}/instances/retail/environments", {"name": "prod"}),
        ):
            assert rest("POST", path, body).status_code == 201
    assert rest("POST", ENVIRONMENT.format(THEIRS) + "/streams", {"name": "orders"}).status_code == 201
    answer = new_user(rest, "ada", acme="member")(
        "POST", ENVIRONMENT.format(MINE) + "/streams", {"name": "orders"}
    )
    problem(answer, 409, "technical-name-taken")
    assert THEIRS not in answer.text
