"""What the documents of a plan, and the cluster itself, say to whoever carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.kafka.admin.cluster_replicas import ClusterReplicas
from backend.placement.carrying_out.applying import Brokers, ClusterNow, Course, Ongoing, Place
from backend.placement.carrying_out.drift import PlannedFrom
from backend.queries.placement.placements import PlanDocuments


@dataclass(frozen=True, kw_only=True)
class Planned:
    """Where replicas are to go, and what the cluster was like when that was planned."""

    forth: Course
    """Of the partitions that change."""
    back: Course
    planned_from: PlannedFrom
    sizes: Mapping[Place, int]
    """Bytes of one replica, by partition that changes."""


def read(documents: PlanDocuments) -> Planned:
    """Of a placement that is planned."""
    before: dict[Place, Brokers] = {}
    sizes: dict[Place, int] = {}
    for row in documents.question["partitions"]:
        place = row["topic"], row["partition"]
        before[place], sizes[place] = tuple(row["replicas"]), row.get("size_bytes") or 0
    after = {(row["topic"], row["partition"]): tuple(row["replicas"]) for row in documents.plan["partitions"]}
    moved = {place: brokers for place, brokers in after.items() if brokers != before[place]}
    forth = Course(originals={place: before[place] for place in moved}, targets=moved)
    return Planned(
        forth=forth,
        back=forth.reversed(),
        planned_from=PlannedFrom(
            replicas=before,
            racks={row["id"]: row.get("rack") for row in documents.question["brokers"]},
            needed={broker for brokers in moved.values() for broker in brokers},
        ),
        sizes={place: sizes[place] for place in moved},
    )


def as_now(seen: ClusterReplicas, ongoing: Ongoing, topic_ids: Mapping[str, str]) -> ClusterNow:
    """A look at the cluster; `ongoing` read before it, `topic_ids` those of when the first replica was moved."""
    return ClusterNow(
        replicas={place: each.replicas for place, each in seen.partitions.items()},
        brokers={broker: each.rack for broker, each in seen.brokers.items() if each.is_here},
        leaders={place: each.leader for place, each in seen.partitions.items()},
        ongoing=ongoing,
        anew={topic for topic, each in topic_ids.items() if seen.topic_ids.get(topic, each) != each},
    )
