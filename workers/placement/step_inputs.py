"""Conversion of a plan's documents and of cluster observations to the input of the executing steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.kafka.admin.cluster_replicas import ClusterReplicas
from backend.placement.execution.drift import PlannedFrom
from backend.placement.execution.steps import Brokers, ClusterNow, Course, Ongoing, Place
from backend.queries.placement.placements import PlanDocuments


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The moves of a plan, and the state of the cluster that it was made from."""

    forth: Course
    """Course of the partitions that change."""
    back: Course
    planned_from: PlannedFrom
    sizes: Mapping[Place, int]
    """Bytes of one replica of each partition that changes."""


def read(documents: PlanDocuments) -> Planned:
    """Read the documents of a planned placement."""
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
    """Convert an observation; `ongoing` was read before it, `topic_ids` when the first replica was moved."""
    return ClusterNow(
        replicas={place: each.replicas for place, each in seen.partitions.items()},
        brokers={broker: each.rack for broker, each in seen.brokers.items() if each.is_here},
        leaders={place: each.leader for place, each in seen.partitions.items()},
        ongoing=ongoing,
        recreated={topic for topic, each in topic_ids.items() if seen.topic_ids.get(topic, each) != each},
    )
