"""A dry run gives the answer of the real request: each writing route is refused with and without it alike.

Each route has at least one request that is refused because of configuration, of earlier events, or of a cluster
that does not respond. Facts that only a cluster knows of active groups are tested on the estate:
tests/kafka/offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from backend.api.app import create_app
from backend.deciders import EDGE
from backend.domain.distribution.edge_losses import RecordDeadLetter
from tests.nightly import some_now
from tests.support.api.rest import Rest, rest_settings, shared_rest
from tests.support.api.streams import applied, worker_records
from tests.support.database.postgres import RunningPostgres

AT = "/tenants/acme/instances/retail/environments/prod"
ONE = f"{AT}/applications/billing"
NOWHERE = "/tenants/acme/instances/retail/environments/none"
RESET = {"cluster": "c1", "stream": "acme/retail/prod/orders", "group": "g", "to": "latest"}
SWITCH = {"from": "c1", "to": "c2", "tenant": "acme"}
ASIDE = RecordDeadLetter(
    cluster="c1",
    level=2,
    target="c2",
    stream="acme/retail/prod/orders",
    partition=0,
    offset=7,
    origin=None,
    reason="its timestamp is too far ahead",
)
CONFIRMED = "EVENT"

REFUSED: list[tuple[str, str, Any, int]] = [
    # method, path, body, expected answer
    ("DELETE", "/discovery/clients/x?tenant=acme&instance=retail&environment=prod", None, 404),
    ("POST", "/clusters", {"name": "c1", "bootstrap_servers": "127.0.0.1:9"}, 409),
    ("POST", "/clusters", {"name": "c9", "bootstrap_servers": "127.0.0.1:9"}, 422),
    ("PATCH", "/clusters/c1", {"bootstrap_servers": "127.0.0.1:10"}, 422),
    ("DELETE", "/clusters/c1", None, 409),
    ("PUT", "/clusters/c9/placement-policy", {"policy": "propose"}, 404),
    ("POST", "/clusters/c1/elect-preferred-leaders", {}, 503),
    ("POST", "/clusters/c1/adoption", {"digest": "x"}, 422),
    ("PUT", "/trees/main", {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c9"}]}, 422),
    ("PATCH", "/trees/main/distributors/c1/9", {"paused": True}, 404),
    ("PUT", "/trees/main/targets/c1/2", {"target": "c1"}, 422),
    ("PUT", "/trees/main/primary", {"cluster": "c9"}, 422),
    ("POST", "/tenants", {"name": "acme"}, 409),
    ("POST", "/tenants/acme/instances", {"name": "retail", "tree": "main"}, 409),
    ("POST", "/tenants/acme/instances/retail/environments", {"name": "prod"}, 409),
    ("PATCH", NOWHERE, {"margin_seconds": 5}, 404),
    ("POST", f"{AT}/streams", {"name": "orders"}, 409),
    ("POST", f"{AT}/streams:declare", {"streams": [{"name": "orders"}]}, 409),
    ("PATCH", f"{AT}/streams/orders", {"partitions": 0}, 422),
    ("PATCH", f"{AT}/streams/orders", {"retention_ms": 1000}, 409),
    ("DELETE", f"{AT}/streams/orders", None, 409),
    ("POST", f"{AT}/applications", {"name": "billing", "groups": ["a\tb"]}, 422),
    ("PATCH", ONE, {"groups": []}, 404),
    ("DELETE", ONE, None, 404),
    ("POST", f"{ONE}/credentials", {}, 404),
    ("DELETE", f"{ONE}/credentials", None, 404),
    (
        "POST",
        "/tenants/acme/grants",
        {
            "application": "acme/retail/prod/billing",
            "stream": "acme/retail/prod/orders",
            "operation": "consume",
            "decision": "grant",
        },
        404,
    ),
    ("POST", "/events/1/undo", {}, 409),
    ("POST", f"/events/{CONFIRMED}/undo", {}, 409),
    ("POST", "/placements", {"cluster": "c9"}, 422),
    ("POST", "/placements/p1/apply", {"digest": "x"}, 404),
    ("POST", "/placements/p1/pause", None, 404),
    ("POST", "/placements/p1/resume", None, 404),
    ("POST", "/placements/p1/cancel", None, 404),
    ("POST", "/placements/p1/rollback", {}, 404),
    ("POST", "/projections/rebuild?name=none", None, 404),
    ("POST", "/set-aside/replay", {"id": "none"}, 404),
    ("POST", "/set-aside/replay", {"id": ASIDE.id}, 409),
    ("POST", "/losses/acknowledge", {"cluster": "c9", "level": 1}, 404),
    ("POST", "/messages", {"stream": "acme/retail/prod/none", "value": None}, 404),
    ("POST", "/offsets/reset", RESET, 503),
    ("POST", "/offsets/reset", {**RESET, "group": "a\tb"}, 422),
    ("POST", "/switches", {**SWITCH, "plan_digest": "stale"}, 422),
    ("POST", "/switches", SWITCH, 422),
    ("POST", "/switches/s1/abort", None, 404),
    ("POST", "/switches/s1/force", {"clients": ["x"]}, 404),
    ("POST", "/switches/s1/reverse", {}, 404),
    ("POST", "/route-epochs/reports", {"node": "n"}, 422),
    ("DELETE", "/route-epochs/reports/none", None, 404),
    ("POST", "/webhooks", {"name": "w", "url": "ftp://x", "events": ["switch"]}, 422),
    ("PATCH", "/webhooks/w", {"enabled": False}, 404),
    ("DELETE", "/webhooks/w", None, 404),
    ("POST", "/webhooks/w/secret", None, 404),
    ("POST", "/webhooks/w/test", None, 404),
    ("POST", "/webhooks/w/deliveries/1/retry", None, 404),
    ("POST", "/users", {"name": "root", "role": "no such role"}, 422),
    ("PATCH", "/users/nobody", {"role": "viewer"}, 404),
    ("PUT", "/users/nobody/password", {"password": "a long enough password"}, 404),
    ("POST", "/users/nobody/tokens", {"name": "ci"}, 404),
    ("DELETE", "/users/nobody/tokens/ci", None, 404),
    ("PUT", "/users/nobody/identity", {"subject": "s"}, 409),
    ("DELETE", "/users/nobody/identity", None, 404),
    ("PUT", "/tenants/acme/members/nobody", {"membership": "member"}, 404),
    ("DELETE", "/tenants/acme/members/nobody", None, 404),
]
NEVER_REFUSED = {"POST /api/v1/login-links"}
CHANGES_NOTHING = {"POST /api/v1/drills/replication", "POST /api/v1/switches/plan"}


def writing_routes() -> dict[str, bool]:
    """Return METHOD path of the API -> whether it takes `dry_run`."""
    document = create_app(rest_settings("postgresql+psycopg://nobody@127.0.0.1:9/none")).openapi()
    return {
        f"{method.upper()} {path}": any(each["name"] == "dry_run" for each in about.get("parameters", ()))
        for path, operations in document["paths"].items()
        for method, about in operations.items()
        if method not in ("get", "head")
    }


def matches(route: str, method: str, path: str) -> bool:
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route))
    return re.fullmatch(pattern, f"{method} /api/v1{path.partition('?')[0]}") is not None


def test_every_writing_route_can_be_tried_and_is_refused_here() -> None:
    routes = writing_routes()
    assert {route for route, takes in routes.items() if not takes} == CHANGES_NOTHING
    here = [(method, path) for method, path, _, _ in REFUSED]
    left = {route for route, takes in routes.items() if takes and not any(matches(route, *each) for each in here)}
    assert left == NEVER_REFUSED


@pytest.fixture(scope="module")
def rest(postgres: RunningPostgres) -> Iterator[Rest]:
    """Yield acme and globex on a tree of clusters that are down; no request may change anything."""
    with shared_rest(postgres) as shared:
        shared.set_up_both()
        worker_records(shared, applied("c1"))
        worker_records(shared, ASIDE, EDGE, "edge-c1-2")
        yield shared


@pytest.fixture(scope="module")
def confirmed(rest: Rest) -> int:
    """Return the position of an event whose undo asks for a name: it extended a stream's retention."""
    assert rest("PATCH", f"{AT}/streams/orders", {"retention_ms": 700_000_000}).status_code == 200
    return rest.head()


@some_now("method, path, body, status", REFUSED, now=range(0, len(REFUSED), 5))
def test_the_dry_run_is_refused_as_the_request_is(
    rest: Rest, confirmed: int, method: str, path: str, body: Any, status: int
) -> None:
    path = path.replace(CONFIRMED, str(confirmed))
    before = rest.head()
    tried = rest(method, f"{path}{'&' if '?' in path else '?'}dry_run=true", body)
    done = rest(method, path, body)
    assert done.status_code == status, done.text
    assert rest.head() == before
    assert (tried.status_code, tried.json()["type"]) == (done.status_code, done.json()["type"]), tried.text
    pointers = [[each["pointer"] for each in answer.json()["errors"]] for answer in (tried, done)]
    assert pointers[0] == pointers[1]


def test_a_login_link_that_was_only_tried_is_no_link(rest: Rest) -> None:
    tried = rest("POST", "/login-links?dry_run=true")
    assert tried.status_code == 201 and tried.json()["url"] is None


def test_a_rebuild_that_was_only_tried_names_the_projections(rest: Rest) -> None:
    tried = rest("POST", "/projections/rebuild?dry_run=true&name=clusters")
    assert tried.json()["items"] == [{"name": "clusters", "position": None}]
