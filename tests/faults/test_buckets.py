"""Distributors get another number of tasks: no record is duplicated or missing."""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import SMALL_ESTATE
from tests.support.kafka.topics import produce, read_all

TOPIC = "acme-retail-prod-orders"


@pytest.mark.nightly
def test_tasks_read_on_where_those_of_another_number_stopped(boot_estate):
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


@pytest.mark.nightly
def test_a_distributor_that_gets_more_partitions_is_cut_into_more_tasks_while_records_flow(boot_estate):
    estate = boot_estate(SMALL_ESTATE, partition_buckets="1", partitions_per_bucket="8")
    assert estate.booted.returncode == 0, estate.booted.stderr
    rest = RestClient(estate.url, estate.token)
    sent: list[bytes] = []

    def send(count):
        batch = [b"%06d" % (len(sent) + n) for n in range(count)]
        records = [{"value": value, "partition": n % 2} for n, value in enumerate(batch)]
        produce(estate.bootstrap_servers("cluster-1"), TOPIC, records)
        sent.extend(batch)

    send(500)
    before = eventually(lambda: entered(rest, "cluster-2"), "the leaf is entered", 0.3)[-1]
    streams = "/tenants/acme/instances/retail/environments/prod/streams"
    rest.ok("POST", streams, {"name": "wide", "partitions": 8 * before})

    def resharded():
        send(50)
        return entered(rest, "cluster-2")[-1] > before

    eventually(resharded, "the leaf is entered with more units", 0.3)
    send(500)
    servers = estate.bootstrap_servers("cluster-2")
    eventually(lambda: set(values(servers)) == set(sent), "copied", 0.3)
    assert values(servers) == sorted(sent)


def entered(rest, cluster):
    rows = rest.ok("GET", "/events?limit=1000")["items"]
    return [
        row["data"]["buckets"]
        for row in rows
        if row["name"] == "LeafEnteredRoutes" and row["data"]["cluster"] == cluster
    ]


def values(servers):
    return sorted(message.value() for message in read_all(servers, TOPIC))
