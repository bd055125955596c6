"""Rules of the client without a cluster: its state, names, progress, and returned records."""

from __future__ import annotations

import json
import pickle
import random
from collections import Counter

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition
from treeline_client import OutcomeUnknown, client_state
from treeline_client.answers import Answer, Destination, NotAnAnswer, parse
from treeline_client.client_state import CONSUMER, PRODUCER, Leave, Move, Phase, Resume, Settle, Stay, Way
from treeline_client.names import Format, Topic
from treeline_client.progress import Progress, read_in
from treeline_client.records import Record
from treeline_client.returned_records import NOT_SENT, ON_ITS_WAY, ReturnedRecords

GIVEN = {"tenant": "acme", "instance": "retail", "environment": "prod"}


def answer(generation=3, hold=False, emergency=False, arrived=False, at=None, servers="b:1"):
    there = Destination(
        cluster=f"cluster-{at or generation}",
        bootstrap_servers=servers,
        topic_format="{topic}",
        group_format="{group}",
    )
    return Answer(
        destination=there, generation=generation, hold=hold, ttl_ms=1000, hold_ms=10_000,
        distributor_timeout_ms=5000, distributor_distance=2, emergency=emergency, arrived=arrived, next=None,
    )  # fmt: skip


def state_in(phase, role=PRODUCER):
    """Return a client in generation 3, told to hold and still since time 0, that never moved."""
    before = client_state.begin(role, answer(), True, 0.0)
    if phase is Phase.ACTIVE:
        return before
    if phase is Phase.WAITING:
        after, order = client_state.heard(before, answer(4), 0.0)
        assert order == Leave()
        return after
    after, order = client_state.heard(before, answer(hold=True), 0.0)
    assert order == Settle(None)
    return after if phase is Phase.SETTLING else client_state.settled(after, 0.0)


HEARD = [
    # role, phase, answer, phase after, order
    (PRODUCER, Phase.ACTIVE, answer(), Phase.ACTIVE, None),
    (PRODUCER, Phase.ACTIVE, answer(2, hold=True), Phase.ACTIVE, None),
    (PRODUCER, Phase.ACTIVE, answer(hold=True), Phase.SETTLING, Settle),
    (PRODUCER, Phase.ACTIVE, answer(4), Phase.WAITING, Leave),
    (PRODUCER, Phase.ACTIVE, answer(4, emergency=True), Phase.ACTIVE, Way.EMERGENCY),
    (CONSUMER, Phase.ACTIVE, answer(4), Phase.ACTIVE, Way.LATE),
    (PRODUCER, Phase.SETTLING, answer(hold=True), Phase.SETTLING, None),
    (PRODUCER, Phase.SETTLING, answer(), Phase.ACTIVE, Resume),
    (PRODUCER, Phase.SETTLING, answer(4), Phase.WAITING, Leave),
    (CONSUMER, Phase.SETTLING, answer(4), Phase.ACTIVE, Way.LATE),
    (PRODUCER, Phase.HELD, answer(hold=True), Phase.HELD, None),
    (PRODUCER, Phase.HELD, answer(), Phase.ACTIVE, Resume),
    (PRODUCER, Phase.HELD, answer(4, arrived=True), Phase.ACTIVE, Way.HELD),
    (PRODUCER, Phase.HELD, answer(4, hold=True, arrived=True), Phase.SETTLING, Way.HELD),
    # It began to hold after the drain was marked.
    (PRODUCER, Phase.HELD, answer(4), Phase.WAITING, Leave),
    (PRODUCER, Phase.HELD, answer(4, emergency=True), Phase.ACTIVE, Way.HELD),
    (PRODUCER, Phase.HELD, answer(2), Phase.HELD, None),
    (CONSUMER, Phase.HELD, answer(5), Phase.ACTIVE, Way.HELD),
    # The switch was aborted after it had set offsets.
    (PRODUCER, Phase.ACTIVE, answer(4, at=3), Phase.ACTIVE, Stay),
    (PRODUCER, Phase.SETTLING, answer(4, at=3), Phase.ACTIVE, Stay),
    (PRODUCER, Phase.HELD, answer(4, at=3), Phase.ACTIVE, Stay),
    (PRODUCER, Phase.HELD, answer(4, hold=True, at=3), Phase.SETTLING, Stay),
    (PRODUCER, Phase.ACTIVE, answer(6, at=3), Phase.ACTIVE, Stay),
    (CONSUMER, Phase.ACTIVE, answer(4, at=3), Phase.ACTIVE, Stay),
    (CONSUMER, Phase.SETTLING, answer(4, at=3), Phase.ACTIVE, Stay),
    # A node of its zone has ended meanwhile: the cluster is the same.
    (PRODUCER, Phase.ACTIVE, answer(4, at=3, servers="c:2"), Phase.ACTIVE, Stay),
    (CONSUMER, Phase.HELD, answer(4, at=3), Phase.ACTIVE, Way.HELD),
    (CONSUMER, Phase.ACTIVE, answer(5, at=3), Phase.ACTIVE, Way.LATE),
    (PRODUCER, Phase.WAITING, answer(3), Phase.WAITING, None),
    (PRODUCER, Phase.WAITING, answer(4, arrived=True), Phase.WAITING, None),
    (PRODUCER, Phase.WAITING, answer(5), Phase.WAITING, None),
    (PRODUCER, Phase.WAITING, answer(5, emergency=True), Phase.ACTIVE, Way.EMERGENCY),
]


@pytest.mark.parametrize(("role", "phase", "said", "after", "ordered"), HEARD)
def test_what_an_answer_changes(role, phase, said, after, ordered):
    now, order = client_state.heard(state_in(phase, role), said, 1.0)
    assert now.phase is after
    if ordered is None:
        assert order is None
    elif isinstance(ordered, Way):
        assert isinstance(order, Move)
        assert order.way is ordered
        assert order.answer == said == now.answer
    else:
        assert isinstance(order, ordered)


@pytest.mark.parametrize(
    ("phase", "role", "reported"),
    [
        (Phase.ACTIVE, PRODUCER, "active"),
        (Phase.SETTLING, CONSUMER, "active"),
        (Phase.HELD, PRODUCER, "held"),
        (Phase.HELD, CONSUMER, "closed"),
        (Phase.WAITING, PRODUCER, "active"),
    ],
)
def test_what_the_control_plane_is_told(phase, role, reported):
    assert state_in(phase, role).reported == reported


def test_a_late_producer_reports_itself_held_once_all_that_it_sent_is_settled():
    flushing = state_in(Phase.WAITING)
    assert flushing.reported == "active"
    assert client_state.heard(flushing, answer(5), 1.0)[0].reported == "active"
    assert client_state.settled(flushing, 2.0).reported == "held"


def test_a_promise_counts_from_the_last_request_that_may_have_arrived():
    held = state_in(Phase.HELD)
    assert client_state.elapsed(held, 9.9)[0].phase is Phase.HELD
    assert client_state.missed(held, False, 9.0).still_until == 10.0
    later = client_state.missed(held, True, 9.0)
    assert client_state.elapsed(later, 18.9)[0].phase is Phase.HELD
    gone_on, order = client_state.elapsed(later, 19.0)
    assert (gone_on.phase, order) == (Phase.ACTIVE, Resume(ran_out=True))


def test_a_control_plane_that_takes_reports_and_answers_none_is_promised_no_more():
    held = state_in(Phase.HELD)
    assert client_state.may_promise(held, 9.9)
    later = client_state.missed(held, True, 10.0)
    assert not client_state.may_promise(later, 10.1)
    assert client_state.may_promise(client_state.elapsed(later, 20.0)[0], 20.0)


def test_one_that_settles_without_hearing_anything_goes_on_too():
    settling = client_state.missed(state_in(Phase.SETTLING), True, 9.0)
    assert client_state.elapsed(settling, 10.0)[1] == Resume(ran_out=True)


def test_a_late_one_that_is_to_go_where_it_is_waits_for_nothing():
    waiting, order = client_state.heard(state_in(Phase.WAITING), answer(5, at=3), 1.0)
    assert (waiting.phase, order) == (Phase.WAITING, None)
    sent = client_state.settled(waiting, 50.0)
    assert client_state.elapsed(sent, 50.0)[1] == Move(answer(5, at=3), Way.LATE, False)


def test_a_late_one_that_is_sent_back_to_where_it_wrote_waits_for_nothing():
    late = client_state.settled(state_in(Phase.WAITING), 1.0)
    assert late.wait_until is not None and late.wait_until > 1.0
    after, order = client_state.heard(late, answer(5, at=3), 2.0)
    assert (after.phase, order) == (Phase.ACTIVE, Move(answer(5, at=3), Way.LATE, False))


def test_one_that_held_too_late_says_so_from_the_first_and_goes_on_when_it_is_told():
    late, _ = client_state.heard(state_in(Phase.HELD), answer(4), 1.0)
    assert (late.reported, late.wait_until) == ("held", 1.0 + answer().longest_way_s)
    after, order = client_state.heard(late, answer(4, arrived=True), 2.0)
    assert (after.phase, order) == (Phase.ACTIVE, Move(answer(4, arrived=True), Way.LATE, False))


def test_a_late_one_waits_the_longest_way_from_when_it_had_sent_everything():
    waiting = state_in(Phase.WAITING)
    assert client_state.elapsed(waiting, 1000.0)[1] is None, "it has not sent everything yet"
    sent = client_state.settled(waiting, 50.0)
    assert sent.answer.generation == 3
    assert client_state.elapsed(sent, 59.9)[1] is None
    assert client_state.heard(sent, answer(4, arrived=True), 51.0)[1] == Move(
        answer(4, arrived=True), Way.LATE, False
    )
    moved, order = client_state.elapsed(sent, 60.0)
    assert isinstance(order, Move)
    assert moved.answer.generation == 4


def test_a_cached_hold_is_no_promise_of_this_client():
    assert client_state.begin(PRODUCER, answer(hold=True), False, 0.0).phase is Phase.ACTIVE
    assert client_state.begin(PRODUCER, answer(hold=True), True, 0.0).phase is Phase.HELD


@pytest.mark.parametrize(
    ("text", "technical"),
    [
        ("{tenant}-{instance}-{environment}-{topic}", "acme-retail-prod-orders"),
        ("{topic}", "orders"),
        ("{environment}.{topic}.{tenant}", "prod.orders.acme"),
    ],
)
def test_a_format_names_and_reads_back(text, technical):
    made = Format(text, "topic", GIVEN)
    assert made.technical("orders") == technical
    assert made.logical(technical) == "orders"


def test_a_format_reads_no_other_environments_names():
    made = Format("{tenant}-{environment}-{topic}", "topic", GIVEN)
    assert made.logical("acme-test-orders") is None
    assert made.logical("acme-prod-") is None


@pytest.mark.parametrize("text", ["orders", "{topic}{topic}", "{colour}-{topic}", "{group}"])
def test_what_is_no_format_is_refused(text):
    with pytest.raises(ValueError, match="is not a format"):
        Format(text, "topic", GIVEN)


def whole(**changes):
    found = {
        "cluster": "cluster-1", "bootstrap_servers": "b:1", "formats": {"topic": "{topic}", "group": "{group}"},
        "generation": 3, "phase": "active", "ttl_ms": 1000, "anything": "else", **changes,
    }  # fmt: skip
    return json.dumps({name: value for name, value in found.items() if value is not None}).encode()


def test_an_answer_is_read_with_the_defaults_of_what_may_be_missing():
    read = parse(whole())
    assert (read.cluster, read.generation, read.hold_ms, read.longest_way_s) == ("cluster-1", 3, 15_000, 60.0)
    assert read.next is None


@pytest.mark.parametrize(
    "change",
    [
        {"cluster": None}, {"cluster": 7}, {"formats": []}, {"formats": {"topic": "t"}}, {"generation": None},
        {"generation": True}, {"generation": -1}, {"generation": 1.5}, {"phase": "asleep"}, {"ttl_ms": 0},
        {"ttl_ms": 10**12}, {"hold_ms": "1"},
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(change):
    with pytest.raises(NotAnAnswer):
        parse(whole(**change))


def test_progress_covers_what_was_given_and_no_more():
    progress = Progress(True, lambda technical: Topic(technical.removeprefix("t-"), 4, "cluster-2"))
    given = [progress.give(Message(topic="t-orders", partition=1, offset=n, value=b"v")) for n in (5, 6, 7)]
    assert read_in(given[0]) == (4, "cluster-2")
    assert read_in(Message(topic="orders")) is None
    covered = [n for n in range(12) if progress.covers(TopicPartition("orders", 1, n))]
    assert covered == [5, 6, 7, 8]
    assert not progress.covers(TopicPartition("orders", 0, 5))
    assert [(p.topic, p.partition, p.offset) for p in progress.to_commit()] == [("orders", 1, 8)]
    progress.answer(progress.to_commit())
    assert progress.to_commit() == []
    progress.forget([TopicPartition("orders", 1)])
    assert not progress.covers(TopicPartition("orders", 1, 6))


def test_what_is_committed_is_known_by_the_answer_only():
    progress = Progress(True, lambda technical: Topic(technical, 4, "cluster-2"))

    def offsets(partitions):
        return [one.offset for one in partitions]

    progress.give(Message(topic="orders", partition=1, offset=7, value=b"v"))
    assert progress.first(TopicPartition("orders", 1)) is None, "it is to be committed as it is"
    assert progress.first(TopicPartition("orders", 2)) == -1
    sent = progress.to_send()
    progress.ask(sent)
    assert (offsets(progress.to_send()), offsets(progress.to_commit())) == ([], [8])
    progress.answer(sent, failed=True)
    assert (offsets(progress.to_send()), offsets(progress.to_repeat())) == ([8], [8])
    progress.ask([TopicPartition("orders", 1, 5, "mine")])
    assert [(one.offset, one.metadata) for one in progress.to_repeat()] == [(5, "mine")]
    progress.ask(sent)
    progress.answer(sent)
    assert progress.to_send() == progress.to_commit() == progress.to_repeat() == []


def test_a_topic_that_knows_its_generation_is_a_text_like_any_other():
    topic = Topic("orders", 4, "cluster-2")
    again = pickle.loads(pickle.dumps(topic))
    assert topic == again == "orders"
    assert {topic: 1}["orders"] == 1
    assert (again.generation, again.cluster) == (4, "cluster-2")


def given_back(sent, acknowledged, failed, on_their_way, queued, resend=False, statistics=True):
    """Return the numbers of the records to send elsewhere, and of those reported, for one partition.

    The reports arrive in any order, as librdkafka's do.
    """
    back = ReturnedRecords()
    reports = list(enumerate([ON_ITS_WAY] * on_their_way + [NOT_SENT] * queued))
    random.Random(sent).shuffle(reports)
    for number, code in reports:
        record = Record("t", number, None, -1, None, 0, None)
        record.number = number
        assert back.take(record, code, Message(topic="t", partition=0))
    text = json.dumps({"topics": {"t": {"partitions": {"0": {"txmsgs": sent, "acked_msgid": acknowledged}}}}})
    told = []
    records, unknown = back.sort(
        text if statistics else None, Counter({("t", 0): failed}), "cluster-1", resend,
        lambda record, error, _: told.append((record.value, error)),
    )  # fmt: skip
    assert unknown == (len(told) if not resend else unknown)
    assert all(isinstance(error, OutcomeUnknown) for _, error in told)
    return [record.value for record in records], [value for value, _ in told]


@pytest.mark.parametrize(
    ("figures", "again", "unknown"),
    [
        # sent, acknowledged, failed, in flight, queued
        ((10, 10, 0, 0, 3), [0, 1, 2], []),
        ((12, 10, 0, 2, 2), [2, 3], [0, 1]),
        ((12, 10, 0, 0, 3), [2], [0, 1]),  # their connection broke: they are queued again although they were sent
        ((13, 10, 0, 2, 3), [3, 4], [0, 1, 2]),
        ((10, 12, 2, 0, 2), [0, 1], []),  # two that failed unsent have a number nevertheless
        ((99, 10, 0, 0, 2), [], [0, 1]),
        ((30, 10, 0, 5, 40), list(range(20, 45)), list(range(20))),
    ],
)
def test_what_may_have_been_sent_is_told_from_what_never_was(figures, again, unknown):
    assert given_back(*figures) == (again, unknown)
    assert given_back(*figures, resend=True) == (unknown + again, [])


def test_without_statistics_all_that_had_a_partition_is_unknown():
    assert given_back(0, 0, 0, 1, 2, statistics=False) == ([], [0, 1, 2])


def test_other_failures_are_not_taken():
    record = Record("t", 1, None, -1, None, 0, None)
    assert not ReturnedRecords().take(record, KafkaError._MSG_TIMED_OUT, Message(topic="t", partition=0))
