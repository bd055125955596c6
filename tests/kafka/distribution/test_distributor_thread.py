"""A task's thread follows its plan on real clusters."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from backend.kafka.copy import native
from backend.kafka.copy import session as copy
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.session import CopySession
from tests.eventually import eventually
from tests.kafka.distribution.test_copy_session import Pair, numbered
from tests.support.kafka.topics import configure, create_topic, read_all
from workers.distribution import distributor
from workers.distribution.distributor import DistributorThread


# Both loops are tested in test_copy_session; the thread is the same.
@pytest.fixture(params=[pytest.param("python", marks=pytest.mark.nightly), "native"])
def pair(request, estate):
    if request.param == "native" and not native.available():
        pytest.skip("the native record loop was not built")
    return Pair(estate, record_loop=request.param)


@pytest.fixture
def start(pair):
    threads = []

    def started(plan, why_not=lambda plan: None, control_plane=ControlPlane()):  # noqa: B008
        thread = DistributorThread(plan.task, 1, pair.limits, why_not, control_plane, plan, 7)
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
    """Check a change of internal topics, which are observations: the plan changes, the log's position does not."""
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


def test_a_target_that_is_away_is_told_with_its_reason_and_tried_again(pair, start, monkeypatch):
    monkeypatch.setattr(copy, "_INIT_SECONDS", 2.0)
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


def test_a_fenced_task_asks_before_it_goes_on(pair, start):
    plan = pair.plan()
    reasons = []
    first = start(plan, lambda plan: reasons[-1] if reasons else None)
    eventually(lambda: state(first).state == "running", "the first runs")
    reasons.append("another worker holds the lease")
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


def test_checkpoints_that_are_taken_while_the_session_is_asked_for_more_are_taken_once(pair, start, monkeypatch):
    given, taken = [], []

    class Interrupted(CopySession):
        """Take checkpoints, as the host does, just when the task's thread is about to add some."""

        def take_checkpoints(self):
            news = super().take_checkpoints()
            taken.append(threading.current_thread().take_checkpoints())
            given.extend(news)
            return news

    monkeypatch.setattr(copy, "_CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(distributor, "CopySession", Interrupted)
    pair.produce(numbered(12))
    thread = start(pair.plan())
    eventually(lambda: given, "a checkpoint")
    thread.stop()
    thread.join()
    taken.append(thread.take_checkpoints())
    assert [each for some in taken for each in some] == given


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"value": b"x" * 200_000}, "larger than"),
        ({"value": b"late", "timestamp": int(time.time() * 1000) + 48 * HOUR_MS}, "timestamp"),
    ],
    ids=["too large", "from the future"],
)
def test_a_record_that_the_target_refuses_is_dead_lettered_and_what_follows_goes_on(pair, start, odd, reason):
    configure(pair.servers[pair.a], pair.topic, {"message.timestamp.after.max.ms": str(96 * HOUR_MS)})
    configure(pair.servers[pair.b], pair.copy_topic, {"max.message.bytes": "100000"})
    records = [{"value": b"%d" % n, "partition": 0, "headers": [("h", b"%d" % n)]} for n in range(20)]
    records.insert(10, {**odd, "key": b"k", "partition": 0, "headers": [("h", b"odd")]})
    pair.produce(records)
    thread = start(pair.plan(), control_plane=ControlPlane(dead_letter=pair.dead_letter))
    eventually(lambda: len(pair.copied()) == 20, "all others copied")
    assert [message.value() for message in pair.copied()] == [b"%d" % n for n in range(20)]
    eventually(lambda: state(thread).state == "running", "it runs")
    assert {(one.stream, one.partition, one.offset, one.origin) for one in pair.refused} == {
        (pair.stream, 0, 10, (1, 1, 10))
    }
    assert reason in pair.refused[0].reason
    name = f"refused-{pair.mark}-{len(pair.refused)}".encode()
    (kept,) = [
        message
        for message in read_all(pair.servers[pair.b], "_treeline.quarantine")
        if ("treeline-set-aside", name) in message.headers()
        and ("h", b"odd") in message.headers()
        and message.value() == odd["value"]
    ]
    assert (kept.key(), kept.timestamp()[1]) == (b"k", odd.get("timestamp", kept.timestamp()[1]))


def test_without_anybody_to_record_it_nothing_is_dead_lettered(pair, start):
    configure(pair.servers[pair.b], pair.copy_topic, {"max.message.bytes": "100000"})
    pair.produce([{"value": b"x" * 200_000, "partition": 0}, {"value": b"next", "partition": 0}])
    thread = start(pair.plan())
    eventually(lambda: "the loss cannot be recorded" in (state(thread).reason or ""), "blocked, with the reason")
    assert pair.copied() == []
