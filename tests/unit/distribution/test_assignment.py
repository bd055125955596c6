"""Tasks, buckets, fair shares, and the plans of tasks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.distribution import assignment
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import DistributedStream, Endpoint, HeaderNames
from backend.domain.tree import tree_shape
from backend.domain.tree.distributor_settings import DistributorSettings
from tests.support.domain.plans import lives, plans_of
from tests.support.domain.trees import UNBALANCED, parsed

TASKS = assignment.tasks([("a", 1), ("a", 2), ("b", 1)], 2)


def test_names_of_leases_and_on_kafka():
    task = Task("cluster-1", 3, 1)
    assert task.name == "distributor:cluster-1:3:1"
    assert task.kafka_name == "_treeline.distributor.cluster-1.3.1"


@given(st.text(min_size=1), st.integers(1, 8))
def test_every_partition_has_one_bucket_and_neighbours_differ(stream, buckets):
    found = Counter(assignment.bucket(stream, partition, buckets) for partition in range(buckets * 3))
    assert found == dict.fromkeys(range(buckets), 3)


@pytest.mark.parametrize(
    ("stream", "partition", "buckets", "bucket"),
    [
        ("acme/retail/prod/orders", 0, 4, 1),
        ("acme/retail/prod/orders", 3, 4, 0),
        ("_treeline.verify", 1, 2, 1),
        ("a/b/c/ä", 7, 16, 8),
    ],
)
def test_a_partitions_bucket_is_the_same_in_every_process_and_release(stream, partition, buckets, bucket):
    assert assignment.bucket(stream, partition, buckets) == bucket


@pytest.mark.parametrize(
    ("partitions", "now", "buckets"),
    [
        (0, 0, 2),
        (4000, 2, 2),
        (4001, 2, 4),
        (8001, 4, 8),
        # Not back again at once: each change makes every leaf pass a barrier.
        (4000, 4, 4),
        (2001, 4, 4),
        (2000, 4, 2),
        (20_000, 2, 16),
        # The setting was another one.
        (10, 3, 2),
        (10, 1, 2),
    ],
)
def test_the_number_of_buckets_follows_the_number_of_partitions(partitions, now, buckets):
    assert assignment.buckets_for(partitions, least=2, most_each=2000, now=now) == buckets


@given(st.integers(1, 5), st.integers(1, 50), st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 100))
def test_buckets_hold_what_they_are_to_hold_and_the_number_settles(least, most_each, partitions, fewer, now):
    first = assignment.buckets_for(partitions, least=least, most_each=most_each, now=now)
    assert first * most_each >= partitions
    assert first >= least
    assert assignment.buckets_for(partitions, least=least, most_each=most_each, now=first) == first
    # A stream that goes and comes back changes nothing, if it is not half of all.
    fresh = assignment.buckets_for(partitions, least=least, most_each=most_each, now=0)
    if 2 * fewer >= partitions >= fewer:
        assert assignment.buckets_for(fewer, least=least, most_each=most_each, now=fresh) == fresh


@given(st.integers(0, 60), st.integers(1, 9))
def test_fair_shares_leave_no_task_over(desired, sessions):
    share = assignment.fair_share(desired, sessions)
    assert share * sessions >= desired
    assert (share - 1) * sessions < desired or share == 0


def test_a_holder_gives_back_what_is_gone_and_what_is_beyond_its_share():
    held = [*TASKS, Task("gone", 1, 0)]
    assert assignment.surplus(held, TASKS, 2) == (held[6], TASKS[5], TASKS[4], TASKS[3])
    assert assignment.surplus(TASKS[:3], TASKS, 2) == ()


def test_a_holder_takes_free_tasks_up_to_its_share():
    assert assignment.wanted(TASKS, 1, 6, 2) == TASKS[:2]
    assert assignment.wanted(TASKS, 3, 6, 2) == ()


def test_a_holder_whose_renewals_are_late_takes_one_task_at_a_time():
    assert assignment.wanted(TASKS, 1, 6, 2, is_late=True) == TASKS[:1]
    assert assignment.wanted(TASKS, 3, 6, 2, is_late=True) == ()


@given(st.integers(1, 30), st.lists(st.booleans(), min_size=1, max_size=20))
def test_sessions_that_come_and_go_end_with_every_task_held_once(count, changes):
    desired = assignment.tasks([(f"c{n}", 1) for n in range(count)], 1)
    holders = [[]]
    for joins in changes:
        if joins:
            holders.append([])
        elif len(holders) > 1:
            holders.pop()
        for _ in range(3):
            for held in holders:
                for task in assignment.surplus(held, desired, len(holders)):
                    held.remove(task)
                taken = {task for other in holders for task in other}
                free = [task for task in desired if task not in taken]
                held.extend(assignment.wanted(free, len(held), len(desired), len(holders)))
    assert sorted(task for held in holders for task in held) == sorted(desired)


ROOT = parsed(UNBALANCED)
ENDPOINTS = {
    name: Endpoint(name=name, number=int(name), bootstrap_servers="b:1", properties={})
    for name in tree_shape.leaves(ROOT)
}
HEADERS = HeaderNames(flags="copy-flags", origin="copy-origin", write_origin=True)


def plans(incarnations, settings=None):
    stream = DistributedStream(
        stream="s",
        partitions=4,
        technical_names={name: f"t{name}" for name in ENDPOINTS},
        topics=lives(incarnations),
    )
    return plans_of(ROOT, tree_shape.default_targets(ROOT), ENDPOINTS, [stream], 2, HEADERS, settings)


def test_a_plan_reads_the_sources_name_and_writes_the_targets():
    plan = plans(dict.fromkeys(ENDPOINTS, 1))[Task("1", 3, 0)]
    (stream,) = plan.streams
    assert (plan.target.name, stream.source_topic, stream.target_topic) == ("4", "t1", "t4")


def test_the_buckets_of_a_distributor_share_its_partitions():
    found = plans(dict.fromkeys(ENDPOINTS, 1))
    both = [set(found[Task("1", 3, bucket)].streams[0].partitions) for bucket in (0, 1)]
    assert both[0] | both[1] == {0, 1, 2, 3}
    assert not both[0] & both[1]


def test_the_tasks_of_a_distributor_share_its_limit():
    limited = {("1", 3): DistributorSettings(bytes_per_second=5000)}
    found = plans(dict.fromkeys(ENDPOINTS, 1), limited)
    assert [found[Task("1", 3, bucket)].bytes_per_second for bucket in (0, 1)] == [2500, 2500]
    assert found[Task("1", 2, 0)].bytes_per_second is None


def test_inbound_groups_are_those_of_every_task_that_was_ever_allowed_to_copy_there():
    plan = plans(dict.fromkeys(ENDPOINTS, 1))[Task("1", 3, 1)]
    assert set(plan.inbound_groups) == {
        f"_treeline.distributor.{cluster}.{level}.1" for cluster, level in (("1", 3), ("3", 3), ("5", 1))
    }


@pytest.mark.parametrize("absent", ["1", "4"])
def test_a_stream_waits_until_its_topic_is_on_both_sides(absent):
    incarnations = {name: 1 for name in ENDPOINTS if name != absent}
    assert plans(incarnations)[Task("1", 3, 0)].streams == ()


def test_a_session_survives_new_streams_but_not_a_new_target():
    before, after = plans({}), plans(dict.fromkeys(ENDPOINTS, 1))
    assert before[Task("1", 3, 0)].same_session(after[Task("1", 3, 0)])
    targets = {**tree_shape.default_targets(ROOT), ("1", 3): "5"}
    moved = plans_of(ROOT, targets, ENDPOINTS, [], 2, HEADERS)
    assert not before[Task("1", 3, 0)].same_session(moved[Task("1", 3, 0)])
