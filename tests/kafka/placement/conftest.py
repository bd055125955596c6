"""One cluster of three brokers for the folder, which is repaired after each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from fastapi.testclient import TestClient

from backend.api.app import create_app
from backend.dispatch import Dispatcher
from backend.eventlog.registry import domain_registry
from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.projections.catalogue import PROJECTIONS
from backend.settings import Settings
from tests.eventually import eventually
from tests.kafka.placement.planner import Made, Planner
from tests.support.api.rest import Rest, rest_settings
from tests.support.database.postgres import Database
from tests.support.kafka.three_brokers import NODES, Brokers, all_rates
from tests.support.kafka.topics import DEADLINE_SECONDS
from workers import context
from workers.placement.host import placement_run_host
from workers.placement.planning import PlacementHost


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
    """Provide the three running brokers without throttles, and restore that state after the test."""
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


@pytest.fixture
def make_planner(brokers: Brokers, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    dispatcher = Dispatcher(database.engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: dispatcher)
    engines, planners = [], []

    def make(**changes: Any) -> Planner:
        settings: Settings = rest_settings(database.url, probe_timeout_seconds=20.0, **changes)
        app = create_app(settings)
        engines.append(app.state.services.engine)
        rest = Rest(TestClient(app, raise_server_exceptions=False))
        added = rest("POST", "/clusters", {"name": "east", "bootstrap_servers": brokers.servers})
        assert added.status_code == 201, added.text
        hosts = PlacementHost(database.engine, settings), placement_run_host(database.engine, settings)
        planners.append(Planner(rest, *hosts, brokers.servers))
        return planners[-1]

    yield make
    for planner in planners:
        planner.stop(monkeypatch)
    for engine in engines:
        engine.dispose()
