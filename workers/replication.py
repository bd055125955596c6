"""Observer of the replication of all online clusters; it stores its last observation of each.

An observation is one large request and two small ones; settings are read every minute, those of new topics at
once, and sizes of replicas every minute. Nothing here is an event: what is missed now is observed next time. Two
processes that observe at the same time, because a lease moved, do no harm.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Engine

from backend.domain.replication.replica_sizes import ReplicaSizes, appended_bytes
from backend.domain.replication.replication_alerts import alerts
from backend.domain.replication.replication_health import ObservedCluster, TopicSettings, health
from backend.domain.replication.topic_replication import factor_mismatches, seen_topics
from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.clusters import broker_presence
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.replication import replication
from backend.queries.topics.declared_factors import declared_factors
from backend.settings import Settings
from workers.cluster_watch import ClusterWatch
from workers.topics import desired_topics

PARTITIONS_A_SECOND = 10_000
"""Partitions of one cluster that are observed per second, on average: a cluster with more than 100,000 is observed
less often than every ten seconds. Each takes some 5 microseconds, so at most a twentieth of a processor's time.
"""
TOPICS_A_SECOND = 100
"""Topics whose settings are read per second, on average: some 300 microseconds each, including the broker's
time."""
REPLICAS_A_SECOND = 5_000
"""Replicas whose sizes are read per second, on average: on clusters with more than 300,000 replicas, this is less
often than every minute. Each takes some 10 microseconds.
"""
SIZES_SECONDS = 60.0
_TIMES_A_PROBE = 6
"""Factor by which an answer may take longer than a probe: it covers every partition."""


class ReplicationHost:
    """Observer of one process; `tick` is called about once a second and waits for no cluster."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._position: int | None = None
        self._watches: dict[str, ReplicationWatch] = {}

    def tick(self) -> None:
        """Start an observation of each cluster that is due, unless one is under way. Raises DomainError."""
        self._read()
        for watch in self._watches.values():
            watch.begin_if_due()

    def _read(self) -> None:
        with self._engine.begin() as connection:
            position = desired_topics.position(connection)
            if position == self._position:
                return
            rows = list_clusters(connection)
            declared = declared_factors(connection)
            ids = [row.kafka_cluster_id for row in rows if row.kafka_cluster_id]
            replication.delete_except(connection, ids)
            broker_presence.delete_except(connection, ids)
        watched: dict[str, ReplicationWatch] = {}
        for row in rows:
            # The reconcile loop finds out when a cluster that does not answer is back.
            if row.state == "online" and row.kafka_cluster_id is not None:
                known = self._watches.get(row.name)
                same = known is not None and known.same(row)
                watch = known if known and same else ReplicationWatch(row, self._engine, self._settings)
                watch.declared = declared.get(row.name, {})
                watched[row.name] = watch
        for name, watch in self._watches.items():
            if watched.get(name) is not watch:
                watch.end()
        self._position, self._watches = position, watched


class ReplicationWatch(ClusterWatch):
    """The replication of one cluster."""

    def __init__(self, row: ClusterRow, engine: Engine, settings: Settings) -> None:
        assert row.kafka_cluster_id is not None
        super().__init__("replication", row, engine, settings)
        self._id = row.kafka_cluster_id
        self._admin: ReplicaAdmin | None = None
        self._settings_due = float("-inf")
        self._topics: Mapping[str, TopicSettings] = {}
        self._asked: frozenset[str] = frozenset()
        """Topics whose settings were requested; some may be hidden."""
        self._lag_times_ms: Mapping[int, int] = {}
        self._partitions = 0
        self._observed: tuple[ObservedCluster, dict[str, Any]] | None = None
        self._sizes: ReplicaSizes | None = None
        self._sizes_at = self._sizes_due = float("-inf")
        self.declared: Mapping[str, int] = {}
        """Declared replication factors by topic."""

    @property
    def _pause(self) -> float:
        return max(self._settings.replication_look_seconds, self._partitions / PARTITIONS_A_SECOND)

    def _store_reason(self, reason: str) -> None:
        with self._engine.begin() as connection:
            replication.store_failure(connection, self._id, reason)

    def observe(self) -> None:
        """Observe the cluster once. Raises KafkaCallFailed, DomainError."""
        self._observed = self._read()

    def store(self) -> None:
        """Store the observation, and the sizes of replicas if they are due. Raises DomainError."""
        assert self._observed is not None
        (seen, document), self._observed = self._observed, None
        brokers = {each["id"]: (each["is_here"], not each["replicas"]) for each in document["brokers"]}
        with self._engine.begin() as connection:
            broker_presence.store_brokers(connection, self._id, brokers)
            replication.store_health(connection, self._id, document)
        self._store_sizes(seen)

    def _store_sizes(self, seen: ObservedCluster) -> None:
        """Store the sizes of replicas if they are due, and what was appended since they were last read."""
        if self._admin is None or time.monotonic() < self._sizes_due:
            return
        before, self._sizes = self._sizes, None
        try:
            self._sizes = self._admin.sizes(seen)
        except KafkaCallFailed as error:
            self.log.warning("replication: sizes not read", cluster=self._row.name, reason=error.reason)
        since, self._sizes_at = self._sizes_at, time.monotonic()
        replicas = sum(len(each.replicas) for each in seen.partitions.values())
        self._sizes_due = self._sizes_at + max(SIZES_SECONDS, replicas / REPLICAS_A_SECOND)
        document = None
        if self._sizes is not None:
            rate = None
            if before is not None:
                rate = appended_bytes(before, self._sizes) / (self._sizes_at - since)
            document = {"bytes_in_per_second": rate, "brokers": self._sizes.brokers}
        with self._engine.begin() as connection:
            replication.store_sizes(connection, self._id, document)

    def _read(self) -> tuple[ObservedCluster, dict[str, Any]]:
        if self._admin is None:
            row, seconds = self._row, _TIMES_A_PROBE * self._settings.probe_timeout_seconds
            self._admin = ReplicaAdmin(row.name, row.bootstrap_servers, row.properties, seconds)
        seen = self._admin.observe()
        if seen.cluster_id != self._id:
            raise KafkaCallFailed(f"another Kafka cluster answers: {seen.cluster_id} instead of {self._id}")
        self._partitions = len(seen.partitions)
        self._read_settings(self._admin, seen)
        found = health(seen, self._topics, self._lag_times_ms)
        topics = seen_topics(seen, self._topics, self.declared)
        here = sum(each.is_here for each in seen.brokers.values())
        unlike = factor_mismatches(self.declared, topics, here)
        return seen, {
            **asdict(found),
            "fewer_than_declared": asdict(unlike.fewer),
            "more_than_declared": asdict(unlike.more),
            "alerts": [asdict(each) for each in alerts(found, unlike, self._row.name)],
            "declared_topics": {topic: asdict(each) for topic, each in topics.items()},
        }

    def _read_settings(self, admin: ReplicaAdmin, seen: ObservedCluster) -> None:
        topics = {topic for topic, _ in seen.partitions}
        if time.monotonic() >= self._settings_due:
            self._lag_times_ms = admin.lag_times_ms(
                [broker for broker, each in seen.brokers.items() if each.is_here]
            )
            self._topics = admin.topic_settings(sorted(topics))
            pause = max(self._settings.replication_settings_seconds, len(topics) / TOPICS_A_SECOND)
            self._settings_due = time.monotonic() + pause
        elif new := topics - self._asked:
            self._topics = {**self._topics, **admin.topic_settings(sorted(new))}
        self._asked = frozenset(topics)

    def _close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None
