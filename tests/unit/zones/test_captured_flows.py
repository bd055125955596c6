"""The independent count reads links as receivers do, despite splits, duplicates and reordering."""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest

from tests.support.zones.flows import Conversation, Finder, Stream, segment

CANARY = b"sixteen letters."


def carried(draw: random.Random, first: int, sent: bytes) -> list[tuple[int, bytes]]:
    """Draw segments of a stream: some duplicated, split elsewhere, or delayed by a few places."""
    pieces = []
    for _ in range(2):
        at = 0
        while at < len(sent):
            end = at + draw.randint(1, 40)
            pieces.append((at + draw.random() * 80, (first + at) % 2**32, sent[at:end]))
            at = end
    return [(sequence, piece) for _, sequence, piece in sorted(pieces)]


@pytest.mark.parametrize("seed", range(20))
def test_each_byte_comes_once_and_in_order(seed: int):
    draw = random.Random(seed)
    first = draw.choice([0, 2**32 - 200, draw.randrange(2**32)])
    sent = draw.randbytes(1_000)
    stream = Stream()
    stream.take((first - 1) % 2**32, True, b"")
    came = [stream.take(sequence, False, piece) for sequence, piece in carried(draw, first, sent)]
    assert b"".join(came) == sent and stream.early == 0


def test_what_is_behind_a_gap_waits_and_a_beginning_that_was_missed_is_an_error():
    stream = Stream()
    with pytest.raises(ValueError, match="beginning"):
        stream.take(5, False, b"x")
    stream.take(5, True, b"")
    assert stream.take(8, False, b"c") == b"" and stream.early == 1
    assert stream.take(6, False, b"ab") == b"abc" and stream.early == 0


@pytest.mark.parametrize("cut", range(len(CANARY) + 1))
def test_a_string_is_found_wherever_it_is_cut(cut: int):
    for size in (1, len(CANARY) - cut or 1):
        finder, text = Finder(), b"before " + CANARY + b" behind"
        at = 7 + cut
        pieces = [text[:at], *(text[n : n + size] for n in range(at, len(text), size))]
        assert [found for piece in pieces for found in finder.look(piece, [CANARY])] == [CANARY]


def test_requests_and_their_answers_are_told_apart_in_crumbs():
    kinds = {0: "produce", 1: "fetch", 11: "group", 3: "control"}
    draw = random.Random(7)
    asked = [draw.choice(list(kinds)) for _ in range(200)]
    requests, answers, sizes = b"", b"", [Counter[str](), Counter[str]()]
    for number, key in enumerate(asked):
        for count, head in enumerate((struct.pack(">hhi", key, 9, number), struct.pack(">i", number))):
            frame = head + draw.randbytes(draw.randint(0, 60))
            frame = struct.pack(">i", len(frame)) + frame
            sizes[count][kinds[key]] += len(frame)
            requests, answers = (requests + frame, answers) if count == 0 else (requests, answers + frame)
    talk = Conversation()
    for frames, carried, size in zip((talk.requests, talk.answers), (requests, answers), sizes, strict=True):
        counted: Counter[str] = Counter()
        at = 0
        while at < len(carried):
            end = at + draw.randint(1, 30)
            counted += frames.take(carried[at:end])
            at = end
        assert counted == size
    with pytest.raises(ValueError, match="no frame"):
        Conversation().requests.take(b"\0\0\0\1GET / HTTP")


def test_a_frames_padding_is_no_payload():
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 43, 0, 0, 64, 6, 0, bytes([10, 77, 1, 1]), bytes([10, 77, 2, 1]))
    tcp = struct.pack(">HHIIBBHHH", 1000, 2000, 77, 0, 0x50, 0x12, 0, 0, 0)
    found = segment(memoryview(bytes(12) + b"\x08\x00" + ip + tcp + b"abc" + bytes(3)))
    assert found is not None
    assert (found.source, found.destination) == (("10.77.1.1", 1000), ("10.77.2.1", 2000))
    assert (found.sequence, found.is_first, found.payload) == (77, True, b"abc")
    assert segment(memoryview(bytes(60))) is None
