"""Decoding by real processes: formats, schemas, expressions, and what is said of a record that is not decoded."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.messages.decoders import (
    DecodedField,
    Decoders,
    DecodingEnded,
    ExpressionInvalid,
    Parts,
    SchemaText,
)
from tests.unit.messages.encoded import field, number_field, with_id, with_indexes, zigzag

LONG_SECONDS = 120.0
AVRO = SchemaText(
    "AVRO",
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, '
    '{"name": "line", "type": "Line"}]}',
    {"Line": '{"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}'},
)
PROTOBUF = SchemaText(
    "PROTOBUF",
    'syntax = "proto3"; import "line.proto"; message Order { int64 id = 1; Line line = 2; }',
    {"line.proto": 'syntax = "proto3"; message Line { string sku = 1; }'},
)
SCHEMAS = {
    1: AVRO,
    2: SchemaText("JSON", '{"type": "object"}', {}),
    3: PROTOBUF,
    4: SchemaText("AVRO", '{"type": "record"}', {}),
    5: SchemaText("PROTOBUF", 'syntax = "proto3"; message M { Unknown x = 1; }', {}),
    6: SchemaText("THRIFT", "", {}),
    7: SchemaText("AVRO", f'{{"type": "enum", "name": "E", "symbols": ["{"x" * 2_000_001}"]}}', {}),
    8: SchemaText("AVRO", "\ud800", {}),
    9: SchemaText("AVRO", "[" * 100_000, {}),
    10: SchemaText("PROTOBUF", 'syntax = "proto3"; import "../../etc/passwd";', {"../x": ""}),
}
AVRO_ORDER = with_id(1, zigzag(7) + zigzag(1) + b"a")
PROTOBUF_ORDER = with_indexes(3, number_field(1, 7) + field(2, field(1, b"a")))


@pytest.fixture(scope="module")
def decoders() -> Iterator[Decoders]:
    made = Decoders(most=1)
    yield made
    made.close()


def values(decoders: Decoders, *data: bytes | None, expression: str | None = None) -> list[DecodedField | None]:
    """Decode values of records without keys."""
    found = decoders.decode([Parts(None, each) for each in data], SCHEMAS.get, expression, LONG_SECONDS)
    return [None if each is None else each[1] for each in found]


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("data", "form", "value"),
    [
        (None, "bytes", None),
        (b"", "text", ""),
        (b"plain", "text", "plain"),
        ("Ärger 😀".encode(), "text", "Ärger 😀"),
        (b"line\n\ttab\r\n\x1b[31mred\x1b[0m", "text", "line\n\ttab\r\n\x1b[31mred\x1b[0m"),
        (b"42", "text", "42"),
        (b"true", "text", "true"),
        (b"null", "text", "null"),
        (b'{"a": [1, 2.5, null, true, "x"]}', "json", {"a": [1, 2.5, None, True, "x"]}),
        (b" \r\n\t[1]\n", "json", [1]),
        (b'"quoted"', "json", "quoted"),
        (b'{"a": 9007199254740993}', "json", {"a": 9007199254740993}),
        (b'{"a": 1', "text", '{"a": 1'),
        (b"{a: 1}", "text", "{a: 1}"),
        (b"[NaN]", "text", "[NaN]"),
        (b"\x00\x01", "bytes", "AAE="),
        (b"abc\x00def", "bytes", in_base64(b"abc\x00def")),
        (b"{\x01}", "bytes", in_base64(b"{\x01}")),
        (b"\xff\xfe", "bytes", "//4="),
        ("\ud800".encode(errors="surrogatepass"), "bytes", "7aCA"),
        (with_id(0, b"abc"), "bytes", in_base64(with_id(0, b"abc"))),
        (with_id(2**31, b"abc"), "bytes", in_base64(with_id(2**31, b"abc"))),
        ((1_700_000_000_000).to_bytes(8, "big"), "bytes", "AAABi8/laAA="),
    ],
)
def test_values_without_a_schema_are_what_they_look_like(decoders, data, form, value):
    assert values(decoders, data) == [DecodedField(form, value, None, None)]


@pytest.mark.parametrize(
    ("data", "form", "value", "schema_id"),
    [
        (AVRO_ORDER, "avro", {"id": 7, "line": {"sku": "a"}}, 1),
        (with_id(2, b' {"id": 7}'), "json", {"id": 7}, 2),
        (with_id(2, b"17"), "json", 17, 2),
        (PROTOBUF_ORDER, "protobuf", {"id": 7, "line": {"sku": "a"}}, 3),
    ],
)
def test_values_with_the_id_of_a_schema_are_decoded_by_it(decoders, data, form, value, schema_id):
    assert values(decoders, data) == [DecodedField(form, value, schema_id, None)]


def test_keys_are_decoded_as_values_are(decoders):
    parts = [Parts(AVRO_ORDER, b"x"), Parts(b"k", PROTOBUF_ORDER), Parts(b"\xff", None)]
    found = decoders.decode(parts, SCHEMAS.get, None, LONG_SECONDS)
    assert [(key.format, value.format) for key, value in found] == [
        ("avro", "text"),
        ("text", "protobuf"),
        ("bytes", "bytes"),
    ]
    assert found[0][0].schema_id == 1


@pytest.mark.parametrize(
    ("data", "schema_id", "problem"),
    [
        (AVRO_ORDER[:-1], 1, "It does not fit schema 1: it ends too early."),
        (AVRO_ORDER + b"xy", 1, "It does not fit schema 1: it has 2 bytes too many."),
        (with_id(2, b"{"), 2, "It does not fit schema 2: it is not JSON."),
        (with_id(2, b"\xff"), 2, "It does not fit schema 2: it is not JSON."),
        (with_id(2, b"[" * 1_000), 2, "It does not fit schema 2: it is nested deeper than 100 levels."),
        (PROTOBUF_ORDER[:-1], 3, "It does not fit schema 3: it ends too early."),
        (with_id(3, b""), 3, "It does not fit schema 3: it ends too early."),
        (with_id(4, b"x"), 4, "Schema 4 cannot be used. The Avro schema is invalid at /: "),
        (with_id(5, b"x"), 5, "Schema 5 cannot be used. The Protobuf schema is invalid: line 1, column 32: "),
        (with_id(6, b"x"), 6, "Schema 6 cannot be used. Its language 'THRIFT' is unknown."),
        (with_id(7, b"x"), 7, "Schema 7 cannot be used. It is longer than 2,000,000 characters."),
        (with_id(8, b"x"), 8, "Schema 8 cannot be used. "),
        (with_id(9, b"x"), 9, "Schema 9 cannot be used. It is nested too deeply."),
        (with_id(10, b"x"), 10, "Schema 10 cannot be used. The reference name '../x' is not a path"),
        (with_id(77, b"x"), None, "It begins with the id of a schema that is not known here: 77."),
    ],
)
def test_what_is_not_decoded_comes_as_bytes_with_a_reason(decoders, data, schema_id, problem):
    (found,) = values(decoders, data)
    assert (found.format, found.value, found.schema_id) == ("bytes", in_base64(data), schema_id)
    assert found.problem.startswith(problem)
    assert found.problem.encode()


def test_a_field_that_the_schema_does_not_have_is_noted(decoders):
    (found,) = values(decoders, PROTOBUF_ORDER + number_field(9, 1))
    assert found.value == {"id": 7, "line": {"sku": "a"}}
    assert found.problem == "Fields that its schema does not have are left out: 9 of Order."


@pytest.mark.parametrize(
    ("data", "form", "problem"),
    [
        (
            b"[" * 100_000 + b"]" * 100_000,
            "text",
            "It is JSON, but is shown as text: it is nested deeper than 100",
        ),
        (
            b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
            "text",
            "It is JSON, but is shown as text: it is nested deeper",
        ),
        (b"[" * 5_000_000, "text", "It is JSON, but is shown as text: it is nested deeper"),
        (b"[" + b"1" * 5_000 + b"]", "text", "It is JSON, but is shown as text: it has a number with thousands"),
        (b'["\\ud800"]', "json", "Half of a surrogate pair in it is shown as U+FFFD."),
        (b"[1e999]", "json", "A number in it is too large for a reader, and shown as Infinity."),
        (b"[" + b"1," * 200_000 + b"1]", "text", "It consists of so many values that it is shown as text."),
    ],
    ids=lambda each: str(each)[:12],
)
def test_json_beyond_the_limits_is_shown_as_text(decoders, data, form, problem):
    (found,) = values(decoders, data)
    assert found.format == form and found.problem.startswith(problem)
    if form == "text":
        assert found.value == data.decode()


def test_a_schema_is_looked_up_once_by_its_id_and_for_a_hundred_ids_at_most(decoders):
    asked = []

    def look_up(schema_id):
        asked.append(schema_id)
        return SCHEMAS.get(schema_id)

    records = [Parts(AVRO_ORDER, AVRO_ORDER)] * 5_000 + [Parts(None, with_id(n, b"xxxx")) for n in range(100, 400)]
    found = decoders.decode(records, look_up, None, LONG_SECONDS)
    assert len(asked) == len(set(asked)) == 100 and 1 in asked
    assert {value.format for _, value in found[:5_000]} == {"avro"}
    assert all("not known here" in value.problem for _, value in found[5_000:])


def test_a_failure_of_the_look_up_is_raised(decoders):
    def fail(schema_id):
        raise LookupError(schema_id)

    with pytest.raises(LookupError):
        decoders.decode([Parts(None, AVRO_ORDER)], fail, None, LONG_SECONDS)
    assert values(decoders, b"x") == [DecodedField("text", "x", None, None)]


def test_one_id_may_mean_different_schemas_to_different_readers(decoders):
    other = SchemaText("AVRO", '"long"', {})
    data = with_id(1, zigzag(-3))
    for _ in range(2):
        found = decoders.decode([Parts(None, data)], {1: other}.get, None, LONG_SECONDS)
        assert found[0][1] == DecodedField("avro", -3, 1, None)
        assert values(decoders, AVRO_ORDER)[0].value == {"id": 7, "line": {"sku": "a"}}
        assert "not known here" in decoders.decode([Parts(None, data)], lambda _: None, None, 60)[0][1].problem


def test_more_schemas_than_a_process_keeps_are_decoded(decoders):
    for first in (0, 80, 160, 0):
        known = {
            n + 1: SchemaText("AVRO", f'["int", {{"type": "enum", "name": "E{n}", "symbols": []}}]', {})
            for n in range(first, first + 80)
        }
        records = [Parts(None, with_id(n, zigzag(0) + zigzag(n))) for n in known]
        found = decoders.decode(records, known.get, None, LONG_SECONDS)
        assert [value.value for _, value in found] == list(known)


def test_an_expression_selects_records_by_their_values(decoders):
    data = [
        b'{"id": 6}',
        AVRO_ORDER,
        PROTOBUF_ORDER,
        with_id(2, b'{"id": 7}'),
        b'{"id": 7',
        b"\xff",
        None,
        b'["id"]',
    ]
    found = values(decoders, *data, expression="$.id == 7")
    assert [each and each.format for each in found] == [None, "avro", "protobuf", "json", None, None, None, None]
    # Bytes are no value that an expression could be about; texts, null and what is absent are.
    found = values(
        decoders, b"text", b"\xff", None, AVRO_ORDER[:-1], b'{"a": 1}', expression='$ == "text" || $ == null'
    )
    assert [each is not None for each in found] == [True, False, True, False, False]
    found = values(decoders, b"text", b"\xff", None, AVRO_ORDER[:-1], b'{"a": 1}', expression="$.a != 1")
    assert [each is not None for each in found] == [True, False, True, False, False]


def test_a_record_without_a_result_is_shown_with_the_reason(decoders):
    slow = json.dumps({"a": "x" * 100_000 + "!"}).encode()
    found = values(decoders, b'{"a": "xx"}', slow, b'{"a": "b"}', expression='match($.a, "(xx*)*y?z*(x|xx)*w?")')
    assert found[0] is not None and found[2] is None
    assert found[1] is None or "takes longer than" in found[1].problem


@pytest.mark.parametrize("expression", ["$.a", '$.status == "paid"', "$..x", "$.a == 1 && match($.b, '(x+)')"])
def test_valid_expressions_pass_the_check_which_tells_what_is_known_of_them(decoders, expression):
    required, is_bounded = decoders.check(expression)
    assert required == (("paid",) if "paid" in expression else ())
    assert is_bounded is ("match" not in expression)


@pytest.mark.parametrize(
    ("expression", "position"),
    [("$.a =", 4), ("status", 0), ("(" * 10_000, 10_000), ("", 0), ("$.a == '\ud800", 8), ("x" * 100_000, 16_000)],
    ids=lambda each: str(each)[:10],
)
def test_invalid_expressions_are_refused_with_their_place(decoders, expression, position):
    with pytest.raises(ExpressionInvalid) as caught:
        decoders.check(expression)
    assert caught.value.position == position
    assert str(caught.value).startswith(f"The expression is invalid at character {position + 1}: ")
    with pytest.raises(ExpressionInvalid):
        values(decoders, b"{}", expression=expression)
    assert values(decoders, b"{}", expression="$")[0].value == {}


def test_a_pattern_that_fills_the_memory_is_refused(decoders):
    with pytest.raises(ExpressionInvalid):
        decoders.check('match($.a, "(((a{100}){100}){100}){100}")')
    assert values(decoders, b"{}")[0].value == {}


def test_nothing_is_decoded_without_records(decoders):
    assert decoders.decode([], SCHEMAS.get, None, 0.0) == []


def test_without_time_nothing_is_done(decoders):
    with pytest.raises(DecodingEnded) as caught:
        decoders.decode([Parts(None, b"x")], SCHEMAS.get, None, 0.0)
    assert (caught.value.done, caught.value.results) == (0, [])


def test_many_records_come_back_in_their_order(decoders):
    records = [Parts(b"%d" % n, b'{"n": %d}' % n) for n in range(7_000)]
    found = decoders.decode(records, SCHEMAS.get, None, LONG_SECONDS)
    assert [(key.value, value.value) for key, value in found] == [(str(n), {"n": n}) for n in range(7_000)]
    found = decoders.decode(records, SCHEMAS.get, "$.n == 17 || $.n >= 6998", LONG_SECONDS)
    assert [n for n, each in enumerate(found) if each is not None] == [17, 6998, 6999]


TEN_MEGABYTES = 10_000_000


@pytest.mark.parametrize(
    ("data", "form", "problem"),
    [
        (json.dumps({"a": "x" * TEN_MEGABYTES, "b": 1}).encode(), "json", None),
        (b'{"b": 1, "a": [' + b"1," * (TEN_MEGABYTES // 2) + b"1]}", "text", "so many values"),
        (b"x" * TEN_MEGABYTES, "text", None),
        (("😀" * (TEN_MEGABYTES // 4)).encode(), "text", None),
        (b"\xff" * TEN_MEGABYTES, "bytes", None),
        (b'"' + b"\\u0001" * (TEN_MEGABYTES // 6) + b'"', "json", None),
        (with_id(1, zigzag(7) + zigzag(TEN_MEGABYTES) + b"x" * TEN_MEGABYTES), "avro", None),
        (with_indexes(3, field(2, field(1, b"x" * TEN_MEGABYTES))), "protobuf", None),
        (b"x" * (17 * 1024 * 1024), "bytes", "It is larger than 16 MiB, and not decoded."),
    ],
    ids=range(9),
)
def test_values_of_ten_megabytes(decoders, data, form, problem):
    small, found, after = values(decoders, b"small", data, b"after")
    assert (small.value, after.value) == ("small", "after")
    assert found.format == form
    assert found.problem is None if problem is None else problem in found.problem
    if form in ("text", "bytes"):
        assert found.value == (data.decode() if form == "text" else in_base64(data))


def test_a_large_value_is_filtered_all_the_same(decoders):
    data = b'{"b": 1, "a": [' + b"1," * (TEN_MEGABYTES // 2) + b"1]}"
    found = values(decoders, data, data, expression="$.b == 1 && $.a[4999999] == 1 && $.a[-1] == 1")
    assert [each.format for each in found] == ["text", "text"]
    assert values(decoders, data, expression="$.b == 2") == [None]


PARTS = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.text(max_size=40).map(lambda text: text.encode(errors="surrogatepass")),
    st.builds(with_id, st.integers(0, 12) | st.integers(0, 2**32 - 1), st.binary(max_size=40)),
    st.builds(lambda data: AVRO_ORDER[:5] + data, st.binary(max_size=20)),
    st.builds(lambda data: PROTOBUF_ORDER[:6] + data, st.binary(max_size=20)),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    ).map(lambda value: json.dumps(value).encode()),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.builds(Parts, PARTS, PARTS), max_size=20), st.sampled_from([None, "$.a", "$..*", "$ != 1"]))
def test_any_records_are_decoded_or_come_as_bytes(decoders, records, expression):
    found = decoders.decode(records, SCHEMAS.get, expression, LONG_SECONDS)
    assert len(found) == len(records)
    for record, fields in zip(records, found, strict=True):
        for data, decoded in zip(record, fields or (), strict=False):
            json.dumps(decoded.value, ensure_ascii=False, allow_nan=False).encode()
            if decoded.format == "bytes":
                assert decoded.value == (None if data is None else in_base64(data))
            elif decoded.format == "text" and decoded.schema_id is None:
                assert decoded.value.encode() == data
            elif decoded.format == "json" and decoded.schema_id is None:
                assert data[:1] in b'{["' or data[:1].isspace()
