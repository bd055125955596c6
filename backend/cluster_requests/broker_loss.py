"""What-if analysis: the losses if a broker of a live cluster failed now.

The cluster's current state is read, and the replication lab simulates the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.cluster_requests.electing import observe
from backend.domain.base.errors import ClusterSilent, NotFound
from backend.domain.base.words import counted
from backend.domain.replication.replication_health import (
    MOST_NAMED,
    ObservedCluster,
    ObservedPartition,
    Place,
    TopicSettings,
)
from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.clusters.clusters import ClusterRow
from backend.replication_lab.runs.what_if import KAFKA_SESSION_MS, PartitionState, WhatIf, if_broker_dies

OUTCOMES = {
    "unclean": "led by a replica that is not in sync (unclean election): committed records that it lacks are lost",
    "offline": "no broker can lead until it is back; committed records there are lost if its disk is",
    "last_copy": "no leader now, and only this broker has all committed records: lost if its disk is",
    "offline_already": "no leader now, independent of this broker",
    "refusing": "led, but fewer in sync than min.insync.replicas: acks=all is refused",
    "uncopied": "records that only the leader has are lost: acknowledged with acks=1, but not with acks=all",
    "moved": "led by another broker after a moment without a leader",
}
"""Possible outcomes for a partition, worst first: fields of WhatIf with their descriptions."""
_UNKNOWN = TopicSettings(min_insync_replicas=1, unclean_election=False)
"""Kafka's own defaults, for topics whose settings may not be read."""
_NAMED_IN_A_SENTENCE = 3

Named = Callable[[Place], str]


@dataclass(frozen=True, kw_only=True)
class BrokerLoss:
    """Result of the lab, and the parts that rest on defaults because the cluster did not report them."""

    found: WhatIf[Place]
    settings_unseen: tuple[str, ...]
    """Topics whose settings may not be read."""
    session_told: bool
    """True if a broker reported its `broker.session.timeout.ms`; otherwise Kafka's default is assumed."""
    eligible_told: bool
    """True if the cluster reports eligible leader replicas."""


def what_if_broker_dies(
    cluster: ClusterRow, broker: int, timeout_seconds: float, only: frozenset[str] | None = None
) -> BrokerLoss:
    """Read the cluster's leaders and ISR, and simulate the broker's failure for each partition.

    `only`: limit it to these topics.

    Raises ClusterSilent, and NotFound for a broker that the cluster does not have.
    """
    try:
        with ReplicaAdmin(cluster.name, cluster.bootstrap_servers, cluster.properties, timeout_seconds) as admin:
            seen = observe(admin, cluster)
            if broker not in seen.brokers:
                known = ", ".join(str(each) for each in sorted(seen.brokers)[:20])
                raise NotFound(f"{cluster.name} has no broker {broker}; it has {known}: name one of these")
            partitions = {
                place: led
                for place, led in seen.partitions.items()
                if broker in led.replicas and (only is None or place[0] in only)
            }
            settings = admin.topic_settings(sorted({topic for topic, _ in partitions}))
            # If another replica is in sync, the eligible ones make no difference.
            lone = {topic for (topic, _), led in partitions.items() if set(led.isr) <= {broker}}
            described = admin.describe(sorted(lone)) if lone else {}
            sessions = admin.session_times_ms(id_ for id_, each in seen.brokers.items() if each.is_here)
    except KafkaCallFailed as error:
        raise ClusterSilent(f"leaders and replicas could not be seen: {error.reason}") from error
    if described is None:
        return played(seen, broker, partitions, settings, None, sessions)
    # A replica that came back in sync since the poll is no longer eligible: both must be from the same moment.
    for place in partitions.keys() & described.keys():
        leader, isr, _ = described[place]
        partitions[place] = partitions[place]._replace(leader=leader, isr=isr)
    eligible = {place: each.eligible for place, each in described.items()}
    return played(seen, broker, partitions, settings, eligible, sessions)


def played(
    seen: ObservedCluster,
    broker: int,
    partitions: Mapping[Place, ObservedPartition],
    settings: Mapping[str, TopicSettings],
    eligible: Mapping[Place, tuple[int, ...]] | None,
    sessions_ms: Mapping[int, int],
) -> BrokerLoss:
    """Return the analysis from the cluster's reports on these partitions; missing facts are assumed, and named.

    Args:
        seen: The cluster.
        broker: Who dies.
        partitions: Those that are asked about.
        settings: Of their topics, without those that may not be seen.
        eligible: Eligible leader replicas; None: the cluster does not tell.
        sessions_ms: `broker.session.timeout.ms` by broker, of those that told.
    """

    def led(place: Place) -> PartitionState:
        its, config = partitions[place], settings.get(place[0], _UNKNOWN)
        return PartitionState(
            replicas=its.replicas,
            isr=frozenset(its.isr),
            leader=its.leader,
            min_isr=config.min_insync_replicas,
            unclean_election=config.unclean_election,
            eligible=frozenset((eligible or {}).get(place, ())),
        )

    here = frozenset(id_ for id_, each in seen.brokers.items() if each.is_here)
    # The controller decides by its own value; brokers that differ are being changed, and the longest is the safe
    # one.
    session_ms = max(sessions_ms.values(), default=KAFKA_SESSION_MS)
    places = ((place, led(place)) for place in sorted(partitions))
    return BrokerLoss(
        found=if_broker_dies(broker, places, here, session_ms),
        settings_unseen=tuple(sorted({topic for topic, _ in partitions} - settings.keys())),
        session_told=bool(sessions_ms),
        eligible_told=eligible is not None,
    )


def plain(place: Place) -> str:
    """Return a partition's name on its cluster."""
    return f"{place[0]}-{place[1]}"


def document(loss: BrokerLoss, named: Named = plain) -> dict[str, Any]:
    """Return the analysis in its JSON form; `named` returns the name of a partition."""
    found = loss.found
    return {
        "broker": found.broker,
        "replicas": found.replicas,
        "sentence": in_words(found, named),
        "outcomes": outcomes(found, named),
        "longest_away_ms": round(found.longest_away_ms),
        "session_ms": round(found.session_ms),
        "assumed": assumed(loss),
        "settings_unseen": len(loss.settings_unseen),
    }


def in_words(found: WhatIf[Place], named: Named = plain) -> str:
    """Return the analysis in a sentence, worst outcome first."""
    if not found.replicas:
        return f"Broker {found.broker} has no replica: nothing would be lost."
    parts = []
    if found.unclean:
        parts.append(
            f"{_partitions(found.unclean, named)} would be led by a replica that is not in sync, and committed "
            f"records that it lacks would be lost for good"
        )
    if found.offline:
        parts.append(
            f"{counted(len(found.offline), 'partition')} could not be led until it is back, and what is committed "
            f"there would be lost if its disk was"
        )
    if not parts:
        of_others = " of a partition that is led" if found.offline_already else ""
        parts.append(f"no committed record{of_others} would be lost")
    if found.refusing:
        parts.append(f"producers with acks=all would be refused in {len(found.refusing):,}")
    if found.offline_already:
        has = "has" if len(found.offline_already) == 1 else "have"
        parts.append(f"{_partitions(found.offline_already, named)} {has} no leader already")
    if found.last_copy:
        parts.append(
            f"of these, what is committed in {len(found.last_copy):,} would be lost if its disk was: nobody else "
            f"has all of it"
        )
    return f"If broker {found.broker} died now, {'; '.join(parts)}."


def assumed(loss: BrokerLoss) -> list[str]:
    """Return a sentence for each fact that the cluster did not report, with the assumed value."""
    found = []
    if loss.settings_unseen:
        few = loss.settings_unseen[:_NAMED_IN_A_SENTENCE]
        more = ", ..." if len(few) < len(loss.settings_unseen) else ""
        found.append(
            f"The settings of {counted(len(loss.settings_unseen), 'topic')} could not be seen ({', '.join(few)}"
            f"{more}): Kafka's defaults are assumed, min.insync.replicas 1 and no unclean election. The control "
            f"plane needs DescribeConfigs on topics."
        )
    if not loss.session_told:
        found.append(
            f"No broker told its broker.session.timeout.ms: Kafka's default of {KAFKA_SESSION_MS:,} ms is "
            f"assumed. The control plane needs DescribeConfigs on the cluster."
        )
    if not loss.eligible_told:
        found.append(
            "The cluster does not tell eligible leader replicas (before Kafka 3.7): it is assumed that there are "
            "none."
        )
    return found


def outcomes(found: WhatIf[Place], named: Named = plain) -> list[dict[str, Any]]:
    """Return each outcome with its description, its number of partitions, and the first of them."""
    return [
        {"what": name, "count": len(places), "examples": names(places, named), "meaning": meaning}
        for name, meaning in OUTCOMES.items()
        for places in [getattr(found, name)]
    ]


def names(places: Sequence[Place], named: Named = plain) -> list[str]:
    """Return the names of partitions, as many as an answer gives."""
    return [named(place) for place in places[:MOST_NAMED]]


def _partitions(places: Sequence[Place], named: Named) -> str:
    """Return the number of partitions, and the names of the first."""
    few = ", ".join(named(place) for place in places[:_NAMED_IN_A_SENTENCE])
    more = ", ..." if len(places) > _NAMED_IN_A_SENTENCE else ""
    return f"{counted(len(places), 'partition')} ({few}{more})"
