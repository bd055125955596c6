"""Applications of acme beside those of globex, as tests make and ask them."""

from __future__ import annotations

from typing import Any

from httpx2 import Response
from pydantic import SecretStr

from backend import deciders
from tests.support.api.callers import As, new_user
from tests.support.api.rest import Rest
from tests.support.api.streams import worker_records

HOME = "/tenants/acme/instances/retail/environments/prod"
APPLICATIONS = f"{HOME}/applications"
BILLING = "acme/retail/prod/billing"
ORDERS, ITEMS = "acme/retail/prod/orders", "globex/retail/prod/items"
THERE = "/tenants/globex/instances/retail/environments/prod"
CLUSTERS = ("c1", "c2", "c3")


def set_key(rest: Rest, key: str | None) -> None:
    """Let the application seal passwords by this key."""
    services = rest.client.app.state.services  # type: ignore[attr-defined]
    services.config.secrets_key = None if key is None else SecretStr(key)


def declare(rest: Rest, name: str = "billing", **fields: Any) -> dict[str, Any]:
    """Declare an application of acme; as it is shown."""
    answer = rest("POST", APPLICATIONS, {"name": name, **fields})
    assert answer.status_code == 201, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def states(shown: dict[str, Any], operation: str) -> dict[str, str]:
    """Stream -> state, of `produces` or `consumes`."""
    return {each["stream"]: each["state"] for each in shown[operation]}


def decide(rest: Rest, decision: str, stream: str = ITEMS, operation: str = "consume", **fields: Any) -> Response:
    """Decide what billing asked for, or what `application` did."""
    body = {"application": BILLING, "stream": stream, "operation": operation, "decision": decision, **fields}
    return rest("POST", f"/tenants/{stream.partition('/')[0]}/grants", body)


def records(rest: Rest, command: Any, application: str = BILLING) -> None:
    """Record a worker's finding about an application."""
    worker_records(rest, command, deciders.APPLICATION, f"application-{application}")


def globex_owner(rest: Rest) -> As:
    """Return an owner of globex."""
    return new_user(rest, "gil", globex="owner")
