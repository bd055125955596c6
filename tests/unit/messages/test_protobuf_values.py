"""Protobuf values: decoded as Google's library does, shown readably, and refused beyond the limits."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.messages.decoding.bounds import Undecodable
from backend.messages.decoding.protobuf_values import ProtobufDecoder
from backend.registry.formats.protobuf_compiler import compiled
from tests.unit.messages.encoded import field, number_field, varint, zigzag

SCHEMA = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
import "confluent/type/decimal.proto";
enum Status { option allow_alias = true; UNKNOWN = 0; PAID = 1; SETTLED = 1; }
message Order {
  map<string, int32> counts = 21;
  message Line { string sku = 1; int64 big_number = 2; repeated Line parts = 3; }
  string status_text = 1;
  int32 a = 2; int64 b = 3; uint32 c = 4; uint64 d = 5; sint32 e = 6; sint64 f = 7;
  fixed32 g = 8; fixed64 h = 9; sfixed32 i = 10; sfixed64 j = 11;
  bool k = 12; double l = 13; float m = 14; bytes n = 15; Status o = 16;
  repeated int32 packed = 17; repeated string texts = 18; Line line = 19; repeated Line lines = 20;
  map<int64, Line> by_number = 22; map<bool, double> by_bool = 23; map<string, Status> statuses = 24;
  oneof choice { string left = 25; int32 right = 26; Line middle = 27; }
  optional int32 maybe = 28;
  google.protobuf.Timestamp at = 29; google.protobuf.Duration took = 30; google.protobuf.Struct data = 31;
  google.protobuf.Value any = 32; google.protobuf.ListValue list = 33; google.protobuf.StringValue text = 34;
  google.protobuf.Int64Value number = 35; confluent.type.Decimal price = 36;
  repeated int32 unpacked = 37 [packed = false]; repeated Status many = 38; repeated float floats = 39;
}
message Second { int32 x = 1; message Inner { message Deepest { string y = 1; } } }
"""
PROTO2 = """
syntax = "proto2";
message M {
  required int32 a = 1;
  optional string b = 2 [default = "usual"];
  optional group G = 3 { optional int32 x = 1; optional M m = 2; }
  repeated group H = 4 { optional int32 y = 1; }
}
"""


def load(schema: str, imports: dict[str, str] | None = None) -> tuple[ProtobufDecoder, Any]:
    files = compiled(schema, imports or {})
    pool = DescriptorPool()
    for each in files.file:
        pool.Add(each)
    file = pool.FindFileByName(files.file[-1].name)
    return ProtobufDecoder(file), file


DECODER, FILE = load(SCHEMA)
ORDER = GetMessageClass(FILE.message_types_by_name["Order"])


def decode(data: bytes, decoder: ProtobufDecoder = DECODER) -> Any:
    return decoder.decode(b"\0" + data, 0)[0]


LINES = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "sku": st.text(),
            "bigNumber": st.integers(-(2**63), 2**63 - 1),
            "parts": st.lists(LINES, max_size=2),
        },
    )
)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
BYTES = st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
STATUS = st.sampled_from(["UNKNOWN", "PAID"])
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ORDERS = st.fixed_dictionaries(
    {},
    optional={
        "statusText": st.text(),
        "a": INT32,
        "b": INT64,
        "c": UINT32,
        "d": UINT64,
        "e": INT32,
        "f": INT64,
        "g": UINT32,
        "h": UINT64,
        "i": INT32,
        "j": INT64,
        "k": st.booleans(),
        "l": DOUBLES,
        "m": FLOATS,
        "n": BYTES,
        "o": STATUS,
        "packed": st.lists(INT32),
        "texts": st.lists(st.text()),
        "line": LINES,
        "lines": st.lists(LINES, max_size=3),
        "counts": st.dictionaries(st.text(), INT32),
        "byNumber": st.dictionaries(INT64.map(str), LINES, max_size=3),
        "byBool": st.dictionaries(st.sampled_from(["true", "false"]), DOUBLES),
        "statuses": st.dictionaries(st.text(), STATUS),
        "maybe": INT32,
        "at": st.datetimes().map(lambda at: at.isoformat() + "Z"),
        "took": st.sampled_from(["1s", "-1.500s", "0.000000001s", "-0.000000001s", "0s", "315576000000s"]),
        "data": st.dictionaries(st.text(max_size=3), JSON_VALUES, max_size=3),
        "any": JSON_VALUES,
        "list": st.lists(JSON_VALUES, max_size=3),
        "text": st.text(),
        "number": INT64,
        "unpacked": st.lists(INT32),
        "many": st.lists(STATUS),
        "floats": st.lists(FLOATS),
    },
)
NUMBERS_AS_TEXT = {"b", "d", "f", "h", "j", "bigNumber", "number"}
MAPS = {"counts", "byNumber", "byBool", "statuses"}


def as_we_show(value: Any, name: str = "") -> Any:
    """The library's JSON with numbers where it has 64-bit integers as texts."""
    if name in ("data", "any", "list"):
        return value
    if isinstance(value, dict):
        # A key of a map may be the name of a field.
        return {each: as_we_show(inner, "" if name in MAPS else each) for each, inner in value.items()}
    if isinstance(value, list):
        return [as_we_show(each) for each in value]
    return int(value) if name in NUMBERS_AS_TEXT else value


@settings(deadline=None)
@given(ORDERS, st.sampled_from([None, {"left": "x"}, {"right": 0}, {"middle": {}}]))
@example({"statuses": {"b": "UNKNOWN"}, "counts": {"list": 1}}, None)
def test_values_are_those_of_the_library(order, choice):
    message = json_format.ParseDict({**order, **(choice or {})}, ORDER())
    expected = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    assert decode(message.SerializeToString()) == as_we_show(expected)


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_decoded_or_refused(data):
    try:
        value, note = DECODER.decode(data, 0)
        json.dumps(value, allow_nan=False)
        assert note is None or note.startswith("Fields that its schema does not have are left out: ")
    except Undecodable as error:
        assert str(error)


def fields_of(draw: st.DrawFn, depth: int) -> bytes:
    made = b""
    for _ in range(draw(st.integers(0, 3))):
        number = draw(st.integers(1, 40))
        if depth < 4 and draw(st.booleans()):
            made += field(number, fields_of(draw, depth + 1))
        else:
            made += varint(number << 3 | draw(st.integers(0, 5))) + draw(st.binary(max_size=10))
    return made


@settings(deadline=None)
@given(st.composite(lambda draw: fields_of(draw, 0))())
def test_nearly_valid_messages_are_decoded_or_refused(data):
    try:
        json.dumps(decode(data), allow_nan=False)
    except Undecodable as error:
        assert str(error)


@pytest.mark.parametrize(
    ("indexes", "data", "expected"),
    [
        (b"\0", b"", "statusText"),
        (zigzag(1) + zigzag(0), b"", "statusText"),
        (zigzag(1) + zigzag(1), number_field(1, 7), {"x": 7}),
        # The types that maps generate come before, and are not counted.
        (zigzag(2) + zigzag(0) + zigzag(0), field(1, b"a"), {"sku": "a", "bigNumber": 0, "parts": []}),
        (zigzag(3) + zigzag(1) + zigzag(0) + zigzag(0), field(1, b"b"), {"y": "b"}),
    ],
)
def test_the_type_is_found_by_its_indexes(indexes, data, expected):
    value, _ = DECODER.decode(indexes + data, 0)
    assert value == expected or expected in value


@pytest.mark.parametrize(
    ("indexes", "reason"),
    [
        (b"", "ends too early"),
        (zigzag(1) + zigzag(2), "which its schema does not have"),
        (zigzag(1) + zigzag(-1), "which its schema does not have"),
        (zigzag(2) + zigzag(1) + zigzag(1), "which its schema does not have"),
        (zigzag(4) + zigzag(1) + zigzag(0) * 3, "which its schema does not have"),
        (zigzag(-1), "does not begin with the indexes"),
        (zigzag(2**62), "does not begin with the indexes"),
        (zigzag(100), "ends too early"),
        (b"\xff" * 20, "more than 10 bytes"),
    ],
)
def test_indexes_of_no_type_are_refused(indexes, reason):
    with pytest.raises(Undecodable, match=reason):
        DECODER.decode(indexes, 0)


def test_fields_of_another_type_than_the_schema_s_are_left_out():
    value, note = DECODER.decode(b"\0" + field(2, b"abc") + number_field(1, 5) + number_field(77, 1), 0)
    assert value["a"] == 0 and value["statusText"] == ""
    assert (
        note
        == "Fields that its schema does not have are left out: 2 of shop.Order, 1 of shop.Order, 77 of shop.Order."
    )


def test_a_later_part_of_a_message_adds_to_the_first_and_replaces_scalars():
    first, second = field(1, b"a") + number_field(2, 1), field(3, field(1, b"b")) + number_field(2, 2)
    line = decode(field(19, first) + field(19, second))["line"]
    assert line == {"sku": "a", "bigNumber": 2, "parts": [{"sku": "b", "bigNumber": 0, "parts": []}]}
    value = decode(field(25, b"x") + number_field(26, 3))
    assert value["right"] == 3 and "left" not in value


def test_groups_defaults_and_presence_of_proto2():
    decoder, file = load(PROTO2)
    message = GetMessageClass(file.message_types_by_name["M"])()
    message.a = 1
    message.g.x = 2
    message.g.m.a = 3
    message.h.add().y = 4
    message.h.add()
    assert decode(message.SerializeToString(), decoder) == {
        "a": 1,
        "g": {"x": 2, "m": {"a": 3, "h": []}},
        "h": [{"y": 4}, {}],
    }
    opening, closing = varint(3 << 3 | 3) + varint(2 << 3 | 2), varint(3 << 3 | 4)
    with pytest.raises(Undecodable, match="ends a group that did not begin"):
        decode(opening + varint(1) + closing, decoder)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (field(29, number_field(1, 253402300800)), {"seconds": 253402300800, "nanos": 0}),
        (field(29, number_field(1, 2**63)), {"seconds": -(2**63), "nanos": 0}),
        (field(29, number_field(2, 2**31 - 1)), {"seconds": 0, "nanos": 2**31 - 1}),
        (field(29, b""), "1970-01-01T00:00:00Z"),
        (field(29, number_field(1, 1) + number_field(2, 1_000)), "1970-01-01T00:00:01.000001Z"),
    ],
)
def test_a_time_that_no_calendar_has_is_shown_as_its_fields(data, expected):
    assert decode(data)["at"] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (field(1, b"\x04\xd2") + number_field(3, 2), "12.34"),
        (field(1, b"\x01") + number_field(3, 2**31 - 1), {"value": "AQ==", "precision": 0, "scale": 2**31 - 1}),
        (b"", "0"),
    ],
)
def test_decimals_are_shown_as_text(data, expected):
    assert decode(field(36, data))["price"] == expected


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (
            "message Timestamp { string seconds = 1; repeated int32 nanos = 2; }",
            field(1, b"x") + number_field(2, 1),
        ),
        ("message Duration { int64 seconds = 1; bytes nanos = 2; }", number_field(1, 5) + field(2, b"x")),
        ("message Value { repeated Value list_value = 6; string null_value = 1; }", field(6, field(1, b"x"))),
        ("message Struct { Struct fields = 1; }", field(1, b"")),
        ("message ListValue { map<string, string> values = 1; }", field(1, field(1, b"k"))),
        ("message StringValue { StringValue value = 1; int32 more = 2; }", field(1, number_field(2, 1))),
        ("message BoolValue { }", b""),
    ],
)
def test_types_that_only_have_a_well_known_name_are_shown_as_others(message, data):
    decoder, _ = load(f'syntax = "proto3"; package google.protobuf; {message}')
    json.dumps(decode(data, decoder), allow_nan=False)
    json.dumps(decode(b"", decoder), allow_nan=False)


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"\0\0\xf0\x7f", "Infinity"), (b"\0\0\xf0\xff", "-Infinity"), (b"\0\0\xf8\x7f", "NaN")],
)
def test_numbers_that_json_does_not_have_are_shown_by_their_names(data, expected):
    assert decode(varint(13 << 3 | 1) + b"\0" * 4 + data)["l"] == expected


def test_numbers_of_an_enum_without_a_name_are_shown_as_numbers():
    assert decode(number_field(16, 7))["o"] == 7
    assert decode(number_field(16, 1))["o"] == "PAID"
