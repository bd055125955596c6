"""Any text sent as a schema gets an answer in bounded time, and only errors that say what is wrong."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.registry import compatibility
from backend.registry.formats.schema_types import KINDS, SchemaInvalid, normalized, parse
from tests.nightly import some_now

MEGABYTE = 1_000_000
WORDS = st.sampled_from(
    [
        *(
            "type",
            "name",
            "fields",
            "items",
            "values",
            "symbols",
            "size",
            "default",
            "aliases",
            "namespace",
            "order",
        ),
        *(
            "$ref",
            "$id",
            "id",
            "$schema",
            "properties",
            "definitions",
            "allOf",
            "not",
            "pattern",
            "required",
            "enum",
        ),
    ]
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=5),
    max_leaves=25,
)
AVRO_LIKE = st.recursive(
    st.sampled_from(["int", "null", "string", "record", "R", "E", "", "a.b", None, 1, 2**70, True]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["record", "enum", "fixed", "array", "map", "int", "error"]) | inner},
            optional={
                **dict.fromkeys(("items", "values", "default", "aliases", "namespace", "size", "symbols"), inner),
                "name": st.sampled_from(["R", "E", "a.R", "", "1"]) | inner,
                "fields": st.lists(inner | st.fixed_dictionaries({"name": inner, "type": inner}), max_size=3),
            },
        )
    ),
    max_leaves=20,
)


def answer(kind, text):
    """Parsed, or None if it was refused."""
    try:
        parsed = parse(kind, text)
        return normalized(parsed) and parsed
    except SchemaInvalid as error:
        assert str(error)
        assert len(str(error)) < 20_000
        return None


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(text=st.text(max_size=60))
@example(text="\ud800")
@example(text='"\\ud800"')
@example(text='{"type":"string","x":"\\udfff"}')
@example(text="NaN")
@example(text='{"type":"int","x":-Infinity}')
@example(text='{"type":"int","x":1e999}')
@example(text='{"type":"int","x":1,"x":2}')
@example(text="9" * 5000)
@example(text="\0")
@example(text="\ufeff{}")
def test_no_text_fails_otherwise(kind, text):
    answer(kind, text)


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
@settings(max_examples=200)
@given(value=JSON_VALUES | AVRO_LIKE)
def test_no_json_fails_otherwise(kind, value):
    answer(kind, json.dumps(value))


@settings(max_examples=200)
@given(AVRO_LIKE, AVRO_LIKE)
def test_whatever_parses_can_be_compared(one, other):
    first, second = answer("AVRO", json.dumps(one)), answer("AVRO", json.dumps(other))
    if first and second:
        compatibility.problems("FULL", first, [second])
        assert compatibility.problems("FULL", first, [first]) == []


@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from(
            [
                "message",
                "A",
                "{",
                "}",
                "int32",
                "=",
                "1",
                ";",
                "oneof",
                "enum",
                "import",
                '"a"',
                "option",
                "(",
                ")",
                "extend",
                "map<int32,A>",
                "reserved",
                "to",
                "max",
                "group",
                "repeated",
                "-",
                "[",
                "]",
                "rpc",
                "returns",
                "service",
                "//",
            ]
        ),
        max_size=25,
    ).map(" ".join)
)
def test_no_heap_of_protobuf_words_fails_otherwise(text):
    answer("PROTOBUF", f'syntax = "proto3"; {text}')


@pytest.mark.parametrize("kind", [*KINDS, "XML"])
@pytest.mark.parametrize(
    "opening", ["[", '{"type":', '{"a":[', '{"type":"array","items":', "message A {", "{", "("]
)
def test_nesting_without_an_end_is_refused(kind, opening):
    with pytest.raises(SchemaInvalid):
        parse(kind, opening * 100_000)


def nested(depth, kind):
    wrap = '{"type":"array","items":' if kind == "AVRO" else '{"items":'
    return wrap * depth + ('"int"' if kind == "AVRO" else "{}") + "}" * depth


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_deep_schemas_are_taken_to_a_limit_that_holds_in_threads_too(kind):
    assert answer(kind, nested(90, kind))
    done = []
    for depth in (90, 300, 900, 5000):
        thread = threading.Thread(target=lambda depth=depth: done.append(answer(kind, nested(depth, kind))))
        thread.start()
        thread.join()
    assert len(done) == 4
    assert done[0]
    assert done[-1] is None


def test_an_unknown_type_of_schema_is_refused_with_those_that_there_are():
    with pytest.raises(SchemaInvalid, match="Unknown schema type 'XML'; supported are AVRO, JSON, PROTOBUF"):
        parse("XML", "<a/>")


def wide(kind, part=1):
    if kind == "AVRO":
        fields = [{"name": f"field_{n}", "type": ["null", "string"], "default": None} for n in range(16_000)]
        return json.dumps({"type": "record", "name": "R", "fields": fields})
    if kind == "JSON":
        return json.dumps(
            {"properties": {f"field_{n}": {"type": ["string", "null"], "maxLength": 9} for n in range(20_000)}}
        )
    return 'syntax = "proto3";\n' + "".join(
        f"message M{n} {{ string name = 1; oneof x {{ int64 a = 3; M0 b = 4; }} map<string, M0> m = 5; }}\n"
        for n in range(12_000 // part)
    )


def all_in_one(kind, part=1):
    """Where one scope holds everything, so that a look at each for each would show."""
    if kind == "AVRO":
        branches = [{"type": "enum", "name": f"a.E{n}", "symbols": ["A"]} for n in range(18_000)]
        return json.dumps(branches)
    if kind == "JSON":
        named = {f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(20_000)}
        return json.dumps({"definitions": {**named, "d20000": {}}, "allOf": [{"$ref": "#/definitions/d0"}]})
    listed = (f"message N{n} {{ int32 a = 1; }}" for n in range(26_000 // part))
    return f'syntax = "proto3"; message M {{ {" ".join(listed)} map<int32, int32> m = 1; }}'


def chained(kind, part=1):
    if kind == "AVRO":
        first = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
        later = (
            {"type": "record", "name": f"R{n}", "fields": [{"name": "x", "type": f"R{n - 1}"}]}
            for n in range(1, 11_000)
        )
        return json.dumps([first, *later])
    if kind == "JSON":
        named = {f"d{n}": {"properties": {"x": {"$ref": f"#/definitions/d{n + 1}"}}} for n in range(15_000)}
        return json.dumps({"definitions": {**named, "d15000": {}}, "allOf": [{"$ref": "#/definitions/d0"}]})
    last = 26_000 // part
    messages = (f"message M{n} {{ M{n + 1} next = 1; }}\n" for n in range(last))
    return f'syntax = "proto3";\n{"".join(messages)}message M{last} {{}}'


PROTOBUFS = [
    (wide, ("string name", "int32 name"), "FIELD_SCALAR_KIND_CHANGED"),
    (all_in_one, ("int32 a", "string a"), "FIELD_SCALAR_KIND_CHANGED"),
    (chained, ("M26000 next", "M0 next"), "FIELD_NAMED_TYPE_CHANGED"),
]
"""The compiler takes its time for a megabyte of them: that is for `make nightly`."""


@some_now(
    "kind, shape, change, problem",
    [
        ("AVRO", wide, ('"string"', '"int"'), "MISSING_UNION_BRANCH"),
        ("AVRO", all_in_one, ('"A"', '"B"'), "MISSING_ENUM_SYMBOLS"),
        ("AVRO", chained, ('"int"', '"string"'), "TYPE_MISMATCH"),
        *(pytest.param("PROTOBUF", *each, marks=pytest.mark.nightly) for each in PROTOBUFS),
        ("JSON", wide, None, ""),
        ("JSON", all_in_one, None, ""),
        ("JSON", chained, None, ""),
    ],
    now=(2,),
)
def test_a_megabyte_of_any_shape_is_parsed_and_compared(kind, shape, change, problem):
    text = shape(kind)
    assert MEGABYTE * 0.7 < len(text) < MEGABYTE * 1.5
    parsed = normalized(parse(kind, text))
    if change:
        compare(kind, text, change, parsed, problem)


@pytest.mark.parametrize(("shape", "change", "problem"), PROTOBUFS)
def test_so_is_a_tenth_of_it_of_protobuf(shape, change, problem):
    text = shape("PROTOBUF", 10)
    assert MEGABYTE * 0.07 < len(text) < MEGABYTE * 0.15
    parsed = normalized(parse("PROTOBUF", text))
    compare("PROTOBUF", text, (change[0].replace("M26000", "M2600"), change[1]), parsed, problem)


def compare(kind, text, change, parsed, problem):
    """Compare a changed schema with the one before the change."""
    found = compatibility.problems("FULL", parse(kind, text.replace(*change)), [parsed])
    assert found[0].startswith(problem)
    assert len(found) <= 101
    assert max(map(len, found)) < 1000
