"""Avro values: decoded as fastavro does, shown readably, and refused beyond the limits."""

from __future__ import annotations

import base64
import io
import json
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.messages.decoding.avro_values import AvroDecoder
from backend.messages.decoding.bounds import MOST_LEVELS, MOST_PARTS, Undecodable
from backend.registry.formats import avro_schemas
from tests.unit.messages.encoded import varint, zigzag
from tests.unit.schema_formats import avro_generation

LOGICAL = {
    "date": {"type": "int", "logicalType": "date"},
    "time_ms": {"type": "int", "logicalType": "time-millis"},
    "time_us": {"type": "long", "logicalType": "time-micros"},
    "at_ms": {"type": "long", "logicalType": "timestamp-millis"},
    "at_us": {"type": "long", "logicalType": "timestamp-micros"},
    "at_ns": {"type": "long", "logicalType": "timestamp-nanos"},
    "local_ms": {"type": "long", "logicalType": "local-timestamp-millis"},
    "amount": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    "fixed_amount": {
        "type": {"type": "fixed", "name": "F", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 0}
    },
    "id": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
    "text_id": {"type": "string", "logicalType": "uuid"},
    "span": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
    "raw": "bytes",
    "odd": {"type": "string", "logicalType": "decimal"},
}


def decoder(schema) -> AvroDecoder:
    return AvroDecoder(avro_schemas.parse(json.dumps(schema), (), strict=False).tree)


def decode(schema, data: bytes):
    return decoder(schema).decode(data, 0)[0]


def shown(value):
    """The form of fastavro's values in JSON."""
    if isinstance(value, dict):
        return {name: shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, float) and abs(value) == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
@given(st.data())
def test_values_are_those_of_fastavro(data):
    schema = data.draw(avro_generation.schemas())
    parsed = avro_generation.parsed(schema)
    value = avro_generation.data(data.draw, parsed.tree)
    written = io.BytesIO()
    known = fastavro.parse_schema(json.loads(parsed.text))
    fastavro.schemaless_writer(written, known, value)
    read = shown(fastavro.schemaless_reader(io.BytesIO(written.getvalue()), known, None))
    decoded = AvroDecoder(parsed.tree).decode(written.getvalue(), 0)[0]
    assert json.loads(json.dumps(decoded)) == decoded
    # A float is shown with as few digits as tell it from its neighbours.
    assert singles(decoded) == singles(read)


def singles(value):
    if isinstance(value, dict):
        return {name: singles(each) for name, each in value.items()}
    if isinstance(value, list):
        return [singles(each) for each in value]
    if isinstance(value, float) and abs(value) < 3.4e38:
        return struct.pack("<f", value)
    return value


@settings(deadline=None)
@given(st.data(), st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(data, written):
    parsed = avro_generation.parsed(data.draw(avro_generation.schemas()))
    try:
        json.dumps(AvroDecoder(parsed.tree).decode(written, 0)[0], allow_nan=False)
    except Undecodable as error:
        assert str(error)


def test_logical_types_are_readable():
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": name, "type": kind["type"] if name == "fixed_amount" else kind}
            for name, kind in LOGICAL.items()
        ],
    }
    at = datetime(2024, 2, 29, 23, 59, 58, 123456, tzinfo=UTC)
    written = io.BytesIO()
    plain = {
        "date": date(2024, 2, 29),
        "time_ms": time(1, 2, 3, 4000),
        "time_us": time(23, 59, 59, 999999),
        "at_ms": at,
        "at_us": at,
        "at_ns": int(at.timestamp()) * 10**9 + 123456789,
        "local_ms": at.replace(tzinfo=None),
        "amount": Decimal("-1234.005"),
        "fixed_amount": Decimal(42),
        "id": UUID(int=2**127).bytes,
        "text_id": "not one",
        "span": struct.pack("<III", 1, 2, 3004),
        "raw": b"\xff\x00",
        "odd": "text",
    }
    without = {**schema, "fields": [dict(each) for each in schema["fields"]]}
    without["fields"][5]["type"] = "long"
    without["fields"][9]["type"] = {"type": "fixed", "name": "U", "size": 16}
    without["fields"][10]["type"] = "string"
    fastavro.schemaless_writer(written, fastavro.parse_schema(without), plain)
    assert decode(schema, written.getvalue()) == {
        "date": "2024-02-29",
        "time_ms": "01:02:03.004",
        "time_us": "23:59:59.999999",
        "at_ms": "2024-02-29T23:59:58.123Z",
        "at_us": "2024-02-29T23:59:58.123456Z",
        "at_ns": "2024-02-29T23:59:58.123456789Z",
        "local_ms": "2024-02-29T23:59:58.123",
        "amount": "-1234.005",
        "fixed_amount": "42",
        "id": str(UUID(int=2**127)),
        "text_id": "not one",
        "span": "P1M2DT3.004S",
        "raw": "/wA=",
        "odd": "text",
    }


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (LOGICAL["date"], 2**31 - 1),
        (LOGICAL["date"], -(2**31)),
        (LOGICAL["time_ms"], -1),
        (LOGICAL["time_us"], 86_400_000_000),
        *((LOGICAL[name], number) for name in ("at_ms", "at_us", "local_ms") for number in (2**63 - 1, -(2**63))),
    ],
)
def test_a_time_that_no_calendar_has_is_shown_as_a_number(kind, number):
    assert decode(kind, zigzag(number)) == number


def test_times_before_1970_are_shown():
    assert decode(LOGICAL["at_ms"], zigzag(-1)) == "1969-12-31T23:59:59.999Z"
    assert decode(LOGICAL["date"], zigzag(-719162)) == "0001-01-01"
    long_ago = datetime(1, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert decode(LOGICAL["at_us"], zigzag(long_ago // timedelta(microseconds=1))) == "0001-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("size", "scale", "is_readable"),
    [(1, 0, True), (400, 1000, True), (450_000, 0, False), (1, 2**31, False), (1, 10**30, False), (1, -5, False)],
)
def test_a_decimal_of_a_million_digits_stays_bytes(size, scale, is_readable):
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": scale}
    value = decode(kind, zigzag(size) + b"\x7f" * size)
    assert (value.replace(".", "").isdigit() and len(value) < 1_100) is is_readable
    assert len(value) <= max(1_100, size * 2)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("double", float("nan"), "NaN"),
        ("double", float("-inf"), "-Infinity"),
        ("float", float("inf"), "Infinity"),
        ("float", 0.1, 0.1),
        ("float", 3.4028234663852886e38, 3.4028234663852886e38),
        ("float", 1e-45, 1e-45),
        ("float", -0.0, -0.0),
        ("float", 16777217.0, 16777216.0),
    ],
)
def test_floats_are_numbers_that_json_has_or_their_names(kind, value, expected):
    data = struct.pack("<d" if kind == "double" else "<f", value)
    got = decode(kind, data)
    assert got == expected or struct.pack("<f", got) == data


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
DOUBLING = [
    {"type": "record", "name": "R0", "fields": []},
    *(
        {"type": "record", "name": f"R{n}", "fields": [{"name": side, "type": f"R{n - 1}"} for side in "ab"]}
        for n in range(1, 60)
    ),
]
"""Records that contain the one before twice: the last is 2**60 records, of no bytes."""
HUGE = zigzag(2**60)


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        (NODE, b"\x02" * 10_000_000 + b"\0", "deeper than 100 levels"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"", "deeper than 100 levels"),
        ([*DOUBLING], zigzag(59), "more than 250,000 values"),
        ({"type": "array", "items": "null"}, HUGE + b"\0", "more than 250,000 values"),
        ({"type": "array", "items": "null"}, zigzag(-(2**60)) + b"\0\0", "more than 250,000 values"),
        ({"type": "array", "items": "null"}, zigzag(-(2**63)) + b"\0\0", "more than 250,000 values"),
        ({"type": "array", "items": "null"}, (zigzag(1000) * 1000) + b"\0", "more than 250,000 values"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, HUGE, "more than 250,000 values"),
        ({"type": "array", "items": {"type": "record", "name": "R", "fields": []}}, HUGE, "more than 250,000"),
        ({"type": "array", "items": "int"}, zigzag(MOST_PARTS), "ends too early"),
        ({"type": "map", "values": "null"}, HUGE, "more than 250,000 values"),
        ({"type": "fixed", "name": "F", "size": 2**31 - 1}, b"abc", "ends too early"),
        (["bytes"], zigzag(0) + zigzag(2**62) + b"abc", "ends too early"),
        (["bytes"], zigzag(0) + zigzag(-1), "length below zero"),
        ("string", zigzag(-(2**62)), "length below zero"),
        ("string", zigzag(2) + b"\xff\xfe", "not UTF-8"),
        ("string", zigzag(3) + "\ud800".encode(errors="surrogatepass"), "not UTF-8"),
        ("long", b"\xff" * 11, "more than 10 bytes"),
        ("long", b"\x80" * 10_000_000, "more than 10 bytes"),
        ("long", b"\x80", "ends too early"),
        ("boolean", b"\x02", "byte 2"),
        ("double", b"1234567", "ends too early"),
        (["null", "int"], zigzag(2), "branch 2 of a union with 2"),
        (["null", "int"], zigzag(-1), "branch -1"),
        (["null"], zigzag(2**62), "branch 4611686018427387904"),
        ([], zigzag(0), "branch 0 of a union with 0"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, zigzag(1), "symbol 1 of an enum with 1"),
        ({"type": "enum", "name": "E", "symbols": []}, zigzag(0), "symbol 0"),
        ("null", b"\0", "1 bytes too many"),
        ("int", b"\x02" + b"x" * 5_000, "5,000 bytes too many"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_bytes_beyond_the_limits_are_refused(schema, data, reason):
    with pytest.raises(Undecodable, match=reason):
        decode(schema, data)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (zigzag(3) + b"abc", b"abc"),
        (zigzag(0), b""),
        (b"", b""),
        (b"abc", b"abc"),
        (zigzag(3) + b"ab", zigzag(3) + b"ab"),
        (zigzag(3) + b"abcd", zigzag(3) + b"abcd"),
        (zigzag(-1), zigzag(-1)),
        (b"\xff" * 11, b"\xff" * 11),
    ],
)
def test_bytes_that_are_the_whole_value_may_come_without_their_length(data, value):
    assert decode("bytes", data) == base64.b64encode(value).decode()
    assert decoder({"type": "bytes"}).decode(b"12345" + data, 5)[0] == base64.b64encode(value).decode()


def test_a_decimal_that_is_the_whole_value_may_come_without_its_length():
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    assert [decode(kind, data) for data in (zigzag(2) + b"\x04\xd2", b"\x04\xd2")] == ["12.34", "12.34"]


def test_values_up_to_the_limits_are_decoded():
    levels = MOST_LEVELS
    value = decode(NODE, b"\x02" * (levels - 1) + b"\0")
    for _ in range(levels - 1):
        value = value["next"]
    assert value == {"next": None}
    nulls = MOST_PARTS // 2
    assert decode({"type": "array", "items": "null"}, zigzag(nulls) + b"\0") == [None] * nulls


def test_records_may_be_defined_one_within_the_other_beyond_the_depth_of_the_stack():
    schema = [{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}]
    schema += [
        {"type": "record", "name": f"R{n}", "fields": [{"name": "r", "type": ["null", f"R{n - 1}"]}]}
        for n in range(1, 3_000)
    ]
    assert decode(schema, zigzag(2_999) + zigzag(1) * 3 + zigzag(0)) == {"r": {"r": {"r": {"r": None}}}}


def test_numbers_of_64_bits_are_exact():
    for number in (2**63 - 1, -(2**63), 2**53 + 1, 0, -1):
        assert decode("long", zigzag(number)) == number
    assert decode("long", varint(2**64 - 1)[:-1] + b"\x7f") == -(2**63)
