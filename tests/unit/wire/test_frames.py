"""Frames are read from a stream as they were written, however it is split."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.zone_router.frames import FrameRefused, Frames

MOST = 1_000


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=8), st.lists(st.integers(1, 40), max_size=60))
def test_however_the_stream_is_cut_its_frames_are_the_same(messages: list[bytes], cuts: list[int]):
    stream = b"".join(map(framed, messages))
    frames, found, at = Frames(MOST), [], 0
    for length in [*cuts, len(stream)]:
        found += list(frames.feed(stream[at : at + length]))
        at += length
    assert [bytes(frame.message()) for frame in found] == messages
    assert [b"".join(frame.pieces) for frame in found] == [framed(message) for message in messages]
    assert [frame.size for frame in found] == [len(message) for message in messages]
    assert frames.begun_at is None and frames.held_bytes == 0


@given(st.binary(min_size=30, max_size=60), st.integers(1, 33))
def test_the_beginning_of_a_message_is_there_without_its_rest(message: bytes, cut: int):
    stream, frames = framed(message), Frames(MOST)
    pieces = [stream[:cut], stream[cut:]]
    (frame,) = [frame for piece in pieces for frame in frames.feed(piece)]
    head = frame.message(10)
    assert len(head) >= 10 and bytes(head) == message[: len(head)]


@pytest.mark.parametrize("size", [0, -1, MOST + 1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_size_that_no_frame_has_is_refused(size: int, cut: int):
    frames, stream = Frames(MOST), struct.pack(">i", size)
    with pytest.raises(FrameRefused, match=f"{size} bytes; 1 to {MOST} are allowed"):
        for piece in (stream[:cut], stream[cut:]):
            list(frames.feed(piece))


def test_a_frame_that_has_begun_is_told():
    frames = Frames(MOST)
    assert frames.begun_at is None
    for now, piece in enumerate((b"\0", b"\0\0\5", b"abc"), start=5):
        assert list(frames.feed(piece, float(now))) == [] and frames.begun_at == 5.0
    assert frames.held_bytes == 7
    frames.resumed(9.0)
    assert frames.begun_at == 9.0
    assert len(list(frames.feed(b"de", 10.0))) == 1 and frames.begun_at is None
    frames.resumed(11.0)
    assert frames.begun_at is None


def test_what_is_dropped_holds_nothing():
    frames = Frames(MOST)
    assert list(frames.feed(framed(bytes(500))[:300])) == [] and frames.held_bytes == 300
    frames.drop()
    assert frames.held_bytes == 0


def test_crumbs_cost_no_more_than_what_they_have():
    size = 200_000
    frames, data = Frames(size), framed(bytes(size))
    tracemalloc.start()
    for at in range(0, size - 2, 2):
        assert list(frames.feed(data[at : at + 2])) == []
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert frames.held_bytes == size - 2 and held < 4 * size
