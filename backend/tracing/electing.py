"""Having preferred brokers lead their partitions again, as an operator wishes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.domain.errors import ClusterSilent, FieldError, ValueInvalid
from backend.domain.leader_elections import RecordElection
from backend.domain.replication_health import MOST_NAMED, ClusterSeen, Condition, Place, conditions
from backend.kafka.errors import KafkaCallFailed
from backend.kafka.replica_admin import ReplicaAdmin
from backend.queries.clusters import ClusterRow

NOT_IN_SYNC = "the preferred broker has no replica that is in sync"
MOVING = "it is being moved to other brokers"
NO_LEADER = "it has no leader"


@dataclass(frozen=True, kw_only=True)
class Election:
    """What came of it, or would: partitions that are led by their preferred broker since, those that already
    were, and why others are not."""

    elected: Sequence[Place]
    already: int
    refused: Mapping[Place, str]

    def command(self, cluster: str, topics: tuple[str, ...] | None) -> RecordElection:
        """What is to be recorded of it."""
        reasons = {reason: len(places) for reason, places in by_reason(self.refused).items()}
        return RecordElection(cluster=cluster, topics=topics, elected=len(self.elected), refused=reasons)


def elect_preferred(
    cluster: ClusterRow, topics: Sequence[str] | None, timeout_seconds: float, *, dry_run: bool
) -> Election:
    """Let preferred brokers that are in sync lead their partitions of these topics, or of all (None).

    A partition whose preferred broker is not in sync is left alone: it could only be led by losing records.
    Raises ClusterSilent, and ValueInvalid for topics that are not there.
    """
    try:
        with ReplicaAdmin(cluster.name, cluster.bootstrap_servers, cluster.properties, timeout_seconds) as admin:
            seen = admin.look()
            if cluster.kafka_cluster_id not in (None, seen.cluster_id):
                raise ClusterSilent(f"{cluster.name}: another Kafka cluster answers: {seen.cluster_id}")
            wanted, already, refused = _chosen(seen, topics, cluster.name)
            if not dry_run:
                refused |= admin.elect_preferred(wanted)
    except KafkaCallFailed as error:
        raise ClusterSilent(f"leaders could not be elected: {error.reason}") from error
    return Election(elected=[place for place in wanted if place not in refused], already=already, refused=refused)


def _chosen(
    seen: ClusterSeen, topics: Sequence[str] | None, cluster: str
) -> tuple[list[Place], int, dict[Place, str]]:
    """Partitions to elect for, how many need it not, and why others cannot."""
    known = {topic for topic, _ in seen.partitions}
    unknown = [
        FieldError(f"/topics/{at}", f"there is no topic {topic[:249]!a} on {cluster}")
        for at, topic in enumerate(topics or ())
        if topic not in known
    ]
    if unknown:
        more = "" if len(unknown) == 1 else f", nor {len(unknown) - 1} more of those that were named"
        raise ValueInvalid(unknown[0].detail + more, tuple(unknown[:MOST_NAMED]))
    chosen = known if topics is None else set(topics)
    wanted: list[Place] = []
    already, refused = 0, dict[Place, str]()
    for place, partition in sorted(seen.partitions.items()):
        if place[0] not in chosen:
            continue
        found = conditions(partition, None)
        if Condition.WITHOUT_LEADER in found:
            refused[place] = NO_LEADER
        elif Condition.ELECTABLE in found:
            wanted.append(place)
        elif Condition.NOT_PREFERRED in found:
            refused[place] = NOT_IN_SYNC
        elif partition.leader != partition.replicas[0]:
            refused[place] = MOVING
        else:
            already += 1
    return wanted, already, refused


def by_reason(refused: Mapping[Place, str]) -> dict[str, list[Place]]:
    """The same, turned round; without what brokers say of single partitions behind our words."""
    found: dict[str, list[Place]] = defaultdict(list)
    for place, reason in refused.items():
        found[reason.partition(" (")[0]].append(place)
    return found
