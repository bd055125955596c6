"""The edge in C decides as the reference in Python, byte for byte, on whatever headers records carry."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.domain.records import copy_flags, marks, origin
from backend.domain.records.log_prefix import UnknownOrigin
from backend.domain.records.origin import Origin
from backend.domain.records.partition_edge import EdgeRule, PartitionEdge
from backend.kafka.copy import native

pytestmark = pytest.mark.skipif(not native.available(), reason="the native record loop was not built")

STREAM, OTHER = origin.stream_id("acme/retail/prod/orders"), origin.stream_id("acme/retail/prod/payments")
KNOWN = (1, 2, 3, 4, 5, 65535)
FOREIGN, STRANGER = 77, 78
HOLE = (4, 1, 3)

reached = st.tuples(st.integers(0, 2), st.integers(0, 8))
vectors = st.dictionaries(st.sampled_from((*KNOWN, FOREIGN)), reached)
origins = st.builds(
    Origin,
    cluster=st.sampled_from((*KNOWN, FOREIGN, STRANGER)),
    stream_id=st.sampled_from((STREAM, STREAM, STREAM, OTHER)),
    partition=st.sampled_from((3, 3, 3, -1)),
    offset=st.one_of(st.integers(0, 12), st.sampled_from((-1, 2**63 - 1, -(2**63)))),
    incarnation=st.one_of(st.integers(0, 3), st.just(2**32 - 1)),
).map(origin.encode)
values = st.one_of(st.none(), st.binary(max_size=40))
headers = st.lists(
    st.one_of(
        st.tuples(st.just("copy-origin"), st.one_of(origins, origins, origins, values)),
        st.tuples(
            st.just("copy-flags"), st.one_of(st.integers(0, 2**32 - 1).map(copy_flags.encode), values)
        ),
        st.tuples(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12), values),
        # Kafka takes any bytes for a name: what is not UTF-8 comes as surrogates.
        st.tuples(st.sampled_from(("\udcff\udc80", "copy-flag", "copy-flagss", "COPY-FLAGS", "")), values),
    ),
    max_size=5,
)  # fmt: skip
records = st.lists(st.tuples(st.integers(1, 3), st.one_of(st.none(), headers)), max_size=12)
edges = st.fixed_dictionaries(
    {
        "incarnations": st.sampled_from([((0, 7),), ((0, 1), (5, 2)), ((0, 1), (5, 2), (9, 4))]),
        "routes": st.dictionaries(st.sampled_from(KNOWN), st.integers(0, 2**31 - 1)),
        "seen": vectors,
        "covered": vectors,
        "holes": st.sampled_from([frozenset(), frozenset({HOLE})]),
    }
)
rules = st.builds(
    EdgeRule,
    source_number=st.sampled_from((2, 65535)),
    level=st.sampled_from((1, 2, 31)),
    known_origins=st.just(frozenset(KNOWN)),
    write_origin=st.sampled_from((True, True, False)),
)


def outcome(edge, offset, record_headers):
    try:
        return edge.copy(offset, record_headers)
    except UnknownOrigin as stale:
        return str(stale)


def pair_of(rule, values):
    def make():
        return PartitionEdge(rule, stream=STREAM, partition=3, foreign=lambda number: number == FOREIGN, **values)

    shadow = make()
    return make(), shadow, native.module().Edge(shadow)


@settings(max_examples=600, deadline=None)
@given(rules, edges, records)
def test_same_records_same_copies_same_vectors(rule, values, log):
    reference, shadow, edge = pair_of(rule, values)
    offset = 0
    for step, record_headers in log:
        offset += step
        assert outcome(edge, offset, record_headers) == outcome(reference, offset, record_headers)
        assert (shadow.seen, shadow.covered) == (reference.seen, reference.covered)
        assert shadow.unreadable_flags == reference.unreadable_flags
        # Whatever a record's headers say, the position behind it can be saved.
        assert marks.decode_metadata(shadow.metadata(offset + 1)) == shadow.mark(offset + 1)


def test_a_thousand_headers_keep_their_order():
    many = [(f"name-{number % 7}", str(number).encode()) for number in range(1000)]
    rule = EdgeRule(source_number=2, level=1, known_origins=frozenset(KNOWN))
    values = {"incarnations": ((0, 7),), "routes": {2: 1}, "seen": {}, "covered": {}}
    reference, _, edge = pair_of(rule, values)
    copied = edge.copy(5, [many[0], ("copy-flags", b"?"), *many[1:], ("copy-flags", None)])
    assert copied[:-2] == many
    assert copied == reference.copy(5, [*many, ("copy-flags", b"?"), ("copy-flags", None)])
