"""Kafka's own tools find a group's offsets on every cluster, and its console consumer goes on there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from backend.estate.jars import classpath, ensure_jars, java
from backend.settings import settings
from tests.offsets.groups import Groups, Made, numbered

POM = Path(__file__).with_name("kafka_tools.xml")
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def tool(name: str, *words: str) -> list[str]:
    """Lines that a tool writes."""
    jars = ensure_jars(settings().cache, print, pom=POM, name="tools")
    command = [java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath(jars), name, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def read(groups: Groups, cluster: str, count: int) -> list[str]:
    """What the console consumer reads as a member of the group; it commits nothing."""
    servers, topic, name = groups.servers[cluster], groups.topics[cluster], groups.name(cluster)
    words = ["--bootstrap-server", servers, "--topic", topic, "--group", name, "--timeout-ms", "30000"]
    return tool(CONSOLE, *words, "--max-messages", str(count), "--consumer-property", "enable.auto.commit=false")


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
