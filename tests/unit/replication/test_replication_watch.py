"""The watch of a cluster's replication tells a failing database from a cluster that does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from backend.domain.base.errors import ValueInvalid
from backend.kafka.base.errors import KafkaCallFailed
from backend.settings import Settings
from workers import cluster_watch
from workers.replication import ReplicationWatch


class AtOnce:
    """Runner that takes the place of a thread."""

    def __init__(self, *_: Any) -> None:
        pass

    def begin(self, work: Callable[[], None]) -> None:
        work()


class NoDatabase:
    def begin(self) -> None:
        raise ValueInvalid("the database is full")


def reasons(monkeypatch: pytest.MonkeyPatch, read: Callable[[Any], Any]) -> list[str]:
    """Return the reasons that one observation would store."""
    found: list[str] = []
    monkeypatch.setattr(cluster_watch, "OneThread", AtOnce)
    monkeypatch.setattr(ReplicationWatch, "_read", read)
    monkeypatch.setattr(ReplicationWatch, "_store_reason", lambda self, reason: found.append(reason))
    row: Any = SimpleNamespace(name="c1", kafka_cluster_id="id-1")
    engine: Any = NoDatabase()
    watch = ReplicationWatch(row, engine, Settings(database_url="postgresql://nowhere"))
    watch.begin_if_due()
    assert watch._due > time.monotonic(), "the next observation waits"
    return found


def test_a_database_that_fails_is_no_reason_against_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reasons(monkeypatch, lambda _: (SimpleNamespace(partitions={}), {"brokers": []})) == []


def test_a_cluster_that_does_not_answer_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: Any) -> None:
        raise KafkaCallFailed("timed out after 5 s")

    assert reasons(monkeypatch, read) == ["timed out after 5 s"]
