"""Each route that checks If-Match refuses a change of a resource that was changed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api.callers import new_user
from tests.support.api.rest import TREE, Rest, problem, shared_rest
from tests.support.database.postgres import RunningPostgres

AT = "/tenants/acme/instances/retail/environments/prod"
BILLING = f"{AT}/applications/billing"
NEVER = '"9999"'
"""The tag of no resource here."""

CHANGES: list[tuple[str, str, Any]] = [
    ("PATCH", "/clusters/c1", {"zone": "az1"}),
    ("DELETE", "/clusters/c1", None),
    ("PUT", "/clusters/c1/placement-policy", {"policy": "propose"}),
    ("PUT", "/trees/main", TREE),
    ("PUT", "/trees/main/targets/c1/2", {"target": "c3"}),
    ("PUT", "/trees/main/primary", {"cluster": "c2"}),
    ("PATCH", "/trees/main/distributors/c1/2", {"paused": True}),
    ("PATCH", AT, {"margin_seconds": 5}),
    ("PATCH", f"{AT}/streams/orders", {"partitions": 8}),
    ("PATCH", f"{AT}/streams/orders", {"retention_ms": 1000}),
    ("DELETE", f"{AT}/streams/orders", None),
    ("DELETE", f"{AT}/streams/orders?confirm=acme/retail/prod/orders", None),
    ("PATCH", BILLING, {"groups": ["billing"]}),
    ("DELETE", BILLING, None),
    ("POST", f"{BILLING}/credentials", {}),
    ("DELETE", f"{BILLING}/credentials", None),
    ("PATCH", "/users/ada", {"role": "operator"}),
    ("PATCH", "/webhooks/ops", {"enabled": False}),
    ("POST", "/webhooks/ops/secret", None),
    ("DELETE", "/webhooks/ops", None),
]


@pytest.fixture(scope="module")
def rest(postgres: RunningPostgres) -> Iterator[Rest]:
    """One of each thing; no request may change anything."""
    with shared_rest(postgres) as shared:
        shared.set_up_both()
        hook = {"name": "ops", "url": "https://receiver.example/treeline", "events": ["switch"]}
        for path, body in ((f"{AT}/applications", {"name": "billing"}), ("/webhooks", hook)):
            assert shared("POST", path, body).status_code == 201
        assert shared("POST", f"{BILLING}/credentials", {}).is_success
        new_user(shared, "ada", "viewer")
        yield shared


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_a_stale_tag_changes_nothing(rest: Rest, method: str, path: str, body: Any) -> None:
    head = rest.head()
    problem(rest(method, path, body, If_Match=NEVER), 412, "stale-version")
    assert rest.head() == head
