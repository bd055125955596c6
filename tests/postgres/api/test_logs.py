"""Log lines name their request, tenant, and position of the event log."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from backend.api.frame import gate
from tests.support.api.rest import Rest


def test_a_line_for_each_request_that_appended_events(rest: Rest, logged_events: list[dict[str, Any]]) -> None:
    rest("POST", "/tenants", {"name": "acme"}, X_Request_ID="r-1")
    rest("POST", "/tenants", {"name": "globex"}, X_Request_ID="r-2")
    rest("POST", "/users", {"name": "ada"}, X_Request_ID="r-3")
    told = [(each["request_id"], each.get("tenant"), each["position"], each["names"]) for each in logged_events]
    assert told == [
        ("r-1", "acme", 1, ["TenantCreated"]),
        ("r-2", "globex", 2, ["TenantCreated"]),
        ("r-3", None, 3, ["UserCreated"]),
    ]
    assert {each["actor"] for each in logged_events} == {"admin"} and logged_events[0]["stream"] == "tenant-acme"
    events = rest("GET", "/events").json()["items"]
    assert [each["metadata"]["request_id"] for each in events] == ["r-1", "r-2", "r-3"]


def test_what_changed_nothing_is_not_told(rest: Rest, logged_events: list[dict[str, Any]]) -> None:
    rest("POST", "/tenants?dry_run=true", {"name": "acme"})
    rest("POST", "/tenants", {"name": "Acme"})
    assert logged_events == []
    rest("POST", "/tenants", {"name": "acme"}, Idempotency_Key="k")
    rest("POST", "/tenants", {"name": "acme"}, Idempotency_Key="k")
    assert len(logged_events) == 1


def test_what_is_logged_during_a_request_names_it_and_its_tenant(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    bound = structlog.contextvars.bound_contextvars

    def noted(**facts: Any) -> Any:
        seen.append(facts)
        return bound(**facts)

    monkeypatch.setattr(gate.structlog.contextvars, "bound_contextvars", noted)
    rest("GET", "/tenants/acme/instances", X_Request_ID="r-1")
    rest("GET", "/tenants", X_Request_ID="r-2")
    rest("GET", "./tenants/acme", X_Request_ID="r-3")
    rest("GET", "/tenants/%0aacme", X_Request_ID="r-4")
    assert seen == [
        {"request_id": "r-1", "tenant": "acme"},
        {"request_id": "r-2"},
        {"request_id": "r-3", "tenant": "acme"},
        {"request_id": "r-4"},
    ]
