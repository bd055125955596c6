"""Clients log in through a node of the zone router as they do at the cluster itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from backend.estate.ports import free_ports
from tests.kafka.access.conftest import SCRAM, Login
from tests.kafka.access.test_access_admin import CLUSTER, properties
from tests.nightly import some_now
from tests.support.estate.running import RunningEstate
from tests.support.kafka.older_clients import NEWEST, RELEASES, environment
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import Node

LISTS = f"""
import sys
from confluent_kafka import libversion
from confluent_kafka.admin import AdminClient
server, username, password = sys.argv[1:]
client = AdminClient({{
    "bootstrap.servers": server, "client.id": "zone=az1", "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "{SCRAM}", "sasl.username": username, "sasl.password": password, "log_level": 0,
}})
told = client.list_topics(timeout={DEADLINE_SECONDS})
print(libversion()[0], *(each.port for each in told.brokers.values()))
"""


@pytest.fixture(scope="module")
def node(secured: RunningEstate, control_plane: Login, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("zone-router")
    file: Path = folder / "zone-router.yaml"
    bootstrap, broker, metrics = free_ports(3)
    (folder / "password").write_text(control_plane.password)
    login = properties(control_plane) | {"sasl.password": f"${{file:{folder / 'password'}}}"}
    described = {"bootstrap_servers": secured.bootstrap_servers(CLUSTER), "properties": login}
    listeners = {CLUSTER: {"bootstrap": bootstrap, "brokers": {1: broker}}}
    document = {
        "zones": {"az1": None},
        "clusters": {CLUSTER: described},
        "nodes": {"a": {"zone": "az1", "host": "127.0.0.1", "metrics": metrics, "listeners": listeners}},
    }
    file.write_text(yaml.safe_dump(document))
    node = Node("a", "az1", bootstrap, {1: broker}, metrics, file, folder / "node.log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREELINE_SECRET_FOLDERS", json.dumps([str(folder)]))
        node.start()
    yield node
    node.end()


@some_now("release", RELEASES[1:], now=(0,))  # by SCRAM, 2.3.0 is not let in by the cluster itself, either
def test_every_release_logs_in(node: Node, control_plane: Login, release: str):
    """librdkafka up to 2.6 sends no handshake, and is turned away, where SaslHandshake begins at version 1."""
    done = subprocess.run(
        [sys.executable, "-c", LISTS, node.servers, control_plane.username, control_plane.password],
        env={**os.environ, **environment(release)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    version, *ports = done.stdout.split()
    assert release in (NEWEST, version)
    assert ports == [str(node.brokers[1])]
