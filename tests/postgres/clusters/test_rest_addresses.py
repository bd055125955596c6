"""Nothing is sent to a cluster whose address, written or resolved, is forbidden by settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backend.domain.base.errors import ClusterUnreachable
from backend.kafka.base.client_config import client_config
from backend.settings import settings
from tests.support.api.rest import Rest, problem

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


@pytest.mark.parametrize("address", ["http://a\\@b/token", "http://", "https://u@a/", "http://[a/"])
def test_an_address_of_tokens_that_two_could_read_as_two_hosts_is_none(rest: Rest, address: str) -> None:
    body = {"name": "c1", "bootstrap_servers": "127.0.0.1:9", "accept_offline": True}
    answer = rest("POST", "/clusters", {**body, "properties": {TOKENS: address}})
    assert problem(answer, 422, "address-forbidden")["errors"][0]["pointer"] == f"/properties/{TOKENS}"


SECRET = {"sasl.username": "app", "sasl.password": "${env:C6}"}


def test_a_cluster_s_secrets_do_not_go_to_another_address_unless_given_anew(rest: Rest, monkeypatch) -> None:
    monkeypatch.setenv("C6", "x")
    asked: list[str] = []
    monkeypatch.setattr("backend.changes.clusters.probe", _nobody(asked))
    body = {"bootstrap_servers": "127.0.0.1:9", "properties": SECRET, "accept_offline": True}
    assert rest("POST", "/clusters", {"name": "c1", **body}).status_code == 201
    there = {"bootstrap_servers": "127.0.0.1:11", "accept_offline": True}
    for change in (there, {**there, "properties": {**SECRET, "sasl.password": "***"}}):
        for path in ("/clusters/c1", "/clusters/c1?dry_run=true"):
            refused = problem(rest("PATCH", path, change), 422, "properties-invalid")
            assert (
                refused["errors"][0]["pointer"] == "/properties/sasl.password"
                and "give it again" in refused["detail"]
            )
    assert asked == ["127.0.0.1:9"]
    assert rest("PATCH", "/clusters/c1", {**there, "properties": SECRET}).status_code == 200
    assert asked == ["127.0.0.1:9", "127.0.0.1:11"]


def _nobody(asked: list[str]) -> Callable[..., None]:
    def probe(servers: str, *_: object) -> None:
        asked.append(servers)
        raise ClusterUnreachable("nobody")

    return probe


def test_secrets_are_no_files_of_the_system_even_if_nobody_needs_to_answer(rest: Rest) -> None:
    for path in ("/proc/self/environ", "/dev/zero", "/dev/../proc/self/environ"):
        properties = {"sasl.username": "app", "sasl.password": f"${{file:{path}}}"}
        body = {"name": "c1", "bootstrap_servers": "127.0.0.1:9", "accept_offline": True, "properties": properties}
        refused = problem(rest("POST", "/clusters", body), 422, "properties-invalid")
        assert refused["errors"][0]["pointer"] == "/properties/sasl.password"


def test_a_change_is_held_to_it_too(cluster: Rest) -> None:
    body = {"bootstrap_servers": "169.254.169.254:80", "accept_offline": True}
    problem(cluster("PATCH", "/clusters/c1", body), 422, "address-forbidden")


def test_a_name_is_held_to_what_it_stands_for_whenever_a_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    client_config("localhost:9", {})
    denied = {"denied_networks": ["127.0.0.0/8", "::1/128"]}
    monkeypatch.setattr("backend.kafka.base.destinations.settings", lambda: settings().model_copy(update=denied))
    with pytest.raises(ClusterUnreachable, match="localhost"):
        client_config("localhost:9", {})
