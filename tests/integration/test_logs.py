"""Lines of the log name what they belong to: the request, the tenant, the position of the event log."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from backend import dispatch
from backend.api import gate
from tests.integration.conftest import Rest


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is logged of events, as `backend.logs` would have it before it becomes JSON."""
    found: list[dict[str, Any]] = []

    def keep(_: Any, __: str, line: Any) -> Any:
        found.append(dict(line))
        raise structlog.DropEvent

    logger = structlog.wrap_logger(None, processors=[structlog.contextvars.merge_contextvars, keep])
    monkeypatch.setattr(dispatch, "log", logger)
    return found


def test_a_line_for_each_request_that_appended_events(rest: Rest, lines: list[dict[str, Any]]) -> None:
    rest("POST", "/tenants", {"name": "acme"}, X_Request_ID="r-1")
    rest("POST", "/tenants", {"name": "globex"}, X_Request_ID="r-2")
    rest("POST", "/users", {"name": "ada"}, X_Request_ID="r-3")
    told = [(each["request_id"], each.get("tenant"), each["position"], each["names"]) for each in lines]
    assert told == [
        ("r-1", "acme", 1, ["TenantCreated"]),
        ("r-2", "globex", 2, ["TenantCreated"]),
        ("r-3", None, 3, ["UserCreated"]),
    ]
    assert {each["actor"] for each in lines} == {"admin"} and lines[0]["stream"] == "tenant-acme"
    events = rest("GET", "/events").json()["items"]
    assert [each["metadata"]["request_id"] for each in events] == ["r-1", "r-2", "r-3"]


def test_what_changed_nothing_is_not_told(rest: Rest, lines: list[dict[str, Any]]) -> None:
    rest("POST", "/tenants?dry_run=true", {"name": "acme"})
    rest("POST", "/tenants", {"name": "Acme"})
    assert lines == []
    rest("POST", "/tenants", {"name": "acme"}, Idempotency_Key="k")
    rest("POST", "/tenants", {"name": "acme"}, Idempotency_Key="k")
    assert len(lines) == 1


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
