"""Two clusters for these tests, and a control plane that answers what a test wants."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.kafka.client.brokers import Cluster, boot, wait_started
from tests.support.api.control_plane import ControlPlane
from tests.support.kafka import topics as kafka


@pytest.fixture(scope="package")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cluster]]:
    """Return clusters by name; a test that pauses or kills one brings it back."""
    started = {name: boot(name, tmp_path_factory.mktemp(name)) for name in ("cluster-1", "cluster-2")}
    try:
        for cluster in started.values():
            wait_started(cluster)
        yield started
    finally:
        for cluster in started.values():
            cluster.kill()


@pytest.fixture
def plane(clusters: dict[str, Cluster]) -> Iterator[ControlPlane]:
    made = ControlPlane({name: cluster.servers for name, cluster in clusters.items()})
    yield made
    if not made.stopping:
        made.stop()


@pytest.fixture
def topic(clusters: dict[str, Cluster]) -> str:
    """Return the logical name of a topic with three partitions; both clusters have it under technical names."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    for cluster in clusters.values():
        kafka.create_topic(cluster.servers, technical(cluster.name, name), 3)
    return name


def technical(cluster: str, topic: str) -> str:
    """Return the technical name of a topic of `ControlPlane`'s environment."""
    return f"acme-retail-prod-{topic}" if cluster == "cluster-1" else f"prod.acme.retail.{topic}"
