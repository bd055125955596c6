"""Producers that are moved between two real clusters while records flow."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import KafkaError
from treeline_client import ClientClosed, OutcomeUnknown, SwitchingProducer

from tests.kafka.client.conftest import technical
from tests.kafka.client.flows import DEADLINE_SECONDS, Flow, by_key, check_exactly_once, stored
from tests.nightly import some_now
from tests.support.kafka import topics as kafka


def test_a_planned_move_loses_and_doubles_nothing_and_keeps_each_keys_order(plane, clusters, topic):
    with SwitchingProducer(plane.conf()) as producer:
        flow = Flow(producer, topic).start()
        plane.wait(lambda: len(flow.reported) > 200)
        plane.hold("cluster-2")
        plane.wait_reported("held")
        left = len(stored(clusters["cluster-1"], topic))
        plane.wait(lambda: producer.metrics().queued_records > 50)
        assert stored(clusters["cluster-2"], topic) == []
        plane.move("cluster-2")
        plane.wait_reported("active")
        plane.wait(lambda: len(flow.reported) > left + 200)
        flow.stop()
        assert (producer.generation(), producer.cluster()) == (4, "cluster-2")
        assert producer.metrics().switches == 1
        assert producer.metrics().last_unavailable_ms > 0
    assert len(stored(clusters["cluster-1"], topic)) == left, "something was sent after held was reported"
    assert not flow.failed
    assert flow.topics == {topic}
    check_exactly_once(clusters.values(), topic, range(flow.sent))
    for key, order in by_key(clusters["cluster-2"], topic).items():
        assert order[0] > max(by_key(clusters["cluster-1"], topic)[key])
    assert plane.reports == {}, "the client said unregister"


def test_a_switch_that_is_aborted_sends_what_waited_where_it_was(plane, clusters, topic):
    with SwitchingProducer(plane.conf()) as producer:
        flow = Flow(producer, topic).start()
        plane.hold("cluster-2")
        plane.wait_reported("held")
        plane.wait(lambda: producer.metrics().queued_records > 50)
        plane.abort()
        plane.wait_reported("active")
        flow.stop()
        assert producer.metrics().aborts == 1
        assert producer.cluster() == "cluster-1"
    check_exactly_once([clusters["cluster-1"]], topic, range(flow.sent))


@pytest.mark.nightly  # where nobody answers stays, and the consumer's in test_consumers
def test_a_promise_ends_when_the_control_plane_is_gone_and_its_return_is_followed(plane, clusters, topic):
    plane.says(hold_ms=1500)
    with SwitchingProducer(plane.conf()) as producer:
        flow = Flow(producer, topic)
        flow.send(100)
        plane.hold("cluster-2")
        plane.wait_reported("held")
        flow.send(100)
        plane.stop()
        flow.finish()  # only the expiry of the hold releases these
        assert producer.metrics().promises_run_out == 1
        assert sorted(stored(clusters["cluster-1"], topic)) == list(range(200))
        plane.start()
        plane.wait_reported("held")  # discovery still says hold, so the client holds again
        flow.send(100)
        plane.move("cluster-2")
        flow.finish()
    check_exactly_once(clusters.values(), topic, range(300))
    assert len(stored(clusters["cluster-2"], topic)) == 100


def test_a_promise_ends_where_the_control_plane_takes_reports_and_answers_none(plane, clusters, topic):
    """If every request to a control plane that hangs extended the hold, the client would hold forever."""
    plane.says(hold_ms=1500, ttl_ms=200)  # it polls again long before its hold expires
    with SwitchingProducer(plane.conf()) as producer:
        flow = Flow(producer, topic)
        plane.hold("cluster-2")
        plane.wait_reported("held")
        flow.send(10)
        plane.status = 500
        try:
            flow.finish()
            assert producer.metrics().promises_run_out == 1
        finally:
            plane.status = 200
            plane.abort()
    check_exactly_once([clusters["cluster-1"]], topic, range(10))


def test_what_is_produced_while_much_that_waited_is_sent_comes_behind_it(plane, clusters, topic):
    with SwitchingProducer(plane.conf()) as producer:
        plane.hold("cluster-2")
        plane.wait_reported("held")
        flow = Flow(producer, topic)
        flow.send(20_000)
        plane.move("cluster-2")
        while producer.metrics().queued_records:
            flow.send(10)
            time.sleep(0.001)
        flow.finish()
    assert not flow.failed
    check_exactly_once([clusters["cluster-2"]], topic, range(flow.sent))


def test_a_record_that_waited_has_the_time_when_it_was_produced(plane, clusters, topic, monkeypatch):
    with SwitchingProducer(plane.conf()) as producer:
        plane.hold("cluster-2")
        plane.wait_reported("held")
        with monkeypatch.context() as then:
            then.setattr(time, "time", lambda: 1_700_000_000.0)
            producer.produce(topic, "it waits")
        plane.move("cluster-2")
        assert producer.flush(DEADLINE_SECONDS) == 0
    (message,) = kafka.read_all(clusters["cluster-2"].servers, technical("cluster-2", topic))
    assert message.timestamp()[1] == 1_700_000_000_000


def test_reports_are_served_by_the_applications_poll_only(plane, clusters, topic):
    with SwitchingProducer(plane.conf()) as producer:
        flow = Flow(producer, topic)
        for number in range(500):
            producer.produce(topic, str(number), on_delivery=flow._report(number))
        flow.sent = 500
        plane.hold("cluster-2")
        plane.wait_reported("held")
        assert flow.reported == {}
        assert len(producer) == 500
        plane.move("cluster-2")
        flow.finish()
    assert flow.threads == {threading.get_ident()}


def test_what_waits_is_bounded_as_librdkafka_bounds_it(plane, clusters, topic):
    with SwitchingProducer(plane.conf(), **{"queue.buffering.max.messages": 1000}) as producer:
        plane.hold("cluster-2")
        plane.wait_reported("held")
        flow = Flow(producer, topic)
        flow.send(1000)
        # If the assertion fails inside the block, a held client would wait for its records forever at the end.
        try:
            producer.produce(topic, "one more")
        except BufferError:
            refused = True
        else:
            refused = False
        plane.move("cluster-2")
        flow.finish()
    assert refused
    check_exactly_once(clusters.values(), topic, range(1000))


def test_what_waits_longer_than_librdkafka_would_try_is_reported(plane, clusters, topic):
    with SwitchingProducer(plane.conf(), **{"delivery.timeout.ms": 1000, "linger.ms": 5}) as producer:
        plane.hold("cluster-2")
        plane.wait_reported("held")
        flow = Flow(producer, topic)
        flow.send(10)
        flow.finish()
        assert {error.code() for error in flow.failed.values()} == {KafkaError._MSG_TIMED_OUT}
        plane.abort()
    assert stored(clusters["cluster-1"], topic) == []


def test_the_applications_own_purge_is_reported_to_it(plane, clusters, topic):
    with SwitchingProducer(plane.conf()) as producer:
        plane.hold("cluster-2")
        plane.wait_reported("held")
        flow = Flow(producer, topic)
        flow.send(10)
        producer.purge()
        flow.finish()
        assert {error.code() for error in flow.failed.values()} == {KafkaError._PURGE_QUEUE}
        plane.abort()
    with pytest.raises(ClientClosed):
        producer.produce(topic, "late")


@pytest.mark.parametrize("held", [True, False])
def test_an_abort_after_offsets_were_set_stops_no_producer(plane, clusters, topic, held):
    """The generation rises on the same cluster: there is nothing to wait for and nothing to open."""
    plane.says(distributor_timeout_ms=600_000)
    with SwitchingProducer(plane.conf()) as producer:
        flow = Flow(producer, topic)
        flow.send(50)
        if held:
            plane.hold("cluster-2")
            plane.wait_reported("held")
            flow.send(50)
        plane.abort(offsets_were_set=True)
        plane.wait_reported("active", generation=4)
        flow.send(50)
        flow.finish()
        assert (producer.generation(), producer.cluster()) == (4, "cluster-1")
        assert (producer.metrics().aborts, producer.metrics().switches) == (1, 0)
    assert not flow.failed
    check_exactly_once([clusters["cluster-1"]], topic, range(flow.sent))


def test_a_producer_that_starts_during_a_hold_is_held(plane, clusters, topic):
    plane.hold("cluster-2")
    with SwitchingProducer(plane.conf()) as producer:
        flow = Flow(producer, topic)
        flow.send(10)
        plane.wait_reported("held")
        plane.move("cluster-2")
        flow.finish()
    check_exactly_once([clusters["cluster-2"]], topic, range(10))


def test_a_late_producer_waits_for_the_longest_way_or_for_word_that_all_has_arrived(plane, clusters, topic):
    plane.says(distributor_timeout_ms=3_600_000)
    with SwitchingProducer(plane.conf()) as producer:
        flow = Flow(producer, topic)
        flow.send(100)
        plane.move("cluster-2")
        plane.wait_reported("held", generation=3)
        flow.send(100)
        assert stored(clusters["cluster-2"], topic) == []
        assert len(stored(clusters["cluster-1"], topic)) == 100
        plane.says(arrived=True)
        flow.finish()
        plane.says(arrived=False, distributor_timeout_ms=100)
        heard = producer.metrics().polls
        plane.wait(lambda: producer.metrics().polls > heard + 1)
        plane.move("cluster-1")  # and back: here the time is over soon
        flow.send(100)
        plane.wait_reported("active", generation=5)
        flow.finish()
    check_exactly_once(clusters.values(), topic, range(300))


@pytest.mark.nightly  # test_rules, with a mutant
def test_an_answer_of_a_lower_generation_is_ignored(plane, clusters, topic):
    with SwitchingProducer(plane.conf()) as producer:
        plane.move("cluster-2", "emergency")
        plane.wait_reported("active", generation=4)
        polls = producer.metrics().polls
        plane.says(generation=2, **plane._at("cluster-1"))
        plane.wait(lambda: producer.metrics().polls > polls + 2)
        assert (producer.generation(), producer.cluster()) == (4, "cluster-2")
        flow = Flow(producer, topic)
        flow.send(10)
        flow.finish()
    check_exactly_once([clusters["cluster-2"]], topic, range(10))


def _leave_records_on_their_way(flow, cluster):
    """Leave records in requests without an answer, and many queued behind them."""
    flow.send(100)
    flow.finish()
    cluster.pause()
    flow.send(400)
    for _ in range(10):
        flow.producer.poll(0.05)  # lets librdkafka send what it can


@some_now(
    "end, outcome",
    [
        ("paused", "resend"),
        ("killed", "report"),
        pytest.param("paused", "report", marks=pytest.mark.nightly),
        pytest.param("killed", "resend", marks=pytest.mark.nightly),
    ],
    now=(0,),
)
def test_an_emergency_sends_what_was_never_sent_and_tells_of_what_may_have_been(
    plane, clusters, topic, end, outcome
):
    """No record is lost in either mode; with `report`, every possible duplicate is reported."""
    old, new = clusters["cluster-1"], clusters["cluster-2"]
    conf = {"treeline.unknown.outcome": outcome, "batch.num.messages": 10}
    try:
        with SwitchingProducer(plane.conf(), **conf) as producer:
            flow = Flow(producer, topic)
            _leave_records_on_their_way(flow, old)
            if end == "killed":
                old.kill()
                flow.send(100)
            plane.move("cluster-2", "emergency")
            plane.wait_reported("active", generation=4)
            flow.send(100)
            flow.finish()
            unknown = producer.metrics().unknown_outcomes
            assert producer.cluster() == "cluster-2"
    finally:
        if end == "killed":
            old.start_again()
        else:
            old.go_on()
    assert unknown > 0
    there, here = stored(old, topic), stored(new, topic)
    assert len(here) == len(set(here))
    if outcome == "report":
        assert len(flow.failed) == unknown
        assert all(isinstance(error, OutcomeUnknown) for error in flow.failed.values())
        assert not set(here) & set(there)
        assert set(here) | set(there) | set(flow.failed) == set(range(flow.sent))
        assert not set(here) & set(flow.failed)
    else:
        assert not flow.failed
        assert set(here) >= set(range(100, flow.sent))
    for order in by_key(new, topic).values():
        assert order == sorted(order)


def test_records_of_several_threads_keep_each_threads_order_through_a_move(plane, clusters, topic):
    with SwitchingProducer(plane.conf()) as producer:
        done = threading.Event()
        counts = [0, 0, 0]

        def send(thread: int) -> None:
            while not done.is_set():
                producer.produce(topic, str(counts[thread]), key=f"thread-{thread}")
                counts[thread] += 1
                done.wait(0.001)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        plane.wait(lambda: min(counts) > 100)
        plane.hold("cluster-2")
        plane.wait_reported("held")
        seen = min(counts)
        plane.wait(lambda: min(counts) > seen + 50)
        plane.move("cluster-2")
        plane.wait_reported("active")
        seen = min(counts)
        plane.wait(lambda: min(counts) > seen + 50)
        done.set()
        for thread in threads:
            thread.join()
        assert producer.flush(60) == 0
    first, second = (by_key(clusters[name], topic) for name in ("cluster-1", "cluster-2"))
    for thread, count in enumerate(counts):
        assert first[f"thread-{thread}"] + second[f"thread-{thread}"] == list(range(count))


def test_a_hold_that_comes_with_the_move_keeps_records_back_on_the_new_cluster(plane, clusters, topic):
    with SwitchingProducer(plane.conf()) as producer:
        plane.hold("cluster-2")
        plane.wait_reported("held")
        flow = Flow(producer, topic)
        flow.send(10)
        plane.says(phase="hold", generation=4, mode="planned", **plane._at("cluster-2"))
        plane.wait_reported("held", generation=4)
        assert stored(clusters["cluster-2"], topic) == []
        plane.abort()
        flow.finish()
    assert sorted(stored(clusters["cluster-2"], topic)) == list(range(10))
