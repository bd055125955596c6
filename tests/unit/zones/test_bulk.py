"""Entries of a bulk are read back by their main; bytes that are not a bulk are refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.zone_router.formats.bulk import (
    BulkMalformed,
    ChannelOffset,
    Entry,
    Head,
    Place,
    decoded,
    read,
    read_head,
    written,
)
from workers.zone_router.formats.route_messages import (
    Answer,
    Broken,
    Close,
    Done,
    Hello,
    Refused,
    Route,
    RouteMessageMalformed,
    encoded,
)
from workers.zone_router.formats.route_messages import read as read_message

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
PLACES = st.builds(Place, U64, U32, U32)
OFFSETS = st.builds(ChannelOffset, U32, U64, U64, U32, U32)
MAINS = st.sampled_from([("east", 1), ("east", 2), ("west", 1)])


@st.composite
def entries(draw) -> Entry:
    pieces = draw(st.lists(st.binary(max_size=50), min_size=1, max_size=3))
    return Entry(draw(MAINS), draw(PLACES), pieces, sum(map(len, pieces)))


@given(st.lists(entries(), max_size=12), st.builds(Head, U32, U64, U64))
def test_each_main_reads_its_entries_in_their_order_from_one_range(given_entries: list[Entry], head: Head):
    bulk = written(head, given_entries)
    assert read_head(bulk.data) == head
    assert set(bulk.parts) == {entry.main for entry in given_entries}
    for main, (start, length) in bulk.parts.items():
        part = memoryview(bulk.data)[start : start + length]
        found = list(read(part))
        mine = [(e.place, b"".join(e.pieces)) for e in given_entries if e.main == main]
        assert [(place, bytes(message)) for place, message, _ in found] == mine
        assert all(part[at : at + len(message)] == message for _, message, at in found)
    # The parts cover everything after the head, without overlaps.
    ends = sorted(bulk.parts.values())
    assert sum(length for _, length in ends) == len(bulk.data) - len(written(head, []).data)


@given(st.binary(max_size=120))
def test_what_is_no_part_of_a_bulk_is_refused_in_words(data: bytes):
    for reading in (lambda: list(read(memoryview(data))), lambda: read_head(data), lambda: decoded(data)):
        try:
            reading()
        except BulkMalformed as error:
            assert str(error)


@given(st.lists(entries(), min_size=1, max_size=4), st.data())
def test_a_part_that_is_cut_is_refused(given_entries: list[Entry], data):
    bulk = written(Head(1, 2, 3), [Entry(("east", 1), e.place, e.pieces, e.size) for e in given_entries])
    ((start, length),) = bulk.parts.values()
    cut = data.draw(st.integers(1, min(length, 20 + given_entries[-1].size) - 1))
    with pytest.raises(BulkMalformed, match="beyond the part's end"):
        list(read(memoryview(bulk.data)[start : start + length - cut]))


@given(OFFSETS)
def test_a_channel_offset_is_what_it_was_and_names_are_in_the_order_of_writing(at: ChannelOffset):
    assert decoded(at.encoded()) == at
    later = at._replace(sequence=min(at.sequence + 1, 2**64 - 1))
    assert at.name <= later.name and (at.name < later.name) == (at.sequence < later.sequence)


MESSAGES = st.one_of(
    st.builds(Hello, st.integers(0, 2**16 - 1), U32, st.integers(-1, 2**31 - 1), st.text(max_size=20)),
    st.builds(Route, U64, OFFSETS),
    st.builds(Close, U64),
    st.builds(Answer, PLACES, st.binary(max_size=100)),
    st.builds(Refused, U64, U64),
    st.builds(Broken, U64, st.text(max_size=30)),
    st.builds(Done, U64),
)


@given(MESSAGES)
def test_what_nodes_say_to_each_other_is_what_is_heard(message):
    data = b"".join(bytes(piece) for piece in encoded(message))
    assert int.from_bytes(data[:4]) == len(data) - 4
    assert read_message(memoryview(data)[4:]) == message


@given(st.binary(max_size=80))
def test_what_is_no_message_is_refused_in_words(data: bytes):
    try:
        read_message(memoryview(data))
    except RouteMessageMalformed as error:
        assert str(error)
