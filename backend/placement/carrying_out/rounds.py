"""A plan in rounds, for those who carry it out by Kafka's own tool: each is a reassignment of its own, to be begun
when the one before has ended, and none loads a broker with more than it may."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backend.placement.carrying_out.applying import (
    Brokers,
    ClusterNow,
    Course,
    Limits,
    Place,
    name,
    next_steps,
    stand,
)
from backend.placement.carrying_out.progress import Progress, progress
from backend.placement.documents import changed, rows_of
from backend.placement.problem import GONE, Problem, Replicas


class NoWay(Exception):
    """Why a plan cannot be carried on, with the first partition that waits."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What is asked for together, and how far the plan is when it has ended."""

    partitions: list[dict[str, Any]]
    progress: Progress

    def document(self) -> dict[str, Any]:
        """As `kafka-reassign-partitions.sh --reassignment-json-file` takes it."""
        return {"version": 1, "partitions": self.partitions}


def rounds(problem: Problem, replicas: Replicas, limits: Limits) -> Iterator[Round]:
    """All rounds, in order. Raises NoWay for partitions none of whose replicas is on a broker that is there."""
    some = changed(problem, replicas)
    originals, targets = (_places(rows_of(problem, each, some)) for each in (problem.now, replicas))
    course = Course(originals=originals, targets=targets)
    sizes = dict(zip(originals, problem.size_bytes[some].tolist(), strict=True))
    there = {
        int(broker): problem.racks[rack]
        for broker, rack in zip(problem.broker_ids, problem.rack_of, strict=True)
        if rack != GONE
    }
    here = dict(course.originals)
    while True:
        # Whoever is preferred leads, as far as it is there: it is what the others copy from.
        leaders = {place: next((each for each in row if each in there), -1) for place, row in here.items()}
        now = ClusterNow(replicas=here, brokers=there, leaders=leaders)
        standing = stand(course, now)
        if standing.is_finished:
            return
        steps = next_steps(course, now, limits, standing)
        if not steps.ask:
            place, reason = next(iter(steps.waiting.items()))
            raise NoWay(f"{name(place)}: {reason}")
        here |= steps.ask
        after = stand(course, ClusterNow(replicas=here, brokers=there))
        rows = [
            {"topic": topic, "partition": number, "replicas": list(brokers)}
            for (topic, number), brokers in sorted(steps.ask.items())
        ]
        yield Round(partitions=rows, progress=progress(course, after, sizes))


def _places(rows: list[dict[str, Any]]) -> dict[Place, Brokers]:
    return {(row["topic"], row["partition"]): tuple(row["replicas"]) for row in rows}
