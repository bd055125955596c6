"""Levels: who is checked against whom; the checks themselves have their own modules."""

from __future__ import annotations

import json

import pytest

from backend.registry.compatibility import LevelNotSupported, levels_of, problems
from backend.registry.formats.schema_types import Referenced, parse
from backend.registry.known_settings import LEVELS


def avro(*names, required=()):
    fields = [{"name": name, "type": "int", **({} if name in required else {"default": 0})} for name in names]
    return parse("AVRO", json.dumps({"type": "record", "name": "R", "fields": fields}))


BOTH, PLUS, PLAIN = avro("a", "b", required="b"), avro("a", "c", required="c"), avro("a")
JSON_SCHEMAS = [parse("JSON", json.dumps({"type": kind})) for kind in ("string", "integer")]
FIRST, SECOND = (
    parse("PROTOBUF", f'syntax = "proto3"; message M {{ {kind} a = 1; }}') for kind in ("int32", "string")
)


@pytest.mark.parametrize(
    ("level", "new", "previous", "compatible"),
    [
        # PLAIN reads everything; it lacks what BOTH and PLUS require.
        ("BACKWARD", PLAIN, [BOTH], True),
        ("FORWARD", PLAIN, [BOTH], False),
        ("FULL", PLAIN, [BOTH], False),
        ("BACKWARD", BOTH, [PLAIN], False),
        ("FORWARD", BOTH, [PLAIN], True),
        ("FULL", BOTH, [PLAIN], False),
        ("FULL", avro("a", "d"), [PLAIN], True),
        # Against the last one, or against all.
        ("BACKWARD", BOTH, [PLAIN, avro("a", "b")], True),
        ("BACKWARD_TRANSITIVE", BOTH, [PLAIN, avro("a", "b")], False),
        ("FORWARD", PLUS, [BOTH, PLAIN], True),
        ("FORWARD_TRANSITIVE", PLUS, [BOTH, PLAIN], False),
        ("FULL", avro("a", "d"), [BOTH, PLAIN], True),
        ("FULL_TRANSITIVE", avro("a", "d"), [BOTH, PLAIN], False),
        ("NONE", BOTH, [PLUS], True),
        *((level, BOTH, [], True) for level in LEVELS),
        *((level, BOTH, [BOTH], True) for level in LEVELS),
    ],
)
def test_a_level_says_who_must_read_whom(level, new, previous, compatible):
    assert (problems(level, new, previous) == []) is compatible


def test_problems_name_the_earlier_schema_newest_first():
    found = problems("BACKWARD_TRANSITIVE", BOTH, [PLAIN, avro("a", "b"), PLUS])
    assert [problem.partition(" and ")[2] for problem in found] == [
        "the earlier schema 3 of 3 no such field",
        "the earlier schema 1 of 3 no such field",
    ]


def test_forward_problems_say_which_schema_reads():
    (found,) = problems("FORWARD", PLAIN, [BOTH])
    assert found == (
        "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1: field 'b' of the earlier schema has no default and "
        "the new schema no such field"
    )


@pytest.mark.parametrize("level", LEVELS[1:])
def test_a_schema_of_another_type_is_incompatible_at_every_level_but_none(level):
    assert problems(level, FIRST, [PLAIN])[0].startswith("SCHEMA_TYPE_CHANGED at /")
    assert problems(level, JSON_SCHEMAS[0], [PLAIN])[0].startswith("SCHEMA_TYPE_CHANGED at /")
    assert problems("NONE", FIRST, [PLAIN]) == []


@pytest.mark.parametrize("level", LEVELS[1:])
def test_what_cannot_be_checked_is_refused_and_not_taken_for_compatible(level):
    with pytest.raises(LevelNotSupported, match=rf"level {level} .* type JSON.*Supported levels: NONE"):
        problems(level, JSON_SCHEMAS[0], [JSON_SCHEMAS[1]])


@pytest.mark.parametrize("level", LEVELS)
def test_where_there_is_nothing_to_check_no_level_is_refused(level):
    assert problems(level, JSON_SCHEMAS[0], []) == []
    assert problems(level, JSON_SCHEMAS[0], [JSON_SCHEMAS[0]]) == []


def test_each_type_has_its_levels():
    assert levels_of("AVRO") == levels_of("PROTOBUF") == LEVELS
    assert levels_of("JSON") == ("NONE",)


@pytest.mark.parametrize("level", LEVELS[1:])
def test_protobuf_is_checked_at_every_level(level):
    assert problems(level, SECOND, [FIRST])[0].startswith("FIELD_SCALAR_KIND_CHANGED at /M/1: ")


def test_the_same_text_with_a_changed_reference_is_checked():
    old, new = (
        Referenced("Inner", "inner", version, json.dumps({"type": "enum", "name": "Inner", "symbols": symbols}))
        for version, symbols in ((1, ["A", "B"]), (2, ["A"]))
    )
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "Inner"}]})
    (found,) = problems("BACKWARD", parse("AVRO", text, [new]), [parse("AVRO", text, [old])])
    assert found.startswith("MISSING_ENUM_SYMBOLS at /fields/0/type/symbols")


def test_an_unknown_level_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="unknown compatibility level 'SIDEWAYS'"):
        problems("SIDEWAYS", PLAIN, [])


def test_a_flood_of_problems_is_cut():
    many = avro(*(f"f{n}" for n in range(1000)), required=[f"f{n}" for n in range(1000)])
    found = problems("BACKWARD", many, [PLAIN])
    assert len(found) == 101
    assert found[-1] == "and 900 more problems"
