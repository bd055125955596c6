"""Position metadata: marks survive it, and whatever else stands there is refused."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.records import marks
from backend.domain.records.marks import Mark, MetadataInvalid

offsets = st.integers(0, 2**62)
vectors = st.dictionaries(st.integers(0, 65535), st.tuples(st.integers(0, 2**32 - 1), offsets), max_size=8)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), vectors, vectors)
def test_marks_survive_position_metadata(incarnation, target_incarnation, seen, covered):
    mark = Mark(incarnation, target_incarnation, seen, covered)
    assert marks.decode_metadata(marks.encode_metadata(mark)) == mark


@pytest.mark.parametrize("text", [None, "", "x", "other:1;AAAA"])
def test_metadata_of_others_is_refused_not_misread(text):
    with pytest.raises(MetadataInvalid):
        marks.decode_metadata(text)


@pytest.mark.parametrize("cut", range(11, 22))
def test_cut_metadata_is_refused(cut):
    text = marks.encode_metadata(Mark(1, 1, {1: (1, 5)}, {2: (1, 9)}))
    for altered in (text[:cut], text + "AAAA"):
        with pytest.raises(MetadataInvalid):
            marks.decode_metadata(altered)


@given(st.binary(max_size=60))
def test_random_bytes_never_crash_the_decoder(packed):
    for prefix in ("treeline:1;", "treeline:2;"):
        with contextlib.suppress(MetadataInvalid):
            marks.decode_metadata(prefix + base64.b64encode(packed).decode())


def test_more_origins_than_a_broker_takes_are_refused_not_cut():
    vector = dict.fromkeys(range(1000), (1, 1))
    with pytest.raises(MetadataInvalid):
        marks.encode_metadata(Mark(1, 1, vector, vector))


def test_two_hundred_origins_fit():
    vector = {number: (1, 10_000_000 + number) for number in range(1, 200)}
    mark = Mark(1, 1, vector, vector)
    assert marks.decode_metadata(marks.encode_metadata(mark)) == mark


def test_metadata_of_version_1_is_read():
    mark = marks.decode_metadata("treeline:1;AAAAAQABAAEAAAABAAAAAAAAAAUAAQACAAAAAQAAAAAAAAAJ")
    assert mark == Mark(1, 0, {1: (1, 5)}, {2: (1, 9)})
