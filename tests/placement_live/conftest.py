"""One cluster of three brokers for the folder; a test that breaks it is followed by its repair."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from backend.kafka.replica_admin import ReplicaAdmin
from tests.eventually import eventually
from tests.kafka import DEADLINE_SECONDS
from tests.placement_live.brokers import NODES, Brokers, all_rates


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    brokers = Brokers(tmp_path_factory.mktemp("replicas"))
    try:
        brokers.start(*NODES)
        yield brokers
    finally:
        brokers.end()


@pytest.fixture
def brokers(cluster: Brokers) -> Iterator[Brokers]:
    """All three running, with no throttle; also for the next test, whatever the test does."""
    eventually(lambda: len(cluster.admin.list_topics(timeout=10).brokers) == len(NODES), "all brokers are there")
    yield cluster
    cluster.start(*NODES)
    eventually(lambda: len(cluster.admin.list_topics(timeout=10).brokers) == len(NODES), "all brokers are back")
    for node, rates in all_rates(cluster).items():
        entries = [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in rates]
        if entries:
            resource = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=entries)
            (answer,) = cluster.admin.incremental_alter_configs([resource]).values()
            answer.result(DEADLINE_SECONDS)


@pytest.fixture
def admin(brokers: Brokers) -> Iterator[ReplicaAdmin]:
    with ReplicaAdmin("east", brokers.servers, {}) as opened:
        yield opened
