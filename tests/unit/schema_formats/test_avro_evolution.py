"""The promise behind a compatibility level: what was written can be read.

Judges are fastavro, which reads, and the checker of the `avro` package, but not its reader: that knows no aliases,
and no bytes that are read as a string.
"""

from __future__ import annotations

import copy
import io
import json
import warnings
from typing import Any

import avro.schema
import fastavro
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.registry import compatibility
from backend.registry.formats.schema_model import Parsed
from tests.unit.schema_formats.avro_generation import (
    DEFAULTS,
    PRIMITIVES,
    WIDER,
    changed,
    data,
    fields,
    nodes,
    parsed,
    schemas,
)


def _read(writer: Parsed, reader: Parsed, datum: Any) -> None:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(json.loads(writer.text)), datum)
    written.seek(0)
    fastavro.schemaless_reader(
        written, fastavro.parse_schema(json.loads(writer.text)), fastavro.parse_schema(json.loads(reader.text))
    )


@settings(max_examples=150)
@given(st.data())
def test_whatever_is_called_compatible_reads_all_that_the_other_schema_writes(draw):
    old = draw.draw(schemas())
    new = draw.draw(changed(old))
    before, after = parsed(old), parsed(new)
    for writer, reader, level in ((before, after, "BACKWARD"), (after, before, "FORWARD")):
        if compatibility.problems(level, after, [before]):
            continue
        for _ in range(3):
            _read(writer, reader, data(draw.draw, writer.tree))


@settings(max_examples=150)
@given(st.data())
def test_the_answer_is_that_of_the_avro_package_where_that_is_right(draw):
    old = draw.draw(schemas())
    before, after = parsed(old), parsed(draw.draw(changed(old)))
    with warnings.catch_warnings(action="ignore"):
        judged = ReaderWriterCompatibilityChecker().get_compatibility(
            avro.schema.parse(after.text), avro.schema.parse(before.text)
        )
    compatible = not compatibility.problems("BACKWARD", after, [before])
    assert compatible is (judged.compatibility is SchemaCompatibilityType.compatible)


def _plain(schema):
    return [field for field in fields(schema) if field["type"] in PRIMITIVES]


def _add_without_default(draw, schema):
    record = draw.draw(st.sampled_from([node for node in nodes(schema) if "fields" in node]))
    record["fields"].append({"name": "added", "type": draw.draw(st.sampled_from(PRIMITIVES))})


def _add_with_default(draw, schema):
    _add_without_default(draw, schema)
    for field in fields(schema):
        if field["name"] == "added":
            field["default"] = DEFAULTS[field["type"]]


def _widen(draw, schema):
    able = [field for field in _plain(schema) if field["type"] in WIDER]
    field = draw.draw(st.sampled_from(able))
    field["type"] = WIDER[field["type"]]
    field.pop("default", None)


def _narrow(draw, schema):
    able = [field for field in _plain(schema) if field["type"] in ("long", "float", "double")]
    field = draw.draw(st.sampled_from(able))
    field["type"] = "int"
    field.pop("default", None)


def _make_optional(draw, schema):
    able = [field for field in _plain(schema) if field["type"] != "null"]
    field = draw.draw(st.sampled_from(able))
    field["type"] = ["null", field["type"]]
    field.pop("default", None)


def _lose_a_symbol(draw, schema):
    able = [node for node in nodes(schema) if node["type"] == "enum" and "default" not in node]
    draw.draw(st.sampled_from(able))["symbols"] = ["D"]


def _rename_the_record(draw, schema):
    schema["name"] = "Other"
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "next"]


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        (_add_with_default, None),
        (_widen, None),
        (_make_optional, None),
        (_add_without_default, "READER_FIELD_MISSING_DEFAULT_VALUE"),
        (_narrow, "TYPE_MISMATCH"),
        (_lose_a_symbol, "MISSING_ENUM_SYMBOLS"),
        (_rename_the_record, "NAME_MISMATCH"),
    ],
)
@settings(max_examples=40)
@given(draw=st.data())
def test_a_single_step_is_taken_or_refused_wherever_it_is_made(step, rule, draw):
    old = draw.draw(schemas())
    # Whatever was drawn, there is a place for each step.
    old["fields"] += [
        {"name": "plain", "type": "long"},
        {"name": "listed", "type": {"type": "enum", "name": "Listed", "symbols": ["A", "D"]}},
    ]
    new = copy.deepcopy(old)
    step(draw, new)
    before, after = parsed(old), parsed(new)
    rules = {problem.split(" at ")[0] for problem in compatibility.problems("BACKWARD", after, [before])}
    # Within a union, a type that does not match is a branch that is missing.
    assert bool(rules) is bool(rule)
    assert rules <= {rule, "MISSING_UNION_BRANCH"}
