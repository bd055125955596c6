"""Clusters of the shared estate, with distributors that run by hand, or with the estate's own workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from backend.api.app import create_app
from tests.kafka.offsets.conftest import make_groups, rest, servers
from tests.kafka.switch.by_hand import ByHand
from tests.support.api.rest import Rest, rest_settings
from tests.support.database.postgres import Database
from tests.support.estate.running import RunningEstate

__all__ = ["make_groups", "rest", "servers"]


@pytest.fixture
def hand(estate: RunningEstate, database: Database) -> Iterator[ByHand]:
    """Create three clusters and one stream of two partitions; distributors run by hand only."""
    settings = rest_settings(
        database.url,
        partition_buckets=1,
        probe_timeout_seconds=20.0,
        # Clients of these tests confirm the hold once; it counts for as long as a slow machine needs.
        discovery_hold_ms=600_000,
        switch_hold_seconds=600.0,
    )
    app = create_app(settings)
    found = ByHand(estate, database, Rest(TestClient(app, raise_server_exceptions=False)), settings)
    yield found
    for view in found.views:
        view.close()
    app.state.services.engine.dispose()
