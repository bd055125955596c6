"""Valid Avro schemas, their stored form, and equal ones."""

from __future__ import annotations

import json
import warnings

import avro.errors
import avro.schema
import pytest
from fastavro.schema import SchemaParseException, UnknownType, parse_schema
from hypothesis import given, settings

from backend.registry.formats.schema_types import Referenced, SchemaInvalid, normalized, parse
from tests.unit.schema_formats.avro_generation import schemas


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def enum(**more):
    return {"type": "enum", "name": "E", "symbols": ["A", "B"], **more}


def stored(schema, *references, strict=True):
    return parse("AVRO", json.dumps(schema), references, strict=strict).text


IN = record(field("x", "int"), name="In")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "int"}, '"int"'),
        ({"type": "long", "logicalType": "date", "x": 1}, '{"type":"long","logicalType":"date","x":1}'),
        (["null", {"type": "string"}], '["null","string"]'),
        (
            {
                "fields": [],
                "name": "R",
                "type": "record",
                "doc": "d",
                "extra": [1, 2.5, None],
                "aliases": ["S", "b.T"],
            },
            '{"type":"record","name":"R","doc":"d","fields":[],"extra":[1,2.5,null],"aliases":["S","b.T"]}',
        ),
        (
            record(field("a", "int", order="ignore", default=1, doc="ü", aliases=["b"], z=True)),
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","doc":"ü","default":1,"order":"ignore",'
            '"aliases":["b"],"z":true}]}',
        ),
        (
            record(field("a", "int", order="ascending")),
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}',
        ),
        (
            {"type": "record", "name": "a.b.R", "fields": []},
            '{"type":"record","name":"R","namespace":"a.b","fields":[]}',
        ),
        (enum(default="A", doc="d"), '{"type":"enum","name":"E","doc":"d","symbols":["A","B"],"default":"A"}'),
        (
            {"size": 2, "name": "F", "type": "fixed", "namespace": "n"},
            '{"type":"fixed","name":"F","namespace":"n","size":2}',
        ),
        ({"values": {"type": "int"}, "type": "map", "p": {}}, '{"type":"map","values":"int","p":{}}'),
        (
            record(field("a", IN), field("b", "n.In"), field("c", "In"), namespace="n"),
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"record","name":"In",'
            '"fields":[{"name":"x","type":"int"}]}},{"name":"b","type":"In"},{"name":"c","type":"In"}]}',
        ),
        (
            record(field("a", {**IN, "namespace": ""}), field("b", "In"), namespace="n"),
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"record","name":"In",'
            '"namespace":"","fields":[{"name":"x","type":"int"}]}},{"name":"b","type":"In"}]}',
        ),
        (
            record(field("a", {**IN, "namespace": "m"}), field("b", ["null", "m.In"]), namespace="n"),
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"record","name":"In",'
            '"namespace":"m","fields":[{"name":"x","type":"int"}]}},{"name":"b","type":["null","m.In"]}]}',
        ),
    ],
)
def test_a_schema_is_stored_as_avros_java_library_writes_it(schema, text):
    assert stored(schema) == text
    assert stored(json.loads(text)) == text


@settings(max_examples=60)
@given(schemas())
def test_the_stored_text_is_the_same_schema_for_other_parsers(schema):
    try:
        text = stored(schema)
    except SchemaInvalid:
        return
    assert stored(json.loads(text)) == text
    with warnings.catch_warnings(action="ignore"):
        assert avro.schema.parse(text).canonical_form == avro.schema.parse(json.dumps(schema)).canonical_form
    parse_schema(json.loads(text))


BAD = {
    "a field twice": (record(field("x", "int"), field("x", "int")), "/fields/1"),
    "a name twice": (record(field("x", IN), field("y", IN)), "/fields/1/type"),
    "a union in a union": (["int", ["string"]], "/1"),
    "a type twice in a union": (["int", {"type": "int"}], "/1"),
    "two arrays in a union": ([{"type": "array", "items": "int"}, {"type": "array", "items": "string"}], "/1"),
    "a name that starts with a digit": (record(name="1x"), "/"),
    "a name that is not ASCII": (record(name="Ä"), "/"),
    "no name": ({"type": "record", "fields": []}, "/"),
    "a field's name with a dash": (record(field("a-b", "int")), "/fields/0"),
    "an empty part of a namespace": (record(namespace="a..b"), "/"),
    "a namespace that is no text": (record(namespace=5), "/"),
    "a primitive's name": (record(name="int"), "/"),
    "a symbol twice": (enum(symbols=["A", "A"]), "/symbols"),
    "a symbol with a space": (enum(symbols=["A", "a b"]), "/symbols/1"),
    "symbols that are no list": (enum(symbols="AB"), "/"),
    "an enum's default that is no symbol": (enum(default="C"), "/default"),
    "a size below zero": ({"type": "fixed", "name": "F", "size": -1}, "/"),
    "a size that is true": ({"type": "fixed", "name": "F", "size": True}, "/"),
    "no items": ({"type": "array"}, "/"),
    "no values": ({"type": "map"}, "/"),
    "no fields": ({"type": "record", "name": "R"}, "/"),
    "a field that is no object": ({"type": "record", "name": "R", "fields": ["a"]}, "/fields/0"),
    "a field without a type": ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "/fields/0"),
    "an unknown order": (record(field("x", "int", order="up")), "/fields/0"),
    "aliases that are no list": (record(aliases="a"), "/aliases"),
    "an alias that is no name": (record(aliases=["a b"]), "/aliases"),
    "an unknown type": (record(field("x", "Foo")), "/fields/0/type"),
    "a name used before it is defined": (record(field("x", "In"), field("y", IN)), "/fields/0/type"),
    "a record alone by its type's name": ("record", "/"),
    "a type that is an object": ({"type": {"type": "string"}}, "/"),
    "a number": (5, "/"),
    "null": (None, "/"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_the_specification_forbids_is_refused_with_its_place(name):
    schema, place = BAD[name]
    with pytest.raises(SchemaInvalid, match=f"^The Avro schema is invalid at {place}: "):
        stored(schema)


DEFAULTS = [
    ("null", [None], [0, "null"]),
    ("boolean", [True], [0, "true", None]),
    ("int", [0, -(2**31), 2**31 - 1], [2**31, 1.5, True, "1"]),
    ("long", [2**63 - 1], [2**63, 0.5]),
    ("float", [1, 1.5], ["1.5", True]),
    ("double", [1, 1e300], [None]),
    ("string", ["", "ü"], [1, None]),
    ("bytes", ["\u00ff"], ["\u0100", 1]),
    ({"type": "fixed", "name": "F", "size": 2}, ["ab"], ["a", "abc", "a\u0100"]),
    (enum(), ["A"], ["C", 0]),
    ({"type": "array", "items": "int"}, [[], [1, 2]], [{}, ["a"], None]),
    ({"type": "map", "values": "int"}, [{}, {"a": 1}], [[], {"a": "b"}]),
    (IN, [{"x": 1}], [{}, {"x": "a"}, []]),
    (record(field("x", "int", default=1), name="In"), [{}, {"x": 2}], [{"x": None}]),
    (["null", "string"], [None, "a"], [1]),
    (["string", "null"], [None, "a"], [1]),
]


@pytest.mark.parametrize(("kind", "good", "bad"), DEFAULTS)
def test_a_default_must_be_a_value_of_its_type(kind, good, bad):
    for default in good:
        stored(record(field("a", kind, default=default)))
    for default in bad:
        schema = record(field("a", kind, default=default))
        with pytest.raises(SchemaInvalid, match=r"at /fields/0/default: the default of field 'a'"):
            stored(schema)
        assert stored(schema, strict=False), "what is already stored stays readable"


def test_a_default_that_would_never_end_is_none():
    with pytest.raises(SchemaInvalid, match="/fields/0/default"):
        stored(record(field("next", "R", default={})))
    assert stored(record(field("next", ["null", "R"], default={"next": None})))


def test_attributes_in_another_order_are_the_same_schema_and_a_doc_makes_another():
    one = parse("AVRO", '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"int"}}]}')
    same = parse("AVRO", '{ "fields" : [{"type":"int","name":"a"}], "name":"R", "type":"record" }')
    other = parse("AVRO", '{"type":"record","name":"R","doc":"","fields":[{"name":"a","type":"int"}]}')
    assert one.identity == same.identity != other.identity


def test_the_normal_form_has_full_names_and_sorted_properties_and_stays_as_it_is():
    schema = {"z": {"b": 1, "a": 2}, "a": 1, **record(field("x", IN), field("y", "In"), namespace="n", doc="d")}
    normal = normalized(parse("AVRO", json.dumps(schema)))
    assert normal.text == (
        '{"name":"n.R","type":"record","fields":[{"name":"x","type":{"name":"n.In","type":"record","fields":'
        '[{"name":"x","type":"int","order":"ascending"}]},"order":"ascending"},{"name":"y","type":"n.In","order":'
        '"ascending"}],"doc":"d","a":1,"z":{"a":2,"b":1}}'
    )
    assert normalized(parse("AVRO", normal.text)).text == normal.text


class TestReferences:
    ADDRESS = Referenced("n.Address", "address", 3, json.dumps(record(name="Address", namespace="n")))
    PERSON = Referenced(
        "n.Person", "person", 1, json.dumps(record(field("at", "Address"), name="Person", namespace="n"))
    )

    def test_names_of_referenced_schemas_are_known_and_are_not_written_out(self):
        schema = record(field("who", "n.Person"), field("at", ["null", "Address"]), namespace="n")
        assert stored(schema, self.ADDRESS, self.PERSON) == (
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"who","type":"Person"},'
            '{"name":"at","type":["null","Address"]}]}'
        )

    def test_without_the_reference_the_name_is_unknown(self):
        with pytest.raises(SchemaInvalid, match=r"/fields/0/type: type 'n.Person' is not defined"):
            stored(record(field("who", "n.Person")))

    def test_the_same_text_with_another_reference_is_another_schema(self):
        text = json.dumps(record(field("at", "n.Address")))
        newer = Referenced("n.Address", "address", 4, self.ADDRESS.text)
        one, other = (parse("AVRO", text, [each]) for each in (self.ADDRESS, newer))
        assert one.text == other.text
        assert one.identity != other.identity

    def test_a_referenced_name_must_not_be_defined_again(self):
        with pytest.raises(SchemaInvalid, match=r"type 'n.Address' is defined twice"):
            stored(record(field("at", record(name="Address", namespace="n"))), self.ADDRESS)

    def test_a_reference_that_does_not_parse_is_named(self):
        broken = Referenced("n.X", "x", 7, '{"type":"record"}')
        with pytest.raises(SchemaInvalid, match=r"The reference 'n.X', version 7 of subject 'x', does not fit"):
            stored("int", broken)

    def test_a_reference_must_be_of_the_same_type(self):
        with pytest.raises(SchemaInvalid, match="which is a schema of type JSON"):
            stored("int", Referenced("x", "x", 1, "{}", kind="JSON"))

    def test_the_normal_form_does_not_write_references_out(self):
        parsed = parse("AVRO", json.dumps(record(field("at", "n.Address"))), [self.ADDRESS])
        assert '"type":"n.Address"' in normalized(parsed).text


@pytest.mark.parametrize("name", ["a name used before it is defined", "an unknown type", "a name twice"])
def test_the_judges_refuse_it_too(name):
    schema, _ = BAD[name]
    with pytest.raises(avro.errors.AvroException):
        avro.schema.parse(json.dumps(schema))
    with pytest.raises((SchemaParseException, UnknownType)):
        parse_schema(schema)
