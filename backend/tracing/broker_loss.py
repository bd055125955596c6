"""What would be lost if a broker of a live cluster died now: asked of the cluster at this moment, answered by
the lab.
"""

from __future__ import annotations

from backend.domain.errors import ClusterSilent, NotFound
from backend.domain.replication_health import ClusterSeen, Place, TopicSettings
from backend.kafka.errors import KafkaCallFailed
from backend.kafka.replica_admin import ReplicaAdmin
from backend.queries.clusters import ClusterRow
from backend.replication_lab.what_if import Led, WhatIf, if_broker_dies

_UNKNOWN = TopicSettings(min_insync_replicas=1, unclean_election=False)
"""Kafka's own defaults, for topics whose settings may not be seen."""


def what_if_broker_dies(cluster: ClusterRow, broker: int, timeout_seconds: float) -> WhatIf[Place]:
    """Ask the cluster for its leaders and replicas in sync, and play the death of the broker with each partition.

    Raises ClusterSilent, and NotFound for a broker that the cluster does not have.
    """
    try:
        with ReplicaAdmin(cluster.name, cluster.bootstrap_servers, cluster.properties, timeout_seconds) as admin:
            seen = admin.look()
            if cluster.kafka_cluster_id not in (None, seen.cluster_id):
                raise ClusterSilent(f"{cluster.name}: another Kafka cluster answers: {seen.cluster_id}")
            if broker not in seen.brokers:
                known = ", ".join(str(each) for each in sorted(seen.brokers)[:20])
                raise NotFound(f"{cluster.name} has no broker {broker}; it has {known}")
            topics = sorted({topic for (topic, _), led in seen.partitions.items() if broker in led.replicas})
            settings = admin.topic_settings(topics)
    except KafkaCallFailed as error:
        raise ClusterSilent(f"leaders and replicas could not be seen: {error.reason}") from error
    return _played(seen, broker, settings)


def _played(seen: ClusterSeen, broker: int, settings: dict[str, TopicSettings]) -> WhatIf[Place]:
    here = frozenset(id_ for id_, found in seen.brokers.items() if found.is_here)
    partitions = (
        (
            place,
            Led(
                led.replicas,
                frozenset(led.isr),
                led.leader,
                settings.get(place[0], _UNKNOWN).min_insync_replicas,
            ),
        )
        for place, led in sorted(seen.partitions.items())
    )
    return if_broker_dies(broker, partitions, here)
