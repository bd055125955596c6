"""Execution of placements on a real cluster: to the end, back again, and through failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.admin.replication_throttle import RATES, Throttle
from backend.placement.execution.progress import progress
from backend.placement.execution.steps import (
    Course,
    Limits,
    Place,
    Standing,
    stand,
    throttled,
    to_cancel,
    to_elect,
)
from tests.eventually import eventually
from tests.kafka.placement.driving import (
    MANY,
    PLENTY,
    SLOW_BYTES_PER_SECOND,
    advance,
    both,
    course_of,
    drive,
    fill,
    look,
    topic_name,
)
from tests.support.kafka.kafka_tools import REASSIGN, tool
from tests.support.kafka.three_brokers import NODES, Brokers, all_rates
from tests.support.kafka.topics import DEADLINE_SECONDS


def replicas(admin: ReplicaAdmin, course: Course) -> dict[Place, tuple[int, ...]]:
    seen = admin.read().partitions
    return {place: seen[place].replicas for place in course.targets if place in seen}


def begin_slowly(admin: ReplicaAdmin, course: Course) -> Throttle:
    """Throttle the cluster so that everything copied from now on takes minutes."""
    throttle = admin.intended_throttle(SLOW_BYTES_PER_SECOND, throttled(course))
    assert admin.throttle(throttle) == {}
    return throttle


@pytest.fixture
def slow(brokers: Brokers, admin: ReplicaAdmin) -> Iterator[Course]:
    """Provide a move of a partition from 2 to 3 that takes minutes; the throttle is removed afterwards."""
    topic = topic_name()
    brokers.create(topic, [[1, 2]])
    fill(brokers.servers, topic, 0, MANY)
    course = course_of(topic, ((1, 2), (1, 3)))
    throttle = begin_slowly(admin, course)
    advance(admin, course)
    assert admin.ongoing() == {(topic, 0): ((1, 3, 2), (3,), (2,))}
    yield course
    brokers.start(1, 2, 3)
    assert eventually(lambda: not admin.unthrottle(throttle), "the throttle is taken away")
    eventually(lambda: not admin.ongoing(), "nothing is left of it")


@pytest.mark.nightly  # test_runs carries one out under a throttle that is gone afterwards
def test_a_plan_is_carried_out_under_a_throttle_that_is_gone_afterwards(
    brokers: Brokers, admin: ReplicaAdmin, tmp_path: Path
) -> None:
    topic, shrinking = topic_name(), topic_name()
    brokers.create(topic, [[1, 2], [2, 3], [3, 1], [1, 2]])
    brokers.create(shrinking, [[1, 2, 3]])
    for partition in range(4):
        fill(brokers.servers, topic, partition, 200_000)
    course = both(
        course_of(topic, ((1, 2), (3, 1)), ((2, 3), (1, 2, 3)), ((3, 1), (3, 2)), ((1, 2), (2, 1))),
        course_of(shrinking, ((1, 2, 3), (3,))),
    )
    seen = admin.read()
    sizes = {place: seen.partitions[place].size_bytes for place in course.targets}

    throttle = admin.intended_throttle(50_000_000, throttled(course))
    assert admin.throttle(throttle) == {}
    assert all_rates(brokers) == {node: dict.fromkeys(RATES, "50000000") for node in NODES}
    lists = eventually(lambda: brokers.own_config(ResourceType.TOPIC, topic), "its replicas are listed")
    assert set(lists["follower.replication.throttled.replicas"].split(",")) == {"0:3", "1:1", "2:2"}
    assert set(lists["leader.replication.throttled.replicas"].split(",")) == {
        *("0:1", "0:2", "0:3", "1:1", "1:2", "1:3", "2:1", "2:2", "2:3"),
    }
    assert brokers.own_config(ResourceType.TOPIC, shrinking) == {}

    done = [progress(course, stand(course, look(admin)), sizes)]

    def arrived(here: Standing, _: object) -> bool:
        done.append(progress(course, here, sizes))
        return here.is_finished

    standing, _ = drive(admin, course, Limits(moves_per_broker=1, partitions_at_once=2), until=arrived)
    assert sorted(standing.arrived) == sorted(course.targets)
    assert replicas(admin, course) == course.targets
    assert (done[0].fraction, done[-1].fraction) == (0.0, 1.0)
    assert (done[-1].moves_done, done[-1].bytes_left) == (3, 0)
    assert done[-1].bytes_done == sum(sizes[topic, partition] for partition in range(3))

    assert admin.elect_preferred(to_elect(course, look(admin))) == {}
    leaders = {place: each[0] for place, each in course.targets.items()}
    eventually(
        lambda: {place: each for place, each in look(admin).leaders.items() if place in leaders} == leaders,
        "all lead that are to",
    )
    _verify(brokers, course, tmp_path / "moves.json")

    assert admin.unthrottle(throttle) == {}
    assert all_rates(brokers) == {1: {}, 2: {}, 3: {}}
    assert eventually(lambda: not brokers.own_config(ResourceType.TOPIC, topic), "they are not any more")
    assert admin.unthrottle(throttle) == {}


def _verify(brokers: Brokers, course: Course, file: Path) -> None:
    """Verify the reassignment with Kafka's own program, which is independent of Treeline."""
    rows = [
        {"topic": topic, "partition": number, "replicas": list(brokers)}
        for (topic, number), brokers in course.targets.items()
    ]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    said = tool(
        REASSIGN,
        *("--bootstrap-server", brokers.servers, "--reassignment-json-file", str(file)),
        *("--verify", "--preserve-throttles"),
    )
    completed = {line for line in said if line.startswith("Reassignment of partition")}
    assert completed == {
        f"Reassignment of partition {topic}-{number} is completed." for topic, number in course.targets
    }


@pytest.mark.nightly  # test_runs cancels one in the middle
def test_what_is_cancelled_in_the_middle_is_as_it_was(brokers: Brokers, admin: ReplicaAdmin, slow: Course) -> None:
    (place,) = slow.targets
    eventually(lambda: admin.copied({place: [3]}).get(place, 0) > 0, "some of it has come")
    size = admin.read().partitions[place].size_bytes
    assert admin.copied({place: [3]})[place] < size
    standing, steps = advance(admin, slow)
    assert (list(standing.moving), steps.ask, steps.waiting) == ([place], {}, {})

    cancelled = to_cancel(slow, look(admin))
    assert cancelled == {place: None}
    assert admin.alter(cancelled) == {}

    assert eventually(lambda: set(replicas(admin, slow)[place]) == {1, 2}, "it is where it was")
    assert admin.ongoing() == {}
    assert "nothing to cancel" in admin.alter(cancelled)[place]
    # Kafka puts removed replicas last, so the order may differ; the rollback restores it.
    drive(admin, slow.reversed())
    assert replicas(admin, slow) == slow.originals


def test_from_the_middle_all_is_taken_back(brokers: Brokers, admin: ReplicaAdmin, slow: Course) -> None:
    topic = topic_name()
    brokers.create(topic, [[1, 2], [2, 1]])
    quick = course_of(topic, ((1, 2), (3, 2)), ((2, 1), (3, 1)))
    course = both(slow, quick)
    drive(admin, course, until=lambda here, _: set(here.arrived) == set(quick.targets))
    assert set(stand(course, look(admin)).moving) == set(slow.targets)

    back = course.reversed()
    astray = to_cancel(back, look(admin), only_wrong_way=True)
    assert set(astray) == set(slow.targets)
    assert admin.alter(astray) == {}
    drive(admin, back)

    assert replicas(admin, course) == course.originals
    assert admin.ongoing() == {}


def test_a_topic_that_is_deleted_on_the_way_is_left_out_and_the_others_arrive(
    brokers: Brokers, admin: ReplicaAdmin
) -> None:
    doomed, staying = topic_name(), topic_name()
    brokers.create(doomed, [[1, 2], [1, 2]])
    brokers.create(staying, [[1, 2]])
    fill(brokers.servers, doomed, 0, MANY)
    first = course_of(doomed, ((1, 2), (1, 3)), ((1, 2), (3, 2)))
    course = both(first, course_of(staying, ((1, 2), (3, 1))))
    throttle = begin_slowly(admin, first)
    advance(admin, first)
    assert (doomed, 0) in admin.ongoing()

    brokers.admin.delete_topics([doomed])[doomed].result(DEADLINE_SECONDS)
    standing, _ = drive(admin, course)

    assert sorted(standing.gone) == sorted(first.targets)
    assert (standing.arrived, standing.changed_by_others) == ([(staying, 0)], {})
    assert replicas(admin, course) == {(staying, 0): (3, 1)}
    assert admin.unthrottle(throttle) == {}
    assert all_rates(brokers) == {1: {}, 2: {}, 3: {}}


@pytest.mark.nightly
def test_without_a_broker_the_others_are_moved_and_what_waits_for_it_is_named(
    brokers: Brokers, admin: ReplicaAdmin, slow: Course
) -> None:
    topic = topic_name()
    brokers.create(topic, [[1, 3], [2, 1], [2, 1]])
    course = both(slow, course_of(topic, ((1, 3), (1, 2)), ((2, 1), (2, 3)), ((2, 1), (1, 2))))
    (moving,) = slow.targets
    brokers.kill(3)
    eventually(lambda: not admin.read().brokers[3].is_here, "it is told to be gone")

    limits = Limits(moves_per_broker=1, partitions_at_once=1)  # what waits does not use them up
    waits = {moving, (topic, 1)}

    def only_those_are_left(here: Standing, _: object) -> bool:
        return {*here.moving, *here.pending} == waits

    standing, steps = drive(admin, course, limits, until=only_those_are_left)
    assert (set(standing.moving), set(standing.pending)) == ({moving}, {(topic, 1)})
    assert steps.ask == {}
    assert steps.waiting == dict.fromkeys(waits, "broker 3, which is to get a replica, is unavailable")
    assert admin.read().partitions[topic, 0].replicas == (1, 2)

    brokers.start(3)
    drive(admin, course, PLENTY, until=lambda here, _: set(here.moving) == {moving} and not here.pending)
    assert replicas(admin, course)[topic, 1] == (2, 3)


def test_a_stranger_is_left_alone(brokers: Brokers, admin: ReplicaAdmin) -> None:
    topic = topic_name()
    brokers.create(topic, [[1], [1]])
    course = course_of(topic, ((1,), (2,)), ((1,), (2,)))
    assert admin.alter({(topic, 0): [3]}) == {}  # somebody else's
    standing, _ = drive(admin, course)
    assert standing.changed_by_others == {(topic, 0): (3,)}
    eventually(lambda: not admin.ongoing(), "theirs is done too")
    assert replicas(admin, course) == {(topic, 0): (3,), (topic, 1): (2,)}
