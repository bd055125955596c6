"""A plan in rounds, for those who carry it out by Kafka's own tool: each is a reassignment of its own, to be begun
when the one before has ended, and none loads a broker with more than it may."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from backend.placement.applying import ClusterNow, Course, Limits, Place, name, next_steps, stand
from backend.placement.problem import GONE, Problem, Replicas
from backend.placement.progress import Progress, progress


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


def course_of(problem: Problem, replicas: Replicas) -> Course:
    """From where to where, of partitions that change."""
    places = [(problem.topics[topic], number) for topic, number in _numbered(problem)]
    before, after = _lists(problem, problem.now), _lists(problem, replicas)
    changed = [at for at in range(len(places)) if before[at] != after[at]]
    return Course(
        originals={places[at]: before[at] for at in changed}, targets={places[at]: after[at] for at in changed}
    )


def rounds(problem: Problem, replicas: Replicas, limits: Limits) -> Iterator[Round]:
    """All rounds, in order. Raises NoWay for partitions none of whose replicas is on a broker that is there."""
    course = course_of(problem, replicas)
    sizes: dict[Place, int] = {
        (problem.topics[topic], number): int(size)
        for (topic, number), size in zip(_numbered(problem), problem.size_bytes, strict=True)
    }
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


def _numbered(problem: Problem) -> list[tuple[int, int]]:
    return list(zip(problem.topic_of.tolist(), problem.numbers.tolist(), strict=True))


def _lists(problem: Problem, replicas: Replicas) -> list[tuple[int, ...]]:
    ids, starts = problem.broker_ids[replicas.brokers].tolist(), replicas.starts.tolist()
    return [tuple(ids[first:end]) for first, end in pairwise(starts)]
