"""Discovery with a zone router: clients of a zone are directed to its nodes while these are reachable."""

from __future__ import annotations

from typing import Any

import pytest

from backend.api.switch import discovery
from tests.postgres.switch.test_discovery import discover
from tests.support.api.rest import Rest, problem
from tests.support.database.postgres import Database
from tests.support.zones.zone_reports import pass_time, report

REPORTS = "/route-epochs/reports"
OWN = "127.0.0.1:9"
"""Bootstrap servers of each cluster of the tests' tree."""


@pytest.fixture(autouse=True)
def always_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the cache of reports, which lasts two seconds."""
    monkeypatch.setattr(discovery, "_NODES_SECONDS", 0.0)


def tell(rest: Rest, zone: str, broker: int, **servers: str) -> None:
    assert rest("POST", REPORTS, report(zone, broker, bootstrap_servers=servers)).status_code == 200


def servers(rest: Rest, **query: Any) -> str:
    return str(discover(rest, **query).json()["bootstrap_servers"])


def test_clients_of_a_zone_are_sent_to_its_living_nodes(tenant: Rest, database: Database) -> None:
    assert servers(tenant, zone="az1") == OWN
    tell(tenant, "az1", 1, c1="10.1.0.20:19100", c2="10.1.0.20:19200")
    tell(tenant, "az2", 2, c1="10.2.0.20:19100")
    told = [servers(tenant, **query) for query in ({"zone": "az1"}, {"zone": "az2"}, {"zone": "az3"}, {})]
    assert told == ["10.1.0.20:19100,10.2.0.20:19100", "10.2.0.20:19100,10.1.0.20:19100", OWN, OWN]
    other = {**report("az1", 1, bootstrap_servers={"c1": "10.1.0.21:19100"}), "node": "zr-az1-b"}
    assert tenant("POST", REPORTS, other).status_code == 200
    assert servers(tenant, zone="az1") == "10.1.0.20:19100,10.1.0.21:19100,10.2.0.20:19100"
    pass_time(database, 0, since=600)
    pass_time(database, 60, "zr-az1", "zr-az1-b")
    assert [servers(tenant, zone=zone) for zone in ("az1", "az2")] == [OWN, "10.2.0.20:19100"]
    tell(tenant, "az1", 1, c1="10.1.0.20:19100")
    assert servers(tenant, zone="az1") == "10.1.0.20:19100,10.2.0.20:19100"


def test_clients_that_speak_tls_are_told_the_cluster_itself(tenant: Rest) -> None:
    tell(tenant, "az1", 1, c1="10.1.0.20:19100")
    change = {"properties": {"security.protocol": "SASL_SSL"}, "accept_offline": True}
    assert tenant("PATCH", "/clusters/c1", change).status_code == 200
    assert servers(tenant, zone="az1") == OWN


def test_a_client_that_asks_by_its_etag_hears_of_the_node(tenant: Rest) -> None:
    before = discover(tenant, zone="az1").headers["ETag"]
    path = "/discovery?tenant=acme&instance=retail&environment=prod&zone=az1"
    assert tenant("GET", path, If_None_Match=before).status_code == 304
    tell(tenant, "az1", 1, c1="10.1.0.20:19100")
    assert tenant("GET", path, If_None_Match=before).status_code == 200


@pytest.mark.parametrize("server", ["10.1.0.20", "10.1.0.20:port", "a:1,b:2", "http://a:1", "", " a:1"])
def test_what_is_no_server_is_not_taken(tenant: Rest, server: str) -> None:
    answer = tenant("POST", REPORTS, report("az1", 1, bootstrap_servers={"c1": server}))
    assert problem(answer, 422, "invalid")["errors"][0]["pointer"] == "/bootstrap_servers/c1"
