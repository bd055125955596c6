"""Decisions of an edge for each kind of record."""

from __future__ import annotations

import pytest

from backend.domain.records import copy_flags, origin
from backend.domain.records.log_prefix import UnknownOrigin
from backend.domain.records.origin import Origin
from backend.domain.records.partition_edge import EdgeRule, PartitionEdge

STREAM = origin.stream_id("acme/retail/prod/orders")
OTHER = origin.stream_id("acme/retail/prod/payments")

# --- decisions of one edge: cluster 2, level 1, of the default tree (records of 1 come with 0010 and go on)


def edge(**changes):
    rule = EdgeRule(
        source_number=2,
        level=1,
        known_origins=frozenset({1, 2, 3, 4, 5}),
        write_origin=changes.pop("write_origin", True),
    )
    values = {
        "stream": STREAM,
        "partition": 0,
        "incarnations": ((0, 7),),
        "routes": {2: 0b0001, 1: 0b0011, 4: 0b0111},
        "seen": {},
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


def test_asking_what_it_would_do_decides_nothing():
    asked, other = edge(), edge()
    for offset, given in ((10, None), (11, headers(0b0010, from_1(3))), (12, headers(0b0001, from_1(9)))):
        assert asked.would_copy(offset, given)
        assert (asked.seen, asked.covered) == (other.seen, other.covered)
        assert asked.copy(offset, given) == other.copy(offset, given)
    assert not asked.would_copy(13, headers(0b0010, Origin(5, STREAM, 0, 1, 1)))
    assert asked.mark(13) == other.mark(13)


def test_a_copy_on_the_route_goes_on_with_the_routes_flags_and_its_own_origin():
    assert read(edge().copy(10, headers(0b0010, from_1(5)))) == (0b0011, from_1(5))


def test_a_copy_off_the_route_is_left_alone():
    assert edge().copy(10, headers(0b0001, Origin(3, STREAM, 0, 5, 1))) is None


def test_a_copy_that_the_target_has_is_left_alone():
    assert edge(covered={1: (1, 5)}).copy(10, headers(0b0010, from_1(5))) is None
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


STRANGER = Origin(77, STREAM, 0, 5, 1)


def test_an_origin_of_no_cluster_of_ours_makes_a_record_born_here():
    one = edge(foreign=lambda number: number == 77)
    assert read(one.copy(10, headers(0b0010, STRANGER))) == (0b0001, Origin(2, STREAM, 0, 10, 7))


def test_an_origin_that_only_the_plan_does_not_know_ends_the_session():
    with pytest.raises(UnknownOrigin, match="77"):
        edge(foreign=lambda number: False).copy(10, headers(0b0010, STRANGER))


def test_an_origin_that_left_the_tree_and_is_not_rerooted_waits():
    assert edge(routes={2: 0b0001}).copy(10, headers(0b0010, from_1(5))) is None


def test_a_record_that_was_dead_lettered_is_a_copy_even_when_it_comes_late():
    one = edge(holes=frozenset({(1, 1, 5)}), seen={1: (1, 9)})
    assert read(one.copy(10, headers(0b0010, from_1(5)))) == (0b0011, from_1(5))
    covered = edge(holes=frozenset({(1, 1, 5)}), seen={1: (1, 9)}, covered={1: (1, 9)})
    assert covered.copy(10, headers(0b0010, from_1(5))) is None


def test_records_born_after_a_lost_tail_are_of_a_later_incarnation():
    one = edge(incarnations=((0, 7), (11, 9)))
    assert [read(one.copy(offset, None))[1].incarnation for offset in (10, 11, 12)] == [7, 9, 9]
    assert (one.mark(11).incarnation, edge(incarnations=((0, 7), (11, 9))).mark(10).incarnation) == (9, 7)


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
