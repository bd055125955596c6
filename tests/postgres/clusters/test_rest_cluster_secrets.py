"""References that clusters' properties may have, and the audit of a trial."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.api.rest import NOBODY_LISTENS, Rest, problem

PASSWORD = "sasl.password"


@pytest.mark.parametrize("path", ["/clusters", "/clusters?dry_run=true"])
def test_a_fifo_or_a_device_as_a_certificate_is_refused_before_a_client_sees_it(
    rest: Rest, path: str, tmp_path: Path, set_to: Callable[..., None]
) -> None:
    set_to(secret_folders=[str(tmp_path)])
    os.mkfifo(tmp_path / "pipe")
    for named in (f"{tmp_path}/pipe", "/dev/stdout", str(tmp_path), "/etc/passwd", "/no/such/file"):
        for key in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"):
            properties = {"security.protocol": "SSL", key: named}
            body = {"name": "c1", "bootstrap_servers": NOBODY_LISTENS, "properties": properties}
            refused = problem(rest("POST", path, {**body, "accept_offline": True}), 422, "properties-invalid")
            assert refused["errors"][0]["pointer"] == f"/properties/{key}"
    # The process answers, and nothing was added or kept as a probe: nothing was connected to.
    assert (
        rest("GET", "/clusters").json()["items"] == rest("GET", "/audit?kind=ClusterProbed").json()["items"] == []
    )


def test_a_dry_run_that_connects_is_in_the_audit_with_what_it_referred_to(
    cluster: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("C6", "the-secret")
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", PASSWORD: "${env:C6}"}
    wanted = {"bootstrap_servers": "127.0.0.1:11", "properties": properties}
    added = {**wanted, "name": "c2", "accept_offline": True}
    assert cluster("POST", "/clusters?dry_run=true", added).status_code == 201
    problem(cluster("PATCH", "/clusters/c1?dry_run=true", wanted), 422, "cluster-unreachable")
    found = cluster("GET", "/audit?kind=ClusterProbed").json()["items"]
    assert [(row["actor"], row["reason"], bool(row["address"])) for row in found] == [
        ("admin", "dry run: 127.0.0.1:11; sasl.password=${env:C6}", True)
    ] * 2
    # What is carried out has an event; what fails has none, and is kept beside the log.
    problem(cluster("PATCH", "/clusters/c1", wanted), 422, "cluster-unreachable")
    assert cluster("PATCH", "/clusters/c1", {**wanted, "accept_offline": True}).status_code == 200
    kinds = [row["kind"] for row in cluster("GET", "/audit").json()["items"]]
    assert kinds == ["ClusterChanged", *["ClusterProbed"] * 3, "ClusterWentOffline", "ClusterAdded"]
    assert "the-secret" not in cluster("GET", "/audit").text


def test_variables_that_no_setting_allows_are_refused_in_a_dry_run_too(cluster: Rest) -> None:
    body = {"properties": {PASSWORD: "${env:HOME}"}, "accept_offline": True}
    refused = problem(cluster("PATCH", "/clusters/c1?dry_run=true", body), 422, "properties-invalid")
    assert "TREELINE_SECRET_VARIABLES" in refused["detail"]
    assert cluster("GET", "/audit?kind=ClusterProbed").json()["items"] == []
