"""Protobuf values beyond the limits: refused in time, however few bytes they take."""

from __future__ import annotations

import pytest

from backend.messages.decoding.bounds import Undecodable
from tests.unit.messages.encoded import field, number_field, varint
from tests.unit.messages.test_protobuf_values import DECODER, PROTO2, decode, load


def nested(number: int, depth: int) -> bytes:
    """A message within a message and so on; lengths are added from the inside."""
    parts: list[bytes] = []
    size = 0
    for _ in range(depth):
        head = varint(number << 3 | 2) + varint(size)
        parts.append(head)
        size += len(head)
    return b"".join(reversed(parts))


GROUP, END_OF_GROUP = varint(99 << 3 | 3), varint(99 << 3 | 4)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (field(19, nested(3, 10_000)), "deeper than 100 levels"),
        (field(31, b"")[:-1] + varint(10**9), "ends too early"),
        (field(1, b"abc")[:-1], "ends too early"),
        (varint(1 << 3 | 2) + varint(2**63), "ends too early"),
        (varint(1 << 3 | 2) + varint(2**64 - 1) + b"abc", "ends too early"),
        (field(19, varint(1 << 3 | 2) + varint(100)) + b"x" * 200, "ends too early"),
        (field(1, b"\xff"), "not UTF-8"),
        (b"\x80" * 10_000_000, "more than 10 bytes"),
        (varint(2 << 3) + b"\xff" * 11, "more than 10 bytes"),
        (varint(2 << 3), "ends too early"),
        (varint(8 << 3 | 5) + b"abc", "ends too early"),
        (varint(0 << 3) + b"\0", "number 0"),
        (varint(2 << 3 | 6), "unknown wire type 6"),
        (varint(2 << 3 | 7), "unknown wire type 7"),
        (END_OF_GROUP, "ends a group that did not begin"),
        (GROUP, "ends too early"),
        (GROUP * 100_000, "ends too early"),
        (GROUP + varint(98 << 3 | 4), "ends a group that did not begin"),
        (field(19, GROUP) + END_OF_GROUP, "ends too early"),
        (field(17, b"\x80"), "ends too early"),
        (field(17, b"\1" * 300_000), "more than 250,000 values"),
        (field(20, b"") * 200_000, "more than 250,000 values"),
        (number_field(99, 1) * 300_000, "more than 250,000 values"),
    ],
    ids=lambda each: str(each)[:24],
)
def test_bytes_beyond_the_limits_are_refused(data, reason):
    with pytest.raises(Undecodable, match=reason):
        decode(data)


def test_values_up_to_the_limits_are_decoded():
    assert decode(field(33, field(1, field(6, b"")) * 60_000))["list"] == [[]] * 60_000
    assert len(decode(field(17, b"\1" * 240_000))["packed"]) == 240_000


def test_groups_that_the_schema_does_not_have_are_skipped_however_deep():
    value, note = DECODER.decode(b"\0" + GROUP * 50_000 + END_OF_GROUP * 50_000 + number_field(2, 5), 0)
    assert value["a"] == 5
    assert note == "Fields that its schema does not have are left out: 99 of shop.Order."


def test_json_deeper_than_readers_take_is_refused():
    list_value = b""
    for _ in range(45):
        list_value = field(1, field(6, list_value))
    assert decode(field(33, list_value))["list"]
    with pytest.raises(Undecodable, match="deeper than 100 levels"):
        decode(field(20, nested(3, 70)))


def test_defaults_count_as_values():
    wide = "\n".join(f"int32 f{n} = {n + 2};" for n in range(5_000))
    decoder, _ = load(f'syntax = "proto3"; message M {{ repeated M m = 1; {wide} }}')
    with pytest.raises(Undecodable, match="more than 250,000 values"):
        decode(field(1, b"") * 60, decoder)
    assert len(decode(field(1, b"") * 10, decoder)["m"]) == 10


def test_fields_that_are_not_shown_count_a_little():
    wide = "\n".join(f"optional int32 f{n} = {n + 2};" for n in range(5_000))
    decoder, _ = load(f'syntax = "proto3"; message M {{ repeated M m = 1; {wide} }}')
    with pytest.raises(Undecodable, match="more than 250,000 values"):
        decode(field(1, b"") * 600, decoder)
    assert len(decode(field(1, b"") * 400, decoder)["m"]) == 400


def test_groups_of_the_schema_may_not_be_deeper_either():
    decoder, _ = load(PROTO2)
    deep = b""
    for _ in range(60):
        deep = varint(3 << 3 | 3) + field(2, deep) + varint(3 << 3 | 4)
    with pytest.raises(Undecodable, match="deeper than 100 levels"):
        decode(deep, decoder)
