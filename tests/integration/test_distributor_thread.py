"""A unit's thread follows its plan on real clusters."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from backend.kafka.copy import Knowledge
from tests.eventually import eventually
from tests.integration.test_copy_session import LIMITS, Pair, numbered
from tests.kafka import create_topic, read_all
from workers.distributor import DistributorThread


@pytest.fixture
def pair(estate):
    return Pair(estate)


@pytest.fixture
def start():
    threads = []

    def started(plan, why_not=lambda plan: None):
        thread = DistributorThread(plan.unit, 1, LIMITS, why_not, Knowledge(), plan, 7)
        threads.append(thread)
        thread.start()
        return thread

    yield started
    for thread in threads:
        thread.stop()
        thread.join()


def state(thread):
    return thread.state("test")


def test_a_stream_that_comes_without_an_event_is_taken_up(pair, start):
    """Internal topics are observations: the plan changes although the log's position does not."""
    plan = pair.plan()
    thread = start(replace(plan, streams=()))
    eventually(lambda: state(thread).state == "running", "running without streams")
    pair.produce(numbered(12))
    thread.assign(plan, 7)
    eventually(lambda: len(pair.copied()) == 12, "the new stream copied")
    assert eventually(lambda: state(thread).lag_records == 0 and state(thread), "no lag").copied_records == 12


def test_a_new_target_gets_what_it_lacks(pair, start, estate):
    other = Pair(estate)
    other.topic, other.stream = pair.topic, pair.stream
    plan = pair.plan()
    pair.produce(numbered(12))
    thread = start(plan)
    eventually(lambda: len(pair.copied()) == 12, "the first target has all")
    target = replace(plan.target, name=other.b, bootstrap_servers=estate.bootstrap_servers("cluster-3"))
    (stream,) = plan.streams
    create_topic(target.bootstrap_servers, other.copy_topic, 2)
    thread.assign(replace(plan, target=target, streams=(replace(stream, target_topic=other.copy_topic),)), 8)
    eventually(
        lambda: len(read_all(target.bootstrap_servers, other.copy_topic)) == 12, "the second target has all"
    )
    eventually(lambda: state(thread).position == 8, "the new desired state is carried out")


def test_a_target_that_is_away_is_told_with_its_reason_and_tried_again(pair, start):
    plan = pair.plan()
    pair.produce(numbered(4))
    thread = start(replace(plan, target=replace(plan.target, bootstrap_servers="127.0.0.1:9")))
    blocked = eventually(lambda: state(thread).state == "blocked" and state(thread), "blocked")
    assert plan.target.name in blocked.reason
    thread.assign(plan, 8)
    eventually(lambda: len(pair.copied()) == 4, "copied once the target is there")
    eventually(
        lambda: state(thread).state == "running" and state(thread).reason is None, "running without a reason"
    )


def test_a_fenced_unit_asks_before_it_goes_on(pair, start):
    plan = pair.plan()
    reasons = []
    first = start(plan, lambda plan: reasons[-1] if reasons else None)
    eventually(lambda: state(first).state == "running", "the first runs")
    reasons.append("the lease went to another holder")
    second = start(plan)
    eventually(lambda: state(second).state == "running", "the second runs")
    pair.produce(numbered(10))
    eventually(lambda: state(first).reason == reasons[-1], "the first waits, with the reason")
    eventually(lambda: len(pair.copied()) == 10, "the second copied all")
    assert state(second).copied_records == 10


def test_no_session_is_opened_before_the_target_has_entered_the_plans_routes(pair, start):
    plan = pair.plan()
    pair.produce(numbered(4))
    entered = threading.Event()
    thread = start(plan, lambda plan: None if entered.is_set() else "not entered yet")
    eventually(lambda: state(thread).reason == "not entered yet", "it waits, with the reason")
    assert pair.copied() == []
    entered.set()
    eventually(lambda: len(pair.copied()) == 4, "copied once it may")
