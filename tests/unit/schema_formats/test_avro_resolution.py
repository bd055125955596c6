"""The rules of Avro 1.12, "Schema Resolution", one line each."""

from __future__ import annotations

import json

import pytest

from backend.registry import compatibility
from backend.registry.formats import schema_types


def record(*fields, name="R", **more):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{i}", "type": t} for i, t in enumerate(fields)],
        **more,
    }


def enum(*symbols, name="E", **more):
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size, name="F", **more):
    return {"type": "fixed", "name": name, "size": size, **more}


def decimal(precision, scale):
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def array(items):
    return {"type": "array", "items": items}


def mapping(values):
    return {"type": "map", "values": values}


def field(name, kind, **more):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind, **more}]}


def chain(last, length=500):
    """Records, each with a field of the one before, none within another: a walk that recursed would go as deep."""
    first = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": last}]}
    later = [
        {"type": "record", "name": f"R{n}", "fields": [{"name": "x", "type": f"R{n - 1}"}]}
        for n in range(1, length)
    ]
    return [first, *later]


def problems(reader, writer):
    """Return the problems of BACKWARD, whose reader is the new schema."""
    new, old = (schema_types.parse("AVRO", json.dumps(each)) for each in (reader, writer))
    return compatibility.problems("BACKWARD", new, [old])


LINKED = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"], "default": None}]}
VALUED = {**LINKED, "fields": [*LINKED["fields"], {"name": "v", "type": "long"}]}
NARROW = {**LINKED, "fields": [*LINKED["fields"], {"name": "v", "type": "int"}]}


@pytest.mark.parametrize("kind", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
def test_a_primitive_reads_itself_and_what_is_promoted_to_it_and_nothing_else(kind):
    promoted = {
        "long": {"int"},
        "float": {"int", "long"},
        "double": {"int", "long", "float"},
        "bytes": {"string"},
        "string": {"bytes"},
    }
    others = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
    read = {other for other in others if not problems(kind, other)}
    assert read == {kind} | promoted.get(kind, set())


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        pytest.param(
            {"type": "array", "items": "long"}, {"type": "array", "items": "int"}, id="items are promoted"
        ),
        pytest.param(
            {"type": "map", "values": "long"}, {"type": "map", "values": "int"}, id="values are promoted"
        ),
        pytest.param(record("int"), record("int", "string"), id="a field of the writer's is ignored"),
        pytest.param(field("a", "int", default=1), record(), id="a field with a default may be missing"),
        pytest.param(field("a", "int", aliases=["old"]), field("old", "int"), id="a field is known by its alias"),
        pytest.param(record(namespace="b"), record(namespace="a"), id="namespaces do not count"),
        pytest.param(record(name="New", aliases=["R"]), record(), id="a record is known by its alias"),
        pytest.param(
            record(name="New", namespace="a.b", aliases=["Old"]),
            record(name="Old", namespace="a.b"),
            id="an alias is in the namespace of its type",
        ),
        pytest.param(
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "b", "type": "int"}, {"name": "a", "type": "int"}],
            },
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}],
            },
            id="the order of fields does not count",
        ),
        pytest.param(enum("A", "B"), enum("A"), id="symbols may be added"),
        pytest.param(enum("A", default="A"), enum("A", "B"), id="an enum's default stands for unknown symbols"),
        pytest.param(fixed(4, namespace="x"), fixed(4), id="fixed of one size"),
        pytest.param(["null", "int"], "int", id="a union reads what a branch reads"),
        pytest.param(["null", "long"], "int", id="a branch may promote"),
        pytest.param("long", ["int", "long"], id="one type reads all branches of the writer"),
        pytest.param(["string", "null", "int"], ["null", "int"], id="branches may be added and moved"),
        pytest.param(["null", record("long")], ["null", record("int")], id="records in unions"),
        pytest.param(["null", record(name="New", aliases=["R"])], record(), id="an alias within a union"),
        pytest.param(
            [fixed(1, namespace="a"), fixed(2, namespace="b")], fixed(2, namespace="c"), id="fixed by size"
        ),
        pytest.param(VALUED, NARROW, id="rings"),
        pytest.param(chain("long"), chain("int"), id="long chains"),
        pytest.param({"type": "error", "name": "R", "fields": []}, record(), id="an error is a record"),
        pytest.param(decimal(6, 2), decimal(4, 2), id="decimals with more digits"),
        pytest.param({"type": "bytes"}, decimal(4, 2), id="decimals as bytes"),
        pytest.param({"type": "long", "logicalType": "zonk"}, "long", id="unknown logical types do not count"),
    ],
)
def test_can_be_read(reader, writer):
    assert problems(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "problem"),
    [
        (field("a", "int"), record(), "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/0: field 'a'"),
        (
            record("int"),
            record("long"),
            "TYPE_MISMATCH at /fields/0/type: the new schema has int, which cannot read long",
        ),
        (
            record({"type": "array", "items": "int"}),
            record({"type": "map", "values": "int"}),
            "TYPE_MISMATCH at /fields/0/type:",
        ),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, "TYPE_MISMATCH at /items:"),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "TYPE_MISMATCH at /values:"),
        (
            record(name="S"),
            record(),
            "NAME_MISMATCH at /name: the new schema calls it 'S', the earlier schema 'R'",
        ),
        (record(name="S", aliases=["x.R"]), record(), "NAME_MISMATCH at /name:"),
        (record(enum(name="G")), record(enum()), "NAME_MISMATCH at /fields/0/type/name:"),
        (enum("A"), enum("A", "B"), "MISSING_ENUM_SYMBOLS at /symbols: the new schema has no default for B"),
        (fixed(4), fixed(5), "FIXED_SIZE_MISMATCH at /size: the new schema has 4 bytes, the earlier schema 5"),
        (["null", "int"], "string", "MISSING_UNION_BRANCH at /: no branch of the new schema reads string"),
        (
            ["null", "int"],
            ["null", "int", "string"],
            "MISSING_UNION_BRANCH at /: no branch of the new schema reads string",
        ),
        ("int", ["int", "string"], "TYPE_MISMATCH at /: the new schema has int, which cannot read string"),
        (["null", record("int")], ["null", record("string")], "TYPE_MISMATCH at /1/fields/0/type:"),
        # A reader goes for the record of the same name and never tries the other.
        (
            [record("int", namespace="a"), record("string", namespace="b")],
            record("string", namespace="a"),
            "TYPE_MISMATCH at /0/fields/0/type:",
        ),
        (NARROW, VALUED, "TYPE_MISMATCH at /fields/1/type:"),
        (chain("int"), chain("long"), "TYPE_MISMATCH at /0/fields/0/type:"),
        (
            decimal(4, 3),
            decimal(4, 2),
            "TYPE_MISMATCH at /: the new schema has decimals of precision 4 and scale 3",
        ),
        (decimal(3, 2), decimal(4, 2), "TYPE_MISMATCH at /:"),
        (
            fixed(8, logicalType="decimal", precision=10, scale=1),
            fixed(8, logicalType="decimal", precision=10, scale=2),
            "TYPE_MISMATCH at /:",
        ),
    ],
)
def test_cannot_be_read_and_the_problem_says_where(reader, writer, problem):
    found = problems(reader, writer)
    assert found and found[0].startswith(problem)


def test_every_place_is_told_once():
    reader = record("int", "int", {"type": "array", "items": record("int", name="S")}, "S")
    writer = record("string", "int", {"type": "array", "items": record("null", name="S")}, "S")
    places = [problem.split(" at ")[1].split(":")[0] for problem in problems(reader, writer)]
    assert places == ["/fields/0/type", "/fields/2/type/items/fields/0/type"]
