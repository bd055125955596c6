"""Execution of a placement on a real cluster as a worker does it: observe, choose the next steps, request them."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.placement.execution.steps import (
    Brokers,
    ClusterNow,
    Course,
    Limits,
    Standing,
    Steps,
    next_steps,
    stand,
)
from tests.eventually import eventually
from tests.support.kafka.topics import produce
from workers.placement.step_inputs import as_now

PLENTY = Limits(moves_per_broker=10, partitions_at_once=10)
SLOW_BYTES_PER_SECOND = 10_000
"""Throttle so low that everything copied beside it is done long before."""
MANY = 4_000_000
"""Bytes that take minutes at that rate; a first fetch of a megabyte is not throttled."""


def topic_name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def fill(servers: str, topic: str, partition: int, total_bytes: int) -> None:
    """Produce incompressible records of this size in total."""
    size = 10_000
    produce(
        servers,
        topic,
        ({"value": uuid.uuid4().bytes * (size // 16), "partition": partition} for _ in range(total_bytes // size)),
        acks="all",
    )


def course_of(topic: str, *moves: tuple[Brokers, Brokers]) -> Course:
    """Build a course from (original, target) of each partition."""
    return Course(
        originals={(topic, at): original for at, (original, _) in enumerate(moves)},
        targets={(topic, at): target for at, (_, target) in enumerate(moves)},
    )


def both(*courses: Course) -> Course:
    """Combine courses."""
    return Course(
        originals={place: brokers for each in courses for place, brokers in each.originals.items()},
        targets={place: brokers for each in courses for place, brokers in each.targets.items()},
    )


def look(admin: ReplicaAdmin) -> ClusterNow:
    """Observe the cluster, reading in the required order."""
    ongoing = admin.ongoing()
    return as_now(admin.read(), ongoing, {})


def advance(admin: ReplicaAdmin, course: Course, limits: Limits = PLENTY) -> tuple[Standing, Steps]:
    """Run one round; returns the positions before it and the steps. A topic may be deleted meanwhile."""
    now = look(admin)
    standing = stand(course, now)
    steps = next_steps(course, now, limits, standing)
    refused = admin.alter(steps.ask)
    gone = {place for place, reason in refused.items() if "gone" in reason}
    assert refused.keys() <= gone, refused
    return standing, steps


def drive(
    admin: ReplicaAdmin,
    course: Course,
    limits: Limits = PLENTY,
    until: Callable[[Standing, Steps], bool] = lambda standing, _: standing.is_finished,
) -> tuple[Standing, Steps]:
    """Run rounds until the condition holds; returns the last one."""

    def round_of_it() -> tuple[Standing, Steps] | None:
        standing, steps = advance(admin, course, limits)
        return (standing, steps) if until(standing, steps) else None

    return eventually(round_of_it, "the course is followed to its end", every_seconds=0.2)
