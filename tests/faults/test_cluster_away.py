"""A cluster that is down at the start: the others distribute, its absence is shown, and it catches up later."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.kafka.topics import produce, read_all

THREE_CLUSTERS = PROJECT_ROOT / "tests" / "support" / "estate" / "three.yaml"
TOPIC = "acme-retail-prod-orders"
RECORDS = 300


@pytest.mark.nightly
def test_the_rest_works_without_it_and_it_catches_up_when_it_comes(boot_estate):
    first = boot_estate(THREE_CLUSTERS)
    assert first.booted.returncode == 0, first.booted.stderr
    rest = RestClient(first.url, first.token)
    path = "/tenants/acme/instances/retail/environments/prod/streams/orders"
    eventually(lambda: set(rest.ok("GET", path)["applied"].values()) == {"applied"}, "the stream is everywhere")
    storage = first.home / "data" / "three" / "cluster-3" / "broker-1" / "data" / "meta.properties"
    first.treeline("down")
    whole = storage.read_text()
    storage.write_text("broken")

    estate = boot_estate(THREE_CLUSTERS)
    rest = RestClient(estate.url, estate.token)
    offline = eventually(lambda: told_offline(rest), "cluster-3 is told to be offline")
    assert offline["reason"]
    records = [{"value": b"%d" % n, "key": b"k", "partition": n % 2} for n in range(RECORDS)]
    produce(estate.bootstrap_servers("cluster-1"), TOPIC, records)
    eventually(lambda: len(values(estate, "cluster-2")) == RECORDS, "cluster-2 has all")
    blocked = [row for row in rest.ok("GET", "/trees/main/distributors") if row["state"] == "blocked"]
    assert {(row["cluster"], row["target"]) for row in blocked} >= {("cluster-2", "cluster-3")}
    assert all("cluster-3 is offline" in row["reason"] for row in blocked)

    storage.write_text(whole)
    eventually(lambda: rest.ok("GET", "/clusters/cluster-3")["state"] == "online", "cluster-3 is back", 0.5)
    eventually(lambda: len(values(estate, "cluster-3")) == RECORDS, "cluster-3 has all", 0.5)
    verified = estate.treeline("verify", "--records", "100", "--json")
    assert json.loads(verified.stdout)["ok"], verified.stdout
    assert set(Counter(values(estate, "cluster-3")).values()) == {1}
    assert set(Counter(values(estate, "cluster-1")).values()) == {1}


def told_offline(rest):
    row = rest.ok("GET", "/clusters/cluster-3")
    return row if row["state"] == "offline" else None


def values(estate, cluster):
    """Return the values of all records."""
    return [message.value() for message in read_all(estate.bootstrap_servers(cluster), TOPIC)]
