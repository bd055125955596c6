"""The source document's case: a cluster comes online after the first 24 records of a topic were deleted.

The group has committed 35. On the new cluster it continues at the right record, not at offset 35.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.estate.groups import numbered, of_stream
from tests.support.estate.running import DEFAULT_ESTATE
from tests.support.kafka.topics import DEADLINE_SECONDS

THREE = DEFAULT_ESTATE.parent.parent / "tests" / "support" / "estate" / "three.yaml"
RETAIL = "/tenants/acme/instances/retail/environments"
TWO_LEAVES = {"level": 1, "children": [{"cluster": "cluster-1"}, {"cluster": "cluster-2"}]}
THREE_LEAVES = {
    "level": 2,
    "children": [
        {"cluster": "cluster-1"},
        {"level": 1, "children": [{"cluster": "cluster-2"}, {"cluster": "cluster-3"}]},
    ],
}


@pytest.mark.nightly
def test_a_group_on_a_cluster_that_is_brought_online(boot_estate):
    estate = boot_estate(THREE)
    rest = RestClient(estate.url, estate.token)
    rest.ok("PUT", "/trees/main", TWO_LEAVES)
    rest.ok("POST", RETAIL, {"name": "exact", "offset_mode": "exact"})
    path = f"{RETAIL}/exact/streams"
    rest.ok("POST", path, {"name": "orders", "partitions": 1})
    eventually(lambda: set(rest.ok("GET", f"{path}/orders")["applied"].values()) == {"applied"}, "it is applied")
    servers = {name: estate.bootstrap_servers(name) for name in ("cluster-1", "cluster-2")}
    groups = of_stream(rest, servers, ("acme", "retail", "exact", "orders"))
    # One record at a time on a log without markers: offsets are those of the document.
    groups.produce("cluster-1", numbered(40))
    groups.wait_for(40)
    groups.commit("cluster-1", 35)
    groups.until_applied("cluster-1", 35)
    for cluster in servers:
        at = groups.offset_of(cluster, "r0024")
        admin = AdminClient({"bootstrap.servers": servers[cluster]})
        (gone,) = admin.delete_records([TopicPartition(groups.topics[cluster], 0, at)]).values()
        gone.result(DEADLINE_SECONDS)
    rest.ok("PUT", "/trees/main", THREE_LEAVES)
    eventually(lambda: rest.ok("GET", f"{path}/orders")["applied"].get("cluster-3") == "applied", "it has a topic")
    servers["cluster-3"] = estate.bootstrap_servers("cluster-3")
    groups = replace(of_stream(rest, servers, groups.place), group=groups.group)
    groups.wait_for(16, "cluster-3")
    groups.until_applied("cluster-1", 35)
    log = groups.log("cluster-3")
    assert (log[0][1], len(log)) == ("r0024", 16)
    assert groups.next_value("cluster-3") == "r0035"
    assert groups.stands("cluster-3")[0] < 35
