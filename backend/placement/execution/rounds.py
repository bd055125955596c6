"""A plan divided into rounds, for execution with kafka-reassign-partitions.sh.

Each round is a reassignment to start when the previous one has ended, and none exceeds the limits of a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backend.placement.documents import changed, rows_of
from backend.placement.execution.progress import Progress, progress
from backend.placement.execution.steps import (
    Brokers,
    ClusterNow,
    Course,
    Limits,
    Place,
    name,
    next_steps,
    stand,
)
from backend.placement.problem import GONE, Problem, Replicas


class NoWay(Exception):
    """A plan cannot continue; the message names the first blocked partition and the reason."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Reassignments to start together, and the plan's progress after them."""

    partitions: list[dict[str, Any]]
    progress: Progress

    def document(self) -> dict[str, Any]:
        """Return the input of `kafka-reassign-partitions.sh --reassignment-json-file`."""
        return {"version": 1, "partitions": self.partitions}


def rounds(problem: Problem, replicas: Replicas, limits: Limits) -> Iterator[Round]:
    """Yield all rounds in order. Raises NoWay for partitions without a replica on an available broker."""
    some = changed(problem, replicas)
    originals, targets = (_places(rows_of(problem, each, some)) for each in (problem.now, replicas))
    course = Course(originals=originals, targets=targets)
    sizes = dict(zip(originals, problem.size_bytes[some].tolist(), strict=True))
    available = {
        int(broker): problem.racks[rack]
        for broker, rack in zip(problem.broker_ids, problem.rack_of, strict=True)
        if rack != GONE
    }
    here = dict(course.originals)
    while True:
        # The first available replica leads, and the others copy from it.
        leaders = {place: next((each for each in row if each in available), -1) for place, row in here.items()}
        now = ClusterNow(replicas=here, brokers=available, leaders=leaders)
        standing = stand(course, now)
        if standing.is_finished:
            return
        steps = next_steps(course, now, limits, standing)
        if not steps.ask:
            place, reason = next(iter(steps.waiting.items()))
            raise NoWay(f"{name(place)}: {reason}")
        here |= steps.ask
        after = stand(course, ClusterNow(replicas=here, brokers=available))
        rows = [
            {"topic": topic, "partition": number, "replicas": list(brokers)}
            for (topic, number), brokers in sorted(steps.ask.items())
        ]
        yield Round(partitions=rows, progress=progress(course, after, sizes))


def _places(rows: list[dict[str, Any]]) -> dict[Place, Brokers]:
    return {(row["topic"], row["partition"]): tuple(row["replicas"]) for row in rows}
