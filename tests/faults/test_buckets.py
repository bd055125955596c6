"""Distributors are cut into another number of units: nothing is doubled, nothing missing."""

from __future__ import annotations

import pytest

from tests.estate_fixture import SMALL_ESTATE
from tests.eventually import eventually
from tests.kafka import produce, read_all
from tests.rest_client import RestClient

TOPIC = "acme-retail-prod-orders"


@pytest.mark.nightly
def test_units_read_on_where_those_of_another_number_stopped(boot_estate):
    sent: list[bytes] = []
    for buckets in (2, 3):
        estate = boot_estate(SMALL_ESTATE, partition_buckets=str(buckets))
        assert estate.booted.returncode == 0, estate.booted.stderr
        rest = RestClient(estate.url, estate.token)
        eventually(lambda r=rest, b=buckets: entered(r, "cluster-2")[-1:] == [b], "entered", 0.3)
        batch = [b"%d %03d" % (buckets, n) for n in range(200)]
        records = [{"value": value, "partition": n % 2} for n, value in enumerate(batch)]
        produce(estate.bootstrap_servers("cluster-1"), TOPIC, records)
        sent += batch
        servers = estate.bootstrap_servers("cluster-2")
        eventually(lambda s=servers, all_=frozenset(sent): set(values(s)) == all_, "copied", 0.3)
        assert values(servers) == sorted(sent)
        assert estate.treeline("down").returncode == 0


def entered(rest, cluster):
    rows = rest.ok("GET", "/events?limit=1000")["items"]
    return [
        row["data"]["buckets"]
        for row in rows
        if row["name"] == "LeafEnteredRoutes" and row["data"]["cluster"] == cluster
    ]


def values(servers):
    return sorted(message.value() for message in read_all(servers, TOPIC))
