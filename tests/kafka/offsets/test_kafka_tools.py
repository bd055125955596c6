"""Kafka's own tools find a group's offsets on every cluster, and its console consumer continues from them."""

from __future__ import annotations

import pytest

from tests.support.estate.groups import Groups, Made, numbered
from tests.support.kafka.kafka_tools import CONSUMER, GROUPS, tool


def read(groups: Groups, cluster: str, count: int) -> list[str]:
    """Read with the console consumer as a member of the group; it commits nothing."""
    servers, topic, name = groups.servers[cluster], groups.topics[cluster], groups.name(cluster)
    words = ["--bootstrap-server", servers, "--topic", topic, "--group", name, "--timeout-ms", "30000"]
    return tool(CONSUMER, *words, "--max-messages", str(count), "--consumer-property", "enable.auto.commit=false")


@pytest.mark.nightly
def test_the_console_consumer_goes_on_on_every_cluster(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-3", numbered(150))
    groups.wait_for(150)
    groups.go_on_at("cluster-3", "r0120")
    for cluster, servers in groups.servers.items():
        described = tool(GROUPS, "--bootstrap-server", servers, "--describe", "--group", groups.name(cluster))
        row = next(line.split() for line in described if groups.topics[cluster] in line.split())
        assert int(row[3]) == groups.stands(cluster)[0], f"CURRENT-OFFSET on {cluster}"
        assert read(groups, cluster, 30) == numbered(30, 120)
