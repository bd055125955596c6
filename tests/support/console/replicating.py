"""Looks at clusters as a worker keeps them, which pages show."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.replication.replication_alerts import alerts
from backend.domain.replication.replication_health import (
    ObservedBroker,
    ObservedCluster,
    ObservedPartition,
    TopicSettings,
    health,
)
from backend.domain.replication.topic_replication import factor_mismatches, seen_topics
from backend.queries.replication.replication import store_health
from tests.support.console.visitors import record
from tests.support.database.postgres import Database

TOPICS = {"acme-retail-prod-orders": 12, "acme-retail-prod-payments": 8, "globex-shop-prod-items": 6}


def looked_at(brokers: int = 6, away: tuple[int, ...] = (), elsewhere: tuple[int, ...] = ()) -> dict[str, Any]:
    """Record three replicas of each partition, on brokers in three racks.

    Brokers that are away keep up with nothing; brokers of `elsewhere` keep up and lead nothing.
    """
    partitions = {}
    for topic, count in TOPICS.items():
        for number in range(count):
            replicas = tuple(1 + (number + step) % brokers for step in range(3))
            isr = tuple(each for each in replicas if each not in away)
            leader = next((each for each in isr if each not in elsewhere), -1)
            partitions[topic, number] = ObservedPartition(replicas, isr, leader)
    seen = ObservedCluster(
        cluster_id="K1",
        brokers={each: ObservedBroker(f"az{1 + each % 3}", each not in away) for each in range(1, brokers + 1)},
        partitions=partitions,
    )
    declared = dict.fromkeys(TOPICS, 3)
    unlike = factor_mismatches(declared, seen_topics(seen, {}, declared), brokers)
    found = health(
        seen,
        dict.fromkeys(TOPICS, TopicSettings(2, unclean_election=False)),
        {each: 30_000 for each in range(1, brokers + 1) if each not in away},
    )
    return {**asdict(found), "alerts": [asdict(each) for each in alerts(found, unlike, "c1")]}


def online(database: Database, cluster: str = "c1", kafka_cluster_id: str = "K1") -> None:
    """A worker has reached it."""
    record(database, RecordOnline(kafka_cluster_id=kafka_cluster_id, brokers=6), CLUSTER, f"cluster-{cluster}")


def look(database: Database, document: dict[str, Any], kafka_cluster_id: str = "K1") -> None:
    """A worker has looked at it just now."""
    with database.engine.begin() as connection:
        store_health(connection, kafka_cluster_id, document)
