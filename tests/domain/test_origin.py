"""Origins: the header's bytes, position metadata, and what an edge does with each kind of record."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain import copy_flags, origin
from backend.domain.origin import EdgeRule, Mark, MetadataInvalid, Origin, PartitionEdge

STREAM = origin.stream_id("acme/retail/prod/orders")
OTHER = origin.stream_id("acme/retail/prod/payments")

offsets = st.integers(0, 2**62)
vectors = st.dictionaries(st.integers(0, 65535), st.tuples(st.integers(0, 2**32 - 1), offsets), max_size=8)


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


@given(st.integers(0, 2**32 - 1), vectors, vectors)
def test_marks_survive_position_metadata(incarnation, seen, passed):
    mark = Mark(incarnation, seen, passed)
    assert origin.decode_metadata(origin.encode_metadata(mark)) == mark


@pytest.mark.parametrize("text", [None, "", "x", "other:1;AAAA"])
def test_metadata_of_others_is_refused_not_misread(text):
    with pytest.raises(MetadataInvalid):
        origin.decode_metadata(text)


@pytest.mark.parametrize("cut", range(11, 30))
def test_cut_metadata_is_refused(cut):
    text = origin.encode_metadata(Mark(1, {1: (1, 5)}, {2: (1, 9)}))
    for altered in (text[:cut], text + "AAAA"):
        with pytest.raises(MetadataInvalid):
            origin.decode_metadata(altered)


@given(st.binary(max_size=60))
def test_random_bytes_never_crash_the_decoder(packed):
    import base64

    with contextlib.suppress(MetadataInvalid):
        origin.decode_metadata("treeline:1;" + base64.b64encode(packed).decode())


def test_more_origins_than_a_broker_takes_are_refused_not_cut():
    vector = dict.fromkeys(range(200), (1, 1))
    with pytest.raises(MetadataInvalid):
        origin.encode_metadata(Mark(1, vector, vector))


# --- decisions of one edge: cluster 2, level 1, of the default tree (records of 1 come with 0010 and go on)


def edge(**changes):
    rule = EdgeRule(
        source_number=2,
        level=1,
        route_flags={2: 0b0001, 1: 0b0011, 4: 0b0111},
        known_origins=frozenset({1, 2, 3, 4, 5}),
        write_origin=changes.pop("write_origin", True),
    )
    values = {
        "stream": STREAM,
        "partition": 0,
        "incarnation": 7,
        "seen": {},
        "passed": {},
        "covered": {},
        **changes,
    }
    return PartitionEdge(rule, **values)


def headers(flags=None, born=None, *others):
    found = list(others)
    if flags is not None:
        found.append(("copy-flags", copy_flags.encode(flags)))
    if born is not None:
        found.append(("copy-origin", origin.encode(born)))
    return found


def from_1(offset, **changes):
    return Origin(1, changes.get("stream", STREAM), changes.get("partition", 0), offset, 1)


def read(copied):
    """(flags, origin) of a copy."""
    assert [name for name, _ in copied][-2:] == ["copy-flags", "copy-origin"]
    return copy_flags.decode([copied[-2][1]])[0], origin.decode([copied[-1][1]])


def test_a_record_without_headers_was_born_here():
    assert read(edge().copy(10, None)) == (0b0001, Origin(2, STREAM, 0, 10, 7))


def test_a_copy_on_the_route_goes_on_with_the_routes_flags_and_its_own_origin():
    assert read(edge().copy(10, headers(0b0010, from_1(5)))) == (0b0011, from_1(5))


def test_a_copy_off_the_route_is_left_alone():
    assert edge().copy(10, headers(0b0001, Origin(3, STREAM, 0, 5, 1))) is None


def test_a_copy_that_the_target_has_is_left_alone():
    assert edge(covered={1: (1, 5)}).copy(10, headers(0b0010, from_1(5))) is None
    assert edge(passed={1: (1, 5)}).copy(10, headers(0b0010, from_1(5))) is None
    assert edge(covered={1: (1, 4)}).copy(10, headers(0b0010, from_1(5))) is not None


def test_a_later_incarnation_is_not_taken_for_covered():
    later = Origin(1, STREAM, 0, 0, 2)
    assert edge(covered={1: (1, 99)}).copy(10, headers(0b0010, later)) is not None


@pytest.mark.parametrize(
    "born",
    [
        from_1(5, stream=OTHER),
        from_1(5, partition=1),
        Origin(2, STREAM, 0, 3, 7),
    ],
    ids=["of another stream", "of another partition", "of this cluster"],
)
def test_headers_that_a_stream_processor_passed_on_do_not_make_a_record_a_copy(born):
    assert read(edge().copy(10, headers(0b0010, born))) == (0b0001, Origin(2, STREAM, 0, 10, 7))


def test_an_origin_seen_before_makes_the_second_record_born_here():
    one = edge()
    assert read(one.copy(10, headers(0b0010, from_1(5))))[1] == from_1(5)
    assert read(one.copy(11, headers(0b0010, from_1(5))))[1] == Origin(2, STREAM, 0, 11, 7)


def test_with_flags_only_the_flags_decide():
    assert edge().copy(10, headers(0b0001)) is None
    assert edge().copy(10, headers(0b0010)) == headers(0b0011)


def test_an_origin_of_an_unknown_cluster_leaves_the_decision_to_the_flags():
    stranger = Origin(77, STREAM, 0, 5, 1)
    assert edge().copy(10, headers(0b0001, stranger)) is None
    assert read(edge().copy(10, headers(0b0010, stranger))) == (0b0011, stranger)


def test_an_unreadable_origin_leaves_the_decision_to_the_flags():
    garbage = [("copy-flags", copy_flags.encode(0b0001)), ("copy-origin", b"garbage")]
    assert edge().copy(10, garbage) is None


@pytest.mark.parametrize("values", [[b"\x01"], [b""], [None], [b"\x00\x00\x00\x01"] * 2])
def test_unreadable_flags_count_as_none_and_are_counted(values):
    one = edge()
    assert read(one.copy(10, [("copy-flags", value) for value in values]))[0] == 0b0001
    assert one.unreadable_flags == 1


def test_other_headers_keep_their_order_and_ours_come_last():
    mixed = [("a", b"1"), ("copy-flags", copy_flags.encode(0b0010)), ("b", None), ("a", b"2")]
    copied = edge().copy(10, [*mixed, ("copy-origin", origin.encode(from_1(5))), ("c", b"")])
    assert [name for name, _ in copied] == ["a", "b", "a", "c", "copy-flags", "copy-origin"]
    assert [value for _, value in copied][:4] == [b"1", None, b"2", b""]


def test_without_origins_the_documents_plain_rule_holds():
    plain = edge(write_origin=False)
    assert plain.copy(10, None) == headers(0b0001)
    assert plain.copy(11, headers(0b0010)) == headers(0b0011)
    assert plain.copy(12, headers(0b0001)) is None
