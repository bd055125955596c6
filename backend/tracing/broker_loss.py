"""What would be lost if a broker of a live cluster died now: asked of the cluster at this moment, answered by
the lab.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.domain.errors import ClusterSilent, NotFound
from backend.domain.replication_health import MOST_NAMED, ClusterSeen, Place, TopicSettings
from backend.domain.words import counted
from backend.kafka.errors import KafkaCallFailed
from backend.kafka.replica_admin import ReplicaAdmin
from backend.queries.clusters import ClusterRow
from backend.replication_lab.what_if import Led, WhatIf, if_broker_dies
from backend.tracing.electing import look

OUTCOMES = {
    "offline": "nobody can lead until it is back; what is committed there is lost if its disk is",
    "refusing": "led, but fewer in sync than min.insync.replicas: acks=all is refused",
    "moved": "led by another broker after a moment without a leader",
    "uncopied": "what only the leader has is lost: acks=1 was told that it is written, acks=all was not",
    "offline_already": "nobody leads them now, whatever happens",
}
"""What may become of a partition, the gravest first: fields of WhatIf, in words."""
_UNKNOWN = TopicSettings(min_insync_replicas=1, unclean_election=False)
"""Kafka's own defaults, for topics whose settings may not be seen."""


def what_if_broker_dies(cluster: ClusterRow, broker: int, timeout_seconds: float) -> WhatIf[Place]:
    """Ask the cluster for its leaders and replicas in sync, and play the death of the broker with each partition.

    Raises ClusterSilent, and NotFound for a broker that the cluster does not have.
    """
    try:
        with ReplicaAdmin(cluster.name, cluster.bootstrap_servers, cluster.properties, timeout_seconds) as admin:
            seen = look(admin, cluster)
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


def in_words(found: WhatIf[Place]) -> str:
    """The answer in a sentence."""
    if not found.replicas:
        return f"Broker {found.broker} has no replica: nothing would be lost."
    if found.offline:
        worst = (
            f"{counted(len(found.offline), 'partition')} could not be led until it is back, and what is committed "
            f"there would be lost if its disk was"
        )
    else:
        worst = "no committed record would be lost"
    refusing = f"; producers with acks=all would be refused in {len(found.refusing)}" if found.refusing else ""
    return f"If broker {found.broker} died now, {worst}{refusing}."


def outcomes(found: WhatIf[Place]) -> list[dict[str, Any]]:
    """Each outcome with its meaning, how many partitions it is that of, and the first of them."""
    return [
        {"what": name, "count": len(places), "examples": names(places), "meaning": meaning}
        for name, meaning in OUTCOMES.items()
        for places in [getattr(found, name)]
    ]


def names(places: Sequence[Place]) -> list[str]:
    """Partitions by name, as many as an answer gives."""
    return [f"{topic}-{number}" for topic, number in places[:MOST_NAMED]]
