"""Nothing is sent to a cluster whose address, or what its name stands for, settings forbid."""

from __future__ import annotations

import pytest

from backend.domain.errors import ClusterUnreachable
from backend.kafka.client_config import client_config
from backend.settings import settings
from tests.integration.conftest import Rest, problem

TOKENS = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    "servers",
    [
        "169.254.169.254:80",
        "127.0.0.1:9,169.254.169.254:80",
        "[::ffff:169.254.169.254]:80",
        "0xa9fea9fe:80",
        "2852039166:80",
        "0.0.0.0:9",
    ],
)
def test_a_forbidden_address_is_refused_even_if_nobody_needs_to_answer(rest: Rest, servers: str) -> None:
    body = {"name": "c1", "bootstrap_servers": servers, "accept_offline": True}
    refused = problem(rest("POST", "/clusters", body), 422, "address-forbidden")
    assert "TREELINE_DENIED_NETWORKS" in refused["detail"]
    assert refused["errors"][0]["pointer"] == "/bootstrap_servers"
    assert rest("GET", "/clusters").json()["items"] == []


def test_so_is_one_that_tokens_would_be_fetched_from(rest: Rest) -> None:
    properties = {TOKENS: "http://169.254.169.254/token"}
    body = {"name": "c1", "bootstrap_servers": "127.0.0.1:9", "accept_offline": True, "properties": properties}
    refused = problem(rest("POST", "/clusters", body), 422, "address-forbidden")
    assert refused["errors"][0]["pointer"] == f"/properties/{TOKENS}"


def test_a_change_is_held_to_it_too(cluster: Rest) -> None:
    body = {"bootstrap_servers": "169.254.169.254:80", "accept_offline": True}
    problem(cluster("PATCH", "/clusters/c1", body), 422, "address-forbidden")


def test_a_name_is_held_to_what_it_stands_for_whenever_a_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    client_config("localhost:9", {})
    denied = {"denied_networks": ["127.0.0.0/8", "::1/128"]}
    monkeypatch.setattr("backend.kafka.destinations.settings", lambda: settings().model_copy(update=denied))
    with pytest.raises(ClusterUnreachable, match="localhost"):
        client_config("localhost:9", {})
