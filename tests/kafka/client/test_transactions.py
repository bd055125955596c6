"""Transactions that are open when clients are moved."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaException
from treeline_client import StaleGeneration, SwitchingConsumer, SwitchingProducer, TransactionAbortedBySwitch

from tests.kafka.client.conftest import technical
from tests.kafka.client.flows import stored
from tests.support.kafka import topics as kafka

DEADLINE_SECONDS = 90.0


@pytest.fixture
def producer(plane, clusters):
    made = SwitchingProducer(plane.conf(), **{"transactional.id": f"transfers-{uuid.uuid4().hex[:8]}"})
    made.init_transactions(DEADLINE_SECONDS)
    yield made
    made.close(DEADLINE_SECONDS)


def commit_one(producer, topic, value):
    producer.begin_transaction(DEADLINE_SECONDS)
    producer.produce(topic, value)
    producer.commit_transaction(DEADLINE_SECONDS)


@pytest.mark.parametrize("call", ["produce", "commit", "send_offsets"])
def test_one_that_is_open_at_a_hold_is_aborted_and_the_next_call_says_so(plane, clusters, topic, producer, call):
    commit_one(producer, topic, "1")
    producer.begin_transaction()
    producer.produce(topic, "2")
    plane.hold("cluster-2")
    plane.wait_reported("held")
    calls = {
        "produce": lambda: producer.produce(topic, "3"),
        "commit": lambda: producer.commit_transaction(DEADLINE_SECONDS),
        "send_offsets": lambda: producer.send_offsets_to_transaction([], None, DEADLINE_SECONDS),
    }
    with pytest.raises(TransactionAbortedBySwitch) as aborted:
        calls[call]()
    assert aborted.value.args[0].txn_requires_abort()
    with pytest.raises(TransactionAbortedBySwitch):
        producer.commit_transaction(DEADLINE_SECONDS)
    producer.abort_transaction()
    with pytest.raises(KafkaException, match="moved"):
        producer.begin_transaction(0.1)
    plane.move("cluster-2")
    commit_one(producer, topic, "4")
    assert stored(clusters["cluster-1"], topic) == [1]
    assert stored(clusters["cluster-2"], topic) == [4]


def test_an_abort_of_the_switch_leaves_the_next_transaction_where_it_was(plane, clusters, topic, producer):
    producer.begin_transaction()
    producer.produce(topic, "1")
    plane.hold("cluster-2")
    plane.wait_reported("held")
    plane.abort()
    plane.wait_reported("active")
    with pytest.raises(TransactionAbortedBySwitch):
        producer.produce(topic, "2")
    producer.abort_transaction()
    commit_one(producer, topic, "3")
    assert stored(clusters["cluster-1"], topic) == [3]


def test_one_that_is_open_at_a_late_move_is_aborted(plane, clusters, topic, producer):
    producer.begin_transaction()
    producer.produce(topic, "1")
    plane.move("cluster-2")
    plane.wait_reported("active", generation=4)
    with pytest.raises(TransactionAbortedBySwitch):
        producer.commit_transaction(DEADLINE_SECONDS)
    producer.abort_transaction()
    commit_one(producer, topic, "2")
    assert stored(clusters["cluster-1"], topic) == []
    assert stored(clusters["cluster-2"], topic) == [2]


def test_an_emergency_waits_for_no_transaction_of_a_silent_cluster(plane, clusters, topic, producer):
    producer.begin_transaction()
    producer.produce(topic, "1")
    old = clusters["cluster-1"]
    old.pause()
    try:
        plane.move("cluster-2", "emergency")
        plane.wait_reported("active", generation=4)
        with pytest.raises(TransactionAbortedBySwitch):
            producer.commit_transaction(DEADLINE_SECONDS)
        producer.abort_transaction()
        commit_one(producer, topic, "2")
    finally:
        old.go_on()
    assert stored(clusters["cluster-2"], topic) == [2]


def test_an_emergency_ends_a_commit_that_is_under_way_with_its_outcome_unknown(plane, clusters, topic, producer):
    old = clusters["cluster-1"]
    producer.begin_transaction()
    producer.produce(topic, "1")
    assert producer.flush(DEADLINE_SECONDS) == 0
    old.pause()
    try:
        with ThreadPoolExecutor(1) as threads:
            committing = threads.submit(producer.commit_transaction)
            plane.move("cluster-2", "emergency")
            with pytest.raises(TransactionAbortedBySwitch) as aborted:
                committing.result(DEADLINE_SECONDS)
        producer.abort_transaction()
        commit_one(producer, topic, "2")
    finally:
        old.go_on()
    # Either the commit or the move comes first; both tell the application to begin again.
    assert aborted.value.args[0].txn_requires_abort()
    assert stored(clusters["cluster-2"], topic) == [2]


def test_a_thread_that_waits_for_its_held_producer_can_close_its_consumer(plane, clusters, topic, producer):
    kafka.produce(clusters["cluster-1"].servers, technical("cluster-1", topic), [{"value": "1"}])
    conf = plane.conf(group_id=f"group-{uuid.uuid4().hex[:8]}", auto_offset_reset="earliest")
    with SwitchingConsumer(conf) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(DEADLINE_SECONDS) is not None
        assert consumer.follow()
        plane.hold("cluster-2")
        plane.wait_reported("held")
        with pytest.raises(KafkaException, match="moved"):
            producer.begin_transaction(0.1)
        while consumer.follow():
            producer.poll(0.05)
        plane.wait_reported("closed")
        plane.move("cluster-2")
        commit_one(producer, topic, "2")
        assert consumer.poll(DEADLINE_SECONDS).value() == b"2"
        assert consumer.follow()


def test_offsets_of_a_consumer_in_another_generation_are_refused(plane, clusters, topic, producer):
    kafka.produce(clusters["cluster-1"].servers, technical("cluster-1", topic), [{"value": "1"}])
    group = f"group-{uuid.uuid4().hex[:8]}"
    conf = plane.conf(group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
    with SwitchingConsumer(conf) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(DEADLINE_SECONDS) is not None
        old = consumer.consumer_group_metadata()
        positions = consumer.position(consumer.assignment())
        producer.begin_transaction()
        producer.send_offsets_to_transaction(positions, old, DEADLINE_SECONDS)
        producer.commit_transaction(DEADLINE_SECONDS)
        assert 1 in {p.offset for p in consumer.committed(consumer.assignment(), DEADLINE_SECONDS)}
        plane.move("cluster-2", "emergency")
        plane.wait(lambda: producer.generation() == 4)
        producer.begin_transaction()
        with pytest.raises(StaleGeneration):
            producer.send_offsets_to_transaction(positions, old, DEADLINE_SECONDS)
        with pytest.raises(TransactionAbortedBySwitch):
            producer.commit_transaction(DEADLINE_SECONDS)
        producer.abort_transaction()
