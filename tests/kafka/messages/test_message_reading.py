"""Pages of messages of real logs: every record exactly once, in order, from any start."""

from __future__ import annotations

import random

import pytest

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.message_headers import UNREADABLE_NAME, headers_of
from backend.kafka.search import message_reading
from backend.kafka.search.message_reading import (
    After,
    AtOffset,
    Before,
    Earliest,
    EndedBy,
    Newest,
    OffsetOutside,
    Since,
    read_messages,
)
from backend.kafka.search.topic_reader import TopicPlace
from tests.kafka.messages.walks import (
    BASE,
    BOUNDS,
    WAYS,
    Transactions,
    deleted_below,
    everything,
    in_order,
    made,
    place_of,
    places,
    sevens,
    some,
    walk,
    write,
)
from tests.support.kafka.topics import produce_with_names, read_all


@WAYS
@pytest.mark.parametrize("limit", [7, 500])
def test_partitions_are_merged_by_time_and_never_against_their_offsets(servers, disordered, start, limit):
    pages = walk(disordered, start, limit)
    expected = in_order(read_all(servers, disordered.topic), backward=pages[0].backward)
    assert places(pages) == expected
    assert len(expected) == 300
    assert all(len(page.found) <= limit for page in pages)
    assert {page.ended_by for page in pages[:-1]} <= {EndedBy.LIMIT}
    assert pages[0].ranges[3].low == pages[0].ranges[3].high == 0


@WAYS
@pytest.mark.parametrize(("limit", "is_search"), [(2, False), (2, True), (500, True)])
def test_a_filter_skips_nothing_that_matches(servers, disordered, start, limit, is_search):
    pages = walk(disordered, start, limit, some, is_search=is_search)
    matching = [each.message for each in some(read_all(servers, disordered.topic))]
    assert sorted(places(pages)) == sorted(map(place_of, matching))
    if limit == 500:
        assert [page.scanned_records for page in pages] == [300]


@WAYS
def test_a_search_over_several_batches_is_in_the_order_of_records_one_by_one(servers, monkeypatch, start):
    monkeypatch.setattr(message_reading, "_SEARCHED_FIRST", 40)
    monkeypatch.setattr(message_reading, "_SEARCHED_RECORDS", 90)
    place, chance = made(servers, 3), random.Random(3)
    write(place, [(chance.randrange(3), BASE + n + chance.choice([0, 0, 40, -40]), b"%d" % n) for n in range(600)])
    pages = walk(place, start, 1_000, is_search=True)
    assert places(pages) == in_order(read_all(servers, place.topic), backward=pages[0].backward)
    assert len(places(pages)) == 600


@pytest.fixture(scope="module")
def gaps(servers):
    """Return logs of which few offsets are readable: aborted records and markers, also at both ends."""
    place = made(servers, 4)
    transactions = Transactions(place)
    transactions.write(0, 300, committed=False)
    for n in range(12):
        transactions.write(0, 1 + n % 2, committed=True)
    transactions.write(0, 500, committed=False)
    transactions.write(0, 30, committed=True)
    transactions.write(0, 1, committed=False)
    transactions.write(1, 200, committed=False)  # no readable record at all
    for _ in range(40):
        transactions.write(3, 1, committed=True)
    transactions.settle()
    return place


@WAYS
@pytest.mark.parametrize(
    ("select", "passing"), [(everything, None), (some, None), (some, sevens)], ids=["all", "filtered", "sieved"]
)
@pytest.mark.parametrize("limit", [3, 50])
def test_offsets_without_a_readable_record_are_passed(servers, gaps, start, select, passing, limit):
    pages = walk(gaps, start, limit, select, is_search=passing is not None, passing=passing)
    readable = read_all(servers, gaps.topic)
    matching = [each.message for each in select(readable)]
    assert places(pages) == in_order(matching, backward=pages[0].backward)
    assert len(readable) == 88
    if select is everything:
        assert sum(len(page.found) for page in pages) == 88


def test_a_partition_without_any_readable_record_is_read_to_its_end(servers, gaps):
    place = TopicPlace(servers, {}, gaps.topic, (1,))
    for start in (Earliest(), Newest()):
        page = read_messages(place, start, 10, BOUNDS, everything)
        assert (page.found, page.ended_by, page.after) == ([], EndedBy.END, None)
        assert (page.ranges[1].low, page.ranges[1].high) == (0, 201)


def test_reading_starts_at_an_offset(servers, disordered):
    place = TopicPlace(servers, {}, disordered.topic, (0,))
    end = read_messages(place, Newest(), 1, BOUNDS, everything).ranges[0].high
    page = read_messages(place, AtOffset(20), 5, BOUNDS, everything)
    assert places([page]) == [(0, offset) for offset in range(20, 25)]
    assert (page.after, page.ended_by) == ({0: 25}, EndedBy.LIMIT)
    page = read_messages(place, Before({0: 20}), 5, BOUNDS, everything)
    assert places([page]) == [(0, offset) for offset in range(19, 14, -1)]
    assert page.after == {0: 15}
    assert read_messages(place, AtOffset(end), 5, BOUNDS, everything).ended_by is EndedBy.END
    for start in (AtOffset(end + 1), AtOffset(-1), After({0: end + 1})):
        with pytest.raises(OffsetOutside) as outside:
            read_messages(place, start, 5, BOUNDS, everything)
        assert (outside.value.low, outside.value.high) == (0, end)
    assert len(read_messages(place, Before({0: end + 100}), 3, BOUNDS, everything).found) == 3


def test_a_page_says_when_its_limit_was_the_end(servers, disordered):
    place = TopicPlace(servers, {}, disordered.topic, (0,))
    end = read_messages(place, Newest(), 1, BOUNDS, everything).ranges[0].high
    for start in (AtOffset(end - 3), Before({0: 3})):
        page = read_messages(place, start, 3, BOUNDS, everything)
        assert (len(page.found), page.after, page.ended_by) == (3, None, EndedBy.END)


def test_partitions_without_an_offset(servers, disordered):
    """Check that a partition which is new since the last page is read forward, and not read backward."""
    forward = places(walk(disordered, After({0: 20}), 500))
    assert {partition for partition, _ in forward} == {0, 1, 2, 4}
    assert min(offset for partition, offset in forward if partition == 0) == 20
    assert {partition for partition, _ in places(walk(disordered, Before({0: 20}), 500))} == {0}


def test_reading_starts_at_a_time(servers):
    place = made(servers, 3)
    write(place, [(n % 2, BASE + n, b"%d" % n) for n in range(100)])
    pages = walk(place, Since(BASE + 60), 15)
    assert [int(each.message.value()) for page in pages for each in page.found] == list(range(60, 100))
    page = read_messages(place, Since(BASE + 1_000), 10, BOUNDS, everything)
    assert (page.found, page.after, page.ended_by) == ([], None, EndedBy.END)
    assert len(read_messages(place, Since(-5), 200, BOUNDS, everything).found) == 100


def test_deleted_records_are_outside(servers):
    place = made(servers)
    write(place, [(0, BASE + n, b"%d" % n) for n in range(100)])
    deleted_below(place, 0, 90)
    with pytest.raises(OffsetOutside) as outside:
        read_messages(place, AtOffset(50), 5, BOUNDS, everything)
    assert (outside.value.low, outside.value.high) == (90, 100)
    rest = [(0, offset) for offset in range(90, 100)]
    assert places(walk(place, After({0: 50}), 4)) == rest
    assert places(walk(place, Newest(), 4)) == rest[::-1]
    assert read_messages(place, Before({0: 50}), 5, BOUNDS, everything).ended_by is EndedBy.END


def test_records_deleted_while_they_are_read_are_reported(servers):
    place = made(servers)
    write(place, [(0, BASE + n, b"%d" % n) for n in range(400)])

    def deleting(messages):
        deleted_below(place, 0, 390)
        return []

    with pytest.raises(KafkaCallFailed, match="out of range"):
        read_messages(place, Newest(), 5, BOUNDS, deleting)


@WAYS
def test_a_page_ends_at_the_ends_that_it_found(servers, start):
    place = made(servers, 2)
    write(place, [(n % 2, BASE + n, b"%d" % n) for n in range(50)])

    def busy(messages):
        write(place, [(n % 2, BASE + 1_000 + n, b"new") for n in range(50)])
        return []

    page = read_messages(place, start, 10, BOUNDS, busy)
    assert (page.scanned_records, page.ended_by) == (50, EndedBy.END)


def test_header_names_may_be_any_bytes(servers):
    place = made(servers)
    produce_with_names(servers, place.topic, [(b"\xff\xfe", b"1"), (b"n", b"22")])
    for start in (Earliest(), Newest()):
        page = read_messages(place, start, 10, BOUNDS, everything)
        assert headers_of(page.found[0].message) == [(UNREADABLE_NAME, b"1"), ("n", b"22")]
        assert page.scanned_bytes == len(b"v") + len(UNREADABLE_NAME) + 1 + len("n") + 2
