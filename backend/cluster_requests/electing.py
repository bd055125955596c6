"""Election of preferred leaders, on request of an operator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from backend.domain.base.errors import ClusterSilent, FieldError, ValueInvalid
from backend.domain.placement.leader_elections import RecordElection
from backend.domain.replication.replication_health import (
    MOST_NAMED,
    NOBODY,
    Condition,
    ObservedCluster,
    Place,
    conditions,
)
from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.clusters.clusters import ClusterRow

NOT_IN_SYNC = "the preferred broker has no replica that is in sync"
MOVING = "it is being moved to other brokers"
NO_LEADER = "it has no leader"


@dataclass(frozen=True, kw_only=True)
class Election:
    """Result of an election, actual or planned."""

    elected: Mapping[Place, tuple[int, int]]
    """Partitions that their preferred broker leads now: (previous leader, new leader)."""
    already: int
    """Number of partitions that were led by it already."""
    refused: Mapping[Place, str]
    """Reasons why other partitions were not changed."""
    leaders: Mapping[int, int]
    """Partitions that each broker led before, of all topics."""

    def command(self, cluster: str, topics: tuple[str, ...] | None) -> RecordElection:
        """Return the command that records the election."""
        reasons = {reason: len(places) for reason, places in refusals_by_reason(self.refused).items()}
        return RecordElection(cluster=cluster, topics=topics, elected=len(self.elected), refused=reasons)


def _any(found: Election) -> None:
    """Accept any result."""


def elect_preferred(
    cluster: ClusterRow,
    topics: Sequence[str] | None,
    timeout_seconds: float,
    *,
    dry_run: bool,
    check: Callable[[Election], None] = _any,
) -> Election:
    """Elect the preferred leaders of these topics' partitions, or of all (None), where they are in sync.

    A partition whose preferred broker is not in sync is skipped: electing it would lose records. `check` is called
    with the planned result, and may raise: nothing is elected then. Raises ClusterSilent, and ValueInvalid for
    topics that do not exist.
    """
    try:
        with ReplicaAdmin(cluster.name, cluster.bootstrap_servers, cluster.properties, timeout_seconds) as admin:
            seen = observe(admin, cluster)
            found = _chosen(seen, topics, cluster.name)
            check(found)
            if dry_run:
                return found
            refused = admin.elect_preferred(found.elected)
    except KafkaCallFailed as error:
        raise ClusterSilent(f"leaders could not be elected: {error.reason}") from error
    elected = {place: brokers for place, brokers in found.elected.items() if place not in refused}
    return replace(found, elected=elected, refused={**found.refused, **refused})


def observe(admin: ReplicaAdmin, cluster: ClusterRow) -> ObservedCluster:
    """Return the cluster's current leaders and replicas. Raises ClusterSilent if another cluster answers."""
    seen = admin.observe()
    if cluster.kafka_cluster_id not in (None, seen.cluster_id):
        raise ClusterSilent(f"{cluster.name}: another Kafka cluster answers: {seen.cluster_id}")
    return seen


def _chosen(seen: ObservedCluster, topics: Sequence[str] | None, cluster: str) -> Election:
    """Return the planned result."""
    known = {topic for topic, _ in seen.partitions}
    unknown = [
        FieldError(f"/topics/{at}", f"there is no topic {topic[:249]!r} on {cluster}")
        for at, topic in enumerate(topics or ())
        if topic not in known
    ]
    if unknown:
        more = "" if len(unknown) == 1 else f", nor {len(unknown) - 1} more of those that were named"
        raise ValueInvalid(unknown[0].detail + more, tuple(unknown[:MOST_NAMED]))
    chosen = known if topics is None else set(topics)
    wanted: dict[Place, tuple[int, int]] = {}
    already, refused = 0, dict[Place, str]()
    for place, partition in sorted(seen.partitions.items()):
        if place[0] not in chosen:
            continue
        found = conditions(partition, None)
        if Condition.WITHOUT_LEADER in found:
            refused[place] = NO_LEADER
        elif Condition.ELECTABLE in found:
            wanted[place] = partition.leader, partition.replicas[0]
        elif Condition.NOT_PREFERRED in found:
            refused[place] = NOT_IN_SYNC
        elif partition.leader != partition.replicas[0]:
            refused[place] = MOVING
        else:
            already += 1
    leaders = Counter(each.leader for each in seen.partitions.values() if each.leader != NOBODY)
    return Election(elected=wanted, already=already, refused=refused, leaders=leaders)


def refusals_by_reason(refused: Mapping[Place, str]) -> dict[str, list[Place]]:
    """Group partitions by reason, without the brokers' own words behind ours."""
    found: dict[str, list[Place]] = defaultdict(list)
    for place, reason in refused.items():
        found[reason.partition(" (")[0]].append(place)
    return found
