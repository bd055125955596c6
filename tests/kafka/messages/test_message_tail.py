"""Live tails of real logs."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search import message_tail
from backend.kafka.search.message_tail import Tail
from backend.kafka.search.topic_identity import TopicReplaced
from backend.kafka.search.topic_reader import TopicPlace
from tests.eventually import eventually
from tests.kafka.messages.walks import BASE, deleted_below, everything, made, some, write
from tests.nightly import some_now
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, topics


@pytest.fixture
def tailed():
    """Return a function that opens a tail, which is closed at the end."""
    opened = []

    def tail(*arguments, **options):
        opened.append(Tail(*arguments, **options))
        return opened[-1]

    yield tail
    for each in opened:
        each.close()


def test_a_tail_sees_what_is_new(servers, tailed):
    place = made(servers, 3)
    write(place, [(n % 3, BASE, b"old%d" % n) for n in range(30)])
    tail = tailed(place, some)
    write(place, [(n % 3, BASE, b"new%d" % n) for n in range(30)])
    seen: list[bytes] = []
    eventually(lambda: seen.extend(s.message.value() for s in tail.read(0.5)) or len(seen) >= 3, "all are seen")
    assert sorted(seen) == [b"new17", b"new27", b"new7"]
    assert tail.skipped == 0


def test_a_tail_keeps_little_of_what_is_not_read(servers, tailed):
    place = made(servers)
    tail = tailed(place, everything, queue_kbytes=64)
    write(place, [(0, BASE + n, b"x" * 100_000) for n in range(200)])
    sizes: list[int] = []

    def are_all_read():
        found = tail.read(0.5)
        sizes.extend([len(found)] if found else [])
        return sum(sizes) == 200

    eventually(are_all_read, "all are read")
    assert max(sizes) <= 40, "not all that was written is in memory"
    assert tail.skipped == 0


def test_a_tail_that_is_late_skips_to_the_end(servers, tailed, monkeypatch):
    monkeypatch.setattr(message_tail, "MOST_BEHIND", 50)
    place = made(servers)
    tail = tailed(place, everything, queue_kbytes=16)
    write(place, [(0, BASE + n, b"x" * 1_000) for n in range(1_000)], **{"batch.size": 5_000})
    seen: list[int] = []

    def is_skipped():
        seen.extend(each.message.offset() for each in tail.read(0.5))
        return tail.skipped

    eventually(is_skipped, "some are skipped")
    write(place, [(0, BASE, b"last")])
    eventually(lambda: is_skipped() and seen and seen[-1] == 1_000, "what comes later is seen")
    assert len(seen) + tail.skipped == 1_001
    assert seen == sorted(set(seen))


def test_a_tail_continues_where_another_was(servers, tailed):
    place = made(servers, 2)
    write(place, [(0, BASE, b"%d" % n) for n in range(30)])
    before = tailed(place, everything).positions
    assert before == {0: 30, 1: 0}
    write(place, [(n % 2, BASE, b"new%d" % n) for n in range(6)])
    tail = tailed(place, everything, after={0: 31})  # partition 1 is new since then
    seen: list[bytes] = []
    eventually(lambda: seen.extend(s.message.value() for s in tail.read(0.5)) or len(seen) >= 5, "all are seen")
    assert sorted(seen) == [b"new1", b"new2", b"new3", b"new4", b"new5"]
    assert (tail.positions, tail.skipped, tail.is_truncated) == ({0: 33, 1: 3}, 0, False)
    deleted_below(place, 0, 32)
    late = tailed(place, everything, after={0: 20, 1: 9})
    assert (late.positions, late.skipped, late.is_truncated) == ({0: 32, 1: 3}, 12, True)


@pytest.mark.nightly  # a cluster that is away is reported in the same way, below
def test_a_tail_reports_that_its_topic_is_deleted(servers, tailed):
    place = made(servers, 2)
    tail = tailed(place, everything)
    write(place, [(0, BASE, b"v")])
    eventually(lambda: tail.read(0.5), "the tail reads")
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([place.topic])[place.topic].result(DEADLINE_SECONDS)

    def is_reported():
        try:
            tail.read(0.5)
        except KafkaCallFailed as failed:
            return failed
        return None

    assert eventually(is_reported, "the deletion is reported").reason
    assert place.topic not in topics(servers)


@some_now("count", [5, 1], now=(0,))
def test_a_tail_shows_nothing_of_a_topic_that_was_created_anew(servers, tailed, count):
    """Check a new log with the offset that is read next, and one that ends before it."""
    place = made(servers)
    write(place, [(0, BASE, b"old%d" % n) for n in range(3)])
    tail = tailed(place, everything)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([place.topic])[place.topic].result(DEADLINE_SECONDS)
    eventually(lambda: place.topic not in topics(servers), "the topic is gone")
    create_topic(servers, place.topic)
    write(place, [(0, BASE, b"new%d" % n) for n in range(count)])
    seen = []

    def is_reported():
        try:
            seen.extend(tail.read(0.5))
        except TopicReplaced as failed:
            return failed
        return None

    assert eventually(is_reported, "the new topic is reported").reason == (
        f"topic {place.topic} was deleted and created anew"
    )
    assert seen == []


def test_a_tail_does_not_begin_in_another_topic_than_is_recorded(servers):
    place = made(servers)
    with pytest.raises(TopicReplaced, match="created anew"):
        Tail(place, everything, after={0: 0}, topic_id="another")


def test_a_tail_of_a_cluster_that_is_away_is_reported(monkeypatch):
    monkeypatch.setattr(message_tail, "_SECONDS", 1.0)
    with pytest.raises(KafkaCallFailed):
        Tail(TopicPlace("127.0.0.1:9", {}, "orders", (0,)), everything)
