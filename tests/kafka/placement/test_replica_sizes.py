"""Sizes of replicas on a real cluster, and the bytes that were appended to its logs."""

from __future__ import annotations

import os
from typing import Any

import pytest
import sqlalchemy as sa

from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.queries.base.observed import cluster_replication
from tests.eventually import eventually
from tests.kafka.placement.test_replication import Watched, topic, watched
from tests.support.kafka.topics import produce
from workers import replication

__all__ = ["topic", "watched"]

BYTES = 1_000_000


def test_a_clusters_sizes_and_appended_bytes_are_stored(
    watched: Watched, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication, "SIZES_SECONDS", 0.5)
    watched.brokers.create(topic, [[1, 2], [2, 3]])

    def sizes() -> dict[str, Any] | None:
        watched.host.tick()
        with watched.database.engine.connect() as connection:
            found: dict[str, Any] | None = connection.execute(
                sa.select(cluster_replication.c.sizes)
            ).scalar_one_or_none()
        return found

    def with_rate() -> dict[str, Any] | None:
        found = sizes()
        return found if found is not None and found["bytes_in_per_second"] is not None else None

    before = eventually(with_rate, "sizes were read twice", 0.1)
    assert set(before["brokers"]) == {"1", "2", "3"}

    # Random bytes, since others would be compressed; each partition has half of them.
    value = os.urandom(BYTES // 20)
    records = [{"value": value, "partition": number % 2} for number in range(20)]
    produce(watched.brokers.servers, topic, records)

    def grown() -> bool:
        found = sizes()
        return found is not None and all(
            found["brokers"][broker] >= before["brokers"][broker] + least
            for broker, least in (("1", BYTES // 2), ("2", BYTES), ("3", BYTES // 2))
        )

    eventually(grown, "brokers have the bytes of their replicas", 0.1)


def test_only_the_leaders_logs_count_as_appended(watched: Watched, topic: str) -> None:
    watched.brokers.create(topic, [[1, 2], [2, 3]])
    with ReplicaAdmin("east", watched.brokers.servers, {}) as admin:
        first = admin.sizes(admin.observe())
        produce(watched.brokers.servers, topic, [{"value": os.urandom(BYTES // 2), "partition": 1}])
        second = admin.sizes(admin.observe())
    assert first is not None and second is not None
    assert (first.leaders[topic, 0], second.leaders[topic, 0]) == ((1, 0), (1, 0))
    assert first.leaders[topic, 1] == (2, 0) and second.leaders[topic, 1][0] == 2
    assert BYTES // 2 < second.leaders[topic, 1][1] < BYTES // 2 + 1000
