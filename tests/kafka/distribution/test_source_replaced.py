"""A source topic is deleted and re-created: the possible losses of the former one, and their certainty."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from backend.domain.distribution.former_topic import Unread
from backend.domain.records import origin
from backend.kafka.copy import seen_ends
from backend.kafka.groups import positions
from tests.eventually import eventually
from tests.kafka.distribution.test_copy_session import Pair, drain, numbered, pair
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, topics

__all__ = ["pair"]


def make_anew(pair: Pair) -> None:
    admin = AdminClient({"bootstrap.servers": pair.servers[pair.a]})
    admin.delete_topics([pair.topic])[pair.topic].result(DEADLINE_SECONDS)
    eventually(lambda: pair.topic not in topics(pair.servers[pair.a]), "the topic is gone")
    create_topic(pair.servers[pair.a], pair.topic, 2)
    eventually(lambda: pair.topic in topics(pair.servers[pair.a]), "the new one is there")


def planned(pair: Pair, incarnation: int = 1):
    """Return the plan with the topic's id, as the reconcile loop records it."""
    admin = AdminClient({"bootstrap.servers": pair.servers[pair.a]})
    found = admin.describe_topics(TopicCollection([pair.topic]))[pair.topic].result(DEADLINE_SECONDS)
    plan = pair.plan()
    (stream,) = plan.streams
    incarnations = dict.fromkeys(stream.incarnations, ((0, incarnation),))
    return replace(
        plan, streams=(replace(stream, incarnations=incarnations, source_topic_id=str(found.topic_id)),)
    )


def read_the_new_topic(pair: Pair) -> None:
    """Start twice, as after a kill: a session that has not committed a position yet reports the same again."""
    for _ in range(2):
        pair.session(plan=planned(pair, 2)).close()
    pair.produce([{"value": b"new", "partition": 0}])
    session = pair.session(plan=planned(pair, 2))
    drain(session)

    def saved():
        session.copy_batch(0.2)
        marks = positions.read_all(pair.servers[pair.b], {}, [session._plan.task.kafka_name]).values()
        return all(mark.incarnation == 2 for each in marks for mark in each)

    eventually(saved, "positions in the new topic are saved")
    assert not session.troubles()
    session.close()
    told = len(pair.replaced)
    pair.session(plan=planned(pair, 2)).close()
    assert len(pair.replaced) == told, "a task that reads the new topic has told it"


def told(pair: Pair) -> dict[int, Unread]:
    assert not pair.lost
    (first, *others) = pair.replaced
    assert all(each == first for each in others)
    assert (first.stream, first.incarnation) == (pair.stream, 2)
    return dict(first.unread)


@pytest.mark.nightly  # test_former_topic
def test_of_a_topic_that_was_copied_whole_nothing_is_told_as_lost_for_certain(pair):
    pair.produce(numbered(10))
    pair.copy_until_idle()
    make_anew(pair)
    read_the_new_topic(pair)
    assert told(pair) == dict.fromkeys((0, 1), Unread(first_offset=5, at_least=0))
    assert len(pair.copied()) == 11
    assert origin.decode([dict(pair.copied()[5].headers())["copy-origin"]]).incarnation == 2


@pytest.mark.nightly  # test_former_topic
def test_marks_of_transactions_and_aborted_records_are_not_told_as_lost_for_certain(pair):
    producer = Producer({"bootstrap.servers": pair.servers[pair.a], "transactional.id": pair.mark})
    producer.init_transactions(DEADLINE_SECONDS)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for value in (b"1", b"2", b"3"):
            producer.produce(pair.topic, value, partition=0)
        producer.flush(DEADLINE_SECONDS)
        end(DEADLINE_SECONDS)
    session = pair.session(plan=planned(pair))
    drain(session)
    eventually(lambda: session.copy_batch(0.2) == 0, "the end is read")
    assert pair.seen_ends.of(pair.stream, 0) is None
    session.close()
    make_anew(pair)
    read_the_new_topic(pair)
    assert {each.at_least for each in told(pair).values()} == {0}
    assert len(pair.copied()) == 4


def test_what_waited_while_the_distributor_was_paused_is_told_exactly(pair, monkeypatch):
    monkeypatch.setattr(seen_ends, "_ASK_SECONDS", -1.0)
    pair.produce(numbered(10))
    plan = planned(pair)
    session = pair.session(plan=plan)
    drain(session)
    pair.produce([{"value": b"waits", "partition": 0} for _ in range(7)])
    eventually(lambda: session.idle() or pair.seen_ends.of(pair.stream, 0) == (1, 12), "seven are seen to wait")
    make_anew(pair)
    pair.produce([{"value": b"another topic's", "partition": 0} for _ in range(40)])
    for _ in range(3):
        session.idle()
    session.close()
    read_the_new_topic(pair)
    assert told(pair) == {
        0: Unread(first_offset=5, at_least=7),
        1: Unread(first_offset=5, at_least=0),
    }
    assert len(pair.copied()) == 10 + 41


@pytest.mark.nightly  # test_former_topic
def test_a_task_whose_position_was_forgotten_tells_by_the_targets_vector(pair):
    pair.produce(numbered(10))
    pair.copy_until_idle()
    make_anew(pair)
    plan = planned(pair, 2)
    # Another bucket copied, as if there had been more of them before.
    later = replace(plan, task=replace(plan.task, bucket=1), inbound_groups=(plan.task.kafka_name,))
    pair.session(plan=later).close()
    assert told(pair) == dict.fromkeys((0, 1), Unread(first_offset=5, at_least=0))


def test_a_log_that_ends_before_the_position_is_told_as_cut_off_and_read_no_further(pair):
    """Check a re-created topic whose id is unknown."""
    pair.produce(numbered(10))
    pair.copy_until_idle()
    make_anew(pair)
    pair.produce([{"value": b"took a lost one's offset", "partition": 0} for _ in range(3)])
    session = pair.session()

    def told_of():
        session.copy_batch(0.2)
        return {cut.partition for cut in pair.truncated} == {0, 1}

    eventually(told_of, "both partitions are told")
    troubles = session.troubles()
    for partition in (0, 1):
        # librdkafka may deliver an error of a partition after it was unassigned.
        for code in (KafkaError._AUTO_OFFSET_RESET, KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART):
            session._source.failed((pair.topic, partition), 3, KafkaError(code))
    assert session.troubles() == troubles
    session.close()
    cuts = sorted((cut.partition, cut.first_offset, cut.last_offset) for cut in pair.truncated)
    assert cuts == [(0, 3, 4), (1, 0, 4)]
    assert sorted((lost.partition, lost.first_offset, lost.last_offset) for lost in pair.lost) == cuts
    assert "truncated at 3" in troubles[pair.topic, 0]
    assert len(pair.copied()) == 10
