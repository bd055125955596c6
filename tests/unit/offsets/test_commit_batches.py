"""Offset commits are cut into pieces that a coordinator can write as one batch."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from backend.domain.offsets import commit_batches
from backend.domain.records.marks import Mark, encode_metadata

GROUP = "_treeline.distributor.cluster-1.3.0"
TOPIC = "acme-retail-prod-orders"


@given(st.lists(st.integers(1, 50)), st.integers(1, 100))
def test_nothing_is_left_out_and_no_piece_is_too_large(sizes, most):
    cut = list(commit_batches.pieces(sizes, lambda size: size, most))
    assert [size for piece in cut for size in piece] == sizes
    assert all(piece for piece in cut)
    assert all(sum(piece) <= most or len(piece) == 1 for piece in cut)


@given(st.lists(st.integers(1, 50), min_size=2), st.integers(1, 100))
def test_pieces_are_as_large_as_they_may_be(sizes, most):
    cut = list(commit_batches.pieces(sizes, lambda size: size, most))
    assert all(sum(piece) + following[0] > most for piece, following in itertools.pairwise(cut))


def test_what_a_coordinator_refused_is_cut_and_what_it_took_is_bounded():
    # Kafka 4.1.1, default max.message.bytes, six origins: 3,400 partitions passed and 3,800 did not.
    vector = dict.fromkeys(range(1, 7), (1, 10**10))
    metadata = encode_metadata(Mark(1, 1, vector, vector))
    size = commit_batches.record_bytes(GROUP, TOPIC, metadata)
    assert 3800 * size > commit_batches.DEFAULT_BATCH_BYTES
    cut = list(commit_batches.pieces(range(8000), lambda _: size, commit_batches.piece_bytes()))
    assert max(map(len, cut)) <= 3400 / 2


def test_sizes_are_those_of_bytes_not_of_characters():
    assert commit_batches.record_bytes("g", "t", "ü") == commit_batches.record_bytes("g", "t", "uu")
    assert commit_batches.record_bytes("g", "t", None) == commit_batches.record_bytes("g", "t", "")
