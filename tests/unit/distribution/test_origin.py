"""Origins: the bytes of the header, and vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.records import origin
from backend.domain.records.origin import Origin

STREAM = origin.stream_id("acme/retail/prod/orders")

offsets = st.integers(0, 2**62)


def test_the_header_is_the_contracts_27_bytes():
    value = origin.encode(Origin(2, STREAM, 3, 258, 1))
    assert (
        value
        == b"\x01" + b"\x00\x02" + STREAM + b"\x00\x00\x00\x03" + (258).to_bytes(8, "big") + b"\x00\x00\x00\x01"
    )
    assert len(value) == 27


def test_the_stream_id_is_the_beginning_of_sha_256():
    import hashlib

    assert hashlib.sha256(b"acme/retail/prod/orders").digest()[:8] == STREAM


@given(
    st.integers(0, 65535),
    st.binary(min_size=8, max_size=8),
    st.integers(0, 2**31 - 1),
    offsets,
    st.integers(0, 2**32 - 1),
)
def test_an_origin_survives_its_header(cluster, stream, partition, offset, incarnation):
    found = Origin(cluster, stream, partition, offset, incarnation)
    assert origin.decode([origin.encode(found)]) == found


@given(st.lists(st.none() | st.binary(max_size=40), max_size=3))
def test_random_bytes_are_no_origin_or_a_readable_one(values):
    found = origin.decode(values)
    assert found is None or [origin.encode(found)] == values


def test_an_offset_that_no_log_has_makes_it_unreadable():
    value = bytearray(origin.encode(Origin(2, STREAM, 3, 0, 1)))
    value[15] |= 0x80
    assert origin.decode([bytes(value)]) is None


@pytest.mark.parametrize(
    ("vector", "other", "origins", "answer"),
    [
        ({}, {}, [1], True),
        ({1: (1, 5)}, {1: (1, 5)}, [1], True),
        ({1: (1, 4)}, {1: (1, 5)}, [1], False),
        ({1: (1, 4)}, {1: (1, 5)}, [2], True),
        ({1: (2, 0)}, {1: (1, 5)}, [1], True),
        ({}, {1: (1, 0)}, [1], False),
    ],
)
def test_a_vector_covers_another_if_it_is_as_far_for_each_origin(vector, other, origins, answer):
    assert origin.covers(vector, other, origins) is answer
