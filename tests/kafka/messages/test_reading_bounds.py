"""Bounds of memory, bytes, records and time, and failures, when messages of real logs are read."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search import record_merge, topic_reader
from backend.kafka.search.message_reading import Bounds, Earliest, EndedBy, Newest, PageEnded, read_messages
from backend.kafka.search.message_tail import Tail
from backend.kafka.search.topic_reader import TopicPlace
from tests.kafka.messages.walks import (
    BASE,
    BOUNDS,
    WAYS,
    everything,
    in_order,
    made,
    place_of,
    places,
    some,
    walk,
    write,
)
from tests.nightly import some_now
from tests.support.kafka.topics import DEADLINE_SECONDS, read_all, topics

MEGABYTE = 1024 * 1024
LARGE = 10 * MEGABYTE


@WAYS
@some_now("buffer", [3_000, 40_000], now=(0,))
def test_little_memory_changes_nothing(servers, monkeypatch, start, buffer):
    """Check partitions of different days, so that each waits for the others, with records above what is kept."""
    monkeypatch.setattr(record_merge, "BUFFER_BYTES", buffer)
    place = made(servers, 4)
    chance = random.Random(11)
    rows = []
    for n in range(60):
        for partition in range(4):
            value = b"x" * chance.choice([10, 10, 1_000, 5_000])
            rows.append((partition, BASE + partition * 86_400_000 * (n % 3) + n, value + b"%d" % n))
    write(place, rows, **{"batch.size": 6_000})
    pages = walk(place, start, 100)
    expected = in_order(read_all(servers, place.topic), backward=pages[0].backward)
    assert places(pages) == expected
    assert len(expected) == 240


@WAYS
def test_nothing_is_read_after_a_selection_has_ended_the_page(servers, start):
    place = made(servers, 2)
    write(place, [(n % 2, BASE + n, b"%d" % n) for n in range(200)])
    batches = []

    def until_the_second(messages):
        batches.append(messages)
        if len(batches) == 2:
            raise PageEnded(everything(messages[:1]), EndedBy.BYTES)
        return everything(messages)[:1]

    page = read_messages(place, start, 10, BOUNDS, until_the_second)
    assert page.ended_by is EndedBy.BYTES
    assert [each.message for each in page.found] == [messages[0] for messages in batches]
    assert page.scanned_records == sum(map(len, batches)) == 10 + 20
    moved = [abs(page.after[partition] - page.started[partition]) for partition in (0, 1)]
    assert sum(moved) == page.scanned_records


@pytest.fixture(scope="module")
def large(servers):
    """Return two partitions with records of 10 MB between small ones."""
    place = made(servers, 2, max_message_bytes=str(LARGE + MEGABYTE))
    rows = []
    for n in range(8):
        size = LARGE if n in (2, 5, 7) else 10
        rows.append((n % 2, BASE + n, b"x" * size))
    write(place, rows, **{"message.max.bytes": LARGE + MEGABYTE})
    return place


@WAYS
@pytest.mark.parametrize("buffer", [20_000, record_merge.BUFFER_BYTES])
def test_a_record_above_the_bound_of_bytes_comes_alone(servers, large, monkeypatch, start, buffer):
    monkeypatch.setattr(record_merge, "BUFFER_BYTES", buffer)
    pages = walk(large, start, 100, bounds=Bounds(120.0, 1_000, 1_000))
    expected = in_order(read_all(servers, large.topic), backward=pages[0].backward)
    assert places(pages) == expected
    assert len(expected) == 8
    for page in pages:
        assert page.scanned_bytes <= 1_000 or len(page.found) == 1
    assert {page.ended_by for page in pages[:-1]} == {EndedBy.BYTES}


@WAYS
def test_large_records_come_together_if_the_bounds_allow(servers, large, start):
    (page,) = walk(large, start, 100)
    assert len(page.found) == 8
    assert page.scanned_bytes == 3 * LARGE + 50


@WAYS
def test_the_bound_of_records_ends_a_scan_that_goes_on_from_there(servers, disordered, start):
    pages = walk(disordered, start, 5, some, Bounds(120.0, 40, 10**9))
    matching = [each.message for each in some(read_all(servers, disordered.topic))]
    assert sorted(places(pages)) == sorted(map(place_of, matching))
    assert all(page.scanned_records <= 40 for page in pages)
    assert EndedBy.RECORDS in {page.ended_by for page in pages}


@WAYS
def test_the_bound_of_bytes_ends_a_scan_that_goes_on_from_there(servers, disordered, start):
    pages = walk(disordered, start, 500, some, Bounds(120.0, 10**6, 100))
    matching = [each.message for each in some(read_all(servers, disordered.topic))]
    assert sorted(places(pages)) == sorted(map(place_of, matching))
    assert all(page.scanned_bytes <= 100 for page in pages)
    assert {page.ended_by for page in pages[:-1]} == {EndedBy.BYTES}


@WAYS
def test_the_bound_of_time_ends_a_scan_that_goes_on_from_there(servers, disordered, monkeypatch, start):
    ahead = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0], sleep=time.sleep)
    monkeypatch.setattr(topic_reader, "time", clock)

    def slow(messages):
        ahead[0] += 10 * BOUNDS.seconds
        return some(messages)

    pages = walk(disordered, start, 30, slow)
    matching = [each.message for each in some(read_all(servers, disordered.topic))]
    assert sorted(places(pages)) == sorted(map(place_of, matching))
    assert [page.ended_by for page in pages] == [EndedBy.TIME] * (len(pages) - 1) + [EndedBy.END]
    assert len(pages) == 300 // 30


def test_no_group_is_left_on_the_cluster(servers, disordered):
    read_messages(disordered, Newest(), 10, BOUNDS, everything)
    tail = Tail(disordered, everything)
    tail.read(0.0)
    tail.close()
    admin = AdminClient({"bootstrap.servers": servers})
    found = admin.list_consumer_groups().result(DEADLINE_SECONDS)
    assert not found.errors
    assert topic_reader.GROUP not in {group.group_id for group in found.valid}


def test_a_cluster_that_is_away_is_reported():
    place = TopicPlace("127.0.0.1:9", {}, "orders", (0, 1))
    with pytest.raises(KafkaCallFailed, match="refused"):
        read_messages(place, Newest(), 10, Bounds(1.0, 100, 1_000), everything)


def test_an_unknown_topic_is_reported_and_not_created(servers):
    place = TopicPlace(servers, {}, "never-made", (0,))
    with pytest.raises(KafkaCallFailed):
        read_messages(place, Earliest(), 10, Bounds(3.0, 100, 1_000), everything)
    assert "never-made" not in topics(servers)


def test_a_partition_that_does_not_exist_is_reported(servers, disordered):
    place = TopicPlace(servers, {}, disordered.topic, (0, 9))
    with pytest.raises(KafkaCallFailed):
        read_messages(place, Earliest(), 10, Bounds(3.0, 100, 1_000), everything)
