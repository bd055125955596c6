"""Changes of Protobuf messages: a table of rules, and the promise behind them, with Protobuf as the judge."""

from __future__ import annotations

import pytest
from google.protobuf import message_factory
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.registry import compatibility
from backend.registry.formats.schema_types import Parsed, Referenced, parse


def schema(body, *, syntax="proto3", package="p", references=()):
    imports = "".join(f'import "{each.name}";' for each in references)
    return parse("PROTOBUF", f'syntax = "{syntax}"; package {package}; {imports} {body}', references)


def rules(new, old, **more):
    """Return the broken rules (for BACKWARD, for FORWARD): the reader is the new schema, then the old one."""
    after, before = (each if isinstance(each, Parsed) else schema(each, **more) for each in (new, old))
    return tuple(
        [problem.split(":")[0] for problem in compatibility.problems(level, after, [before])]
        for level in ("BACKWARD", "FORWARD")
    )


M = "message M {{ {} }}".format
EMPTY = "message N {} message O {}"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(M("int32 a = 1; string b = 2;"), M("int32 a = 1;"), id="a field is added"),
        pytest.param(M("int32 z = 1;"), M("int32 a = 1;"), id="a field has another name"),
        pytest.param(M("int64 a = 1;"), M("int32 a = 1;"), id="varints"),
        pytest.param(M("bool a = 1;"), M("E a = 1;") + "enum E { X = 0; }", id="an enum is a varint"),
        pytest.param(M("sfixed32 a = 1;"), M("fixed32 a = 1;"), id="32 bits"),
        pytest.param(M("repeated string a = 1;"), M("string a = 1;"), id="text may be repeated"),
        pytest.param(M("optional int32 a = 1;"), M("int32 a = 1;"), id="presence"),
        pytest.param(
            M("int32 a = 1;") + "message N {}", M("int32 a = 1;") + "message N { int32 x = 1; }", id="a field goes"
        ),
        pytest.param(
            "message N {} " + M("N a = 1;"), M("N a = 1;") + "message N {}", id="messages in another order"
        ),
        pytest.param(M("oneof o { int32 a = 1; }"), M("int32 a = 1;"), id="one field moves into a new oneof"),
        pytest.param(M("int32 a = 1; int32 b = 2;"), M("int32 b = 2; int32 a = 1;"), id="fields in another order"),
        pytest.param(
            M("oneof p { int32 a = 1; string b = 2; }"),
            M("oneof o { int32 a = 1; string b = 2; }"),
            id="oneof's name",
        ),
        pytest.param(M("map<int32, int64> a = 1;"), M("map<int32, int32> a = 1;"), id="a map's values"),
        pytest.param(
            M("int32 a = 1;") + "enum E { X = 0; Y = 1; }", M("int32 a = 1;") + "enum E { X = 0; }", id="constants"
        ),
        pytest.param(M("M next = 1; int32 a = 2;"), M("M next = 1;"), id="rings"),
        pytest.param(M("int32 a = 1;") + "service S { rpc R (M) returns (M); }", M("int32 a = 1;"), id="services"),
    ],
)
def test_compatible_both_ways(new, old):
    assert rules(new, old) == ([], [])


@pytest.mark.parametrize(
    ("new", "old", "backward", "forward"),
    [
        (M("string a = 1;"), M("int32 a = 1;"), "FIELD_SCALAR_KIND_CHANGED at /M/1", "same"),
        (M("sint32 a = 1;"), M("int32 a = 1;"), "FIELD_SCALAR_KIND_CHANGED at /M/1", "same"),
        (M("fixed64 a = 1;"), M("fixed32 a = 1;"), "FIELD_SCALAR_KIND_CHANGED at /M/1", "same"),
        (M("double a = 1;"), M("float a = 1;"), "FIELD_SCALAR_KIND_CHANGED at /M/1", "same"),
        # Bytes that are no UTF-8 cannot be read as a string; a string is always bytes.
        (M("string a = 1;"), M("bytes a = 1;"), "FIELD_SCALAR_KIND_CHANGED at /M/1", None),
        (M("M a = 1;"), M("int32 a = 1;"), "FIELD_KIND_CHANGED at /M/1", "same"),
        (M("map<int32, M> a = 1;"), M("repeated M a = 1;"), "FIELD_KIND_CHANGED at /M/1", "same"),
        (M("map<int32, M> a = 1;"), M("map<string, M> a = 1;"), "FIELD_SCALAR_KIND_CHANGED at /M/1/key", "same"),
        (M("map<int32, M> a = 1;"), M("map<int32, int32> a = 1;"), "FIELD_KIND_CHANGED at /M/1/value", "same"),
        (M("repeated int32 a = 1;"), M("int32 a = 1;"), "FIELD_NUMERIC_LABEL_CHANGED at /M/1", "same"),
        (M("N a = 1;") + EMPTY, M("O a = 1;") + EMPTY, "FIELD_NAMED_TYPE_CHANGED at /M/1", "same"),
        (M("int32 a = 1;"), M("int32 a = 1;") + "message N {}", "MESSAGE_REMOVED at /N", None),
        (
            M("int32 a = 1;"),
            M("int32 a = 1; message In { message Deep {} }"),
            ["MESSAGE_REMOVED at /M.In", "MESSAGE_REMOVED at /M.In.Deep"],
            None,
        ),
        (
            M("oneof o { int32 a = 1; int32 b = 2; }"),
            M("int32 a = 1; int32 b = 2;"),
            "MULTIPLE_FIELDS_MOVED_TO_ONEOF at /M/o",
            None,
        ),
        (
            M("oneof o { int32 a = 1; int32 b = 2; }"),
            M("oneof o { int32 a = 1; } int32 b = 2;"),
            "FIELD_MOVED_TO_EXISTING_ONEOF at /M/o",
            None,
        ),
        (
            M("oneof o { int32 a = 1; int32 b = 2; }"),
            M("oneof o { int32 a = 1; } oneof q { int32 b = 2; }"),
            "FIELD_MOVED_TO_EXISTING_ONEOF at /M/o",
            None,
        ),
        (
            M("oneof o { int32 a = 1; }"),
            M("oneof o { int32 a = 1; int32 b = 2; }"),
            "ONEOF_FIELD_REMOVED at /M/2",
            None,
        ),
        (M("int32 a = 1;"), M("oneof o { int32 a = 1; int32 b = 2; }"), "ONEOF_FIELD_REMOVED at /M/2", None),
        (M("int32 c = 3;"), M("int32 c = 3; oneof o { int32 a = 1; int32 b = 2; }"), None, None),
        (
            M("In a = 1; message In { string x = 1; }"),
            M("In a = 1; message In { int32 x = 1; }"),
            "FIELD_SCALAR_KIND_CHANGED at /M.In/1",
            "same",
        ),
    ],
)
def test_a_change_breaks_who_reads_what_it_does_not_know(new, old, backward, forward):
    expected = [backward] if isinstance(backward, str) else backward or []
    assert rules(new, old) == (expected, expected if forward == "same" else [])


@pytest.mark.parametrize(
    ("new", "old", "backward", "forward"),
    [
        (M("required int32 a = 1;"), M("optional int32 a = 1;"), "FIELD_BECAME_REQUIRED at /M/1", None),
        (M("required int32 a = 1;"), M(""), "REQUIRED_FIELD_ADDED at /M/1", "REQUIRED_FIELD_REMOVED at /M/1"),
        (
            M("optional group G = 1 {}"),
            M("optional G a = 1; message G {}"),
            "FIELD_KIND_CHANGED at /M/1",
            "FIELD_KIND_CHANGED at /M/1",
        ),
        (M("optional int32 a = 1 [default = 5];"), M("optional int32 a = 1;"), None, None),
    ],
)
def test_rules_of_proto2(new, old, backward, forward):
    expected = tuple([rule] if rule else [] for rule in (backward, forward))
    assert rules(new, old, syntax="proto2") == expected


def test_editions_have_the_same_rules():
    def edition(field):
        return parse("PROTOBUF", f'edition = "2023"; package p; message M {{ {field}; }}')

    required, delimited = "features.field_presence = LEGACY_REQUIRED", "features.message_encoding = DELIMITED"
    assert rules(edition(f"int32 a = 1 [{required}]"), edition("int32 a = 1"))[0] == [
        "FIELD_BECAME_REQUIRED at /M/1"
    ]
    assert rules(edition(f"M a = 1 [{delimited}]"), edition("M a = 1"))[0] == ["FIELD_KIND_CHANGED at /M/1"]


def test_another_package_is_another_schema():
    assert rules(schema(M(""), package="p"), schema(M(""), package="q"))[0] == ["PACKAGE_CHANGED at /"]


def test_a_change_in_a_reference_is_found_through_the_fields_that_use_it():
    def importing(kind, version):
        text = f'syntax = "proto3"; package r; message R {{ {kind} a = 1; }} message Unused {{ {kind} a = 1; }}'
        return schema(M("r.R a = 1;"), references=[Referenced("r.proto", "r", version, text, kind="PROTOBUF")])

    assert rules(importing("int64", 2), importing("int32", 1)) == ([], [])
    assert rules(importing("string", 2), importing("int32", 1))[0] == ["FIELD_SCALAR_KIND_CHANGED at /R/1"]


def test_the_message_says_what_changed():
    (found,) = compatibility.problems("BACKWARD", schema(M("string a = 1;")), [schema(M("int32 a = 1;"))])
    assert found == "FIELD_SCALAR_KIND_CHANGED at /M/1: the new schema has string, the earlier schema int32"


SCALARS = [
    *("int32", "int64", "uint32", "uint64", "bool", "sint32", "sint64", "fixed32", "sfixed64", "float", "double"),
    *("string", "bytes", "E"),
]


@st.composite
def messages(draw, syntax):
    """The fields of message M: number -> (label, type, oneof)."""
    labels = ["", "optional ", "repeated "] if syntax == "proto3" else ["optional ", "required ", "repeated "]
    kinds = [*SCALARS, "N", "M", "map<int32, string>", "map<int32, int32>", "map<string, N>"]
    fields = {}
    for number in draw(st.sets(st.integers(1, 5))):
        kind = draw(st.sampled_from(kinds))
        plain = kind.startswith("map") or kind == "M"
        oneof = None if plain else draw(st.sampled_from([None, None, "o", "q"]))
        optional = "" if syntax == "proto3" or kind.startswith("map") else "optional "
        label = "" if oneof else optional if plain else draw(st.sampled_from(labels))
        fields[number] = label, kind, oneof
    return fields


def text_of(fields, syntax, inner):
    lines = [
        f"{label}{kind} f{number} = {number};" for number, (label, kind, oneof) in fields.items() if not oneof
    ]
    for name in ("o", "q"):
        members = [f"{kind} f{number} = {number};" for number, (_, kind, oneof) in fields.items() if oneof == name]
        lines += [f"oneof {name} {{ {' '.join(members)} }}"] if members else []
    label = "optional " if syntax == "proto2" else ""
    return schema(
        f"{M(' '.join(lines))} message N {{ {label}{inner} x = 1; }} enum E {{ A = 0; B = 1; }}", syntax=syntax
    )


VALUES = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "bool": st.booleans(),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=3),
    "bytes": st.binary(max_size=3),
    "E": st.sampled_from([0, 1]),
}
VALUES |= {
    "sint32": VALUES["int32"],
    "sint64": VALUES["int64"],
    "fixed32": VALUES["uint32"],
    "sfixed64": VALUES["int64"],
}


def filled(draw, message, fields, inner, closed):
    """Sets every field, or for a oneof one after the other; of M within M only what is required.

    Fields in `closed` get only what enum E has a constant for: which ones there are is not compared.
    """

    def value_of(number, kind):
        return draw.draw(VALUES["E" if number in closed else kind])

    for number, (label, kind, _) in fields.items():
        name, many = f"f{number}", range(2 if label == "repeated " else 1)
        if kind == "M":
            getattr(message, name).SetInParent()
            for required, (its_label, its_kind, _) in fields.items():
                if its_label == "required " and its_kind in VALUES:
                    setattr(getattr(message, name), f"f{required}", value_of(required, its_kind))
        elif kind == "N":
            for _ in many:
                into = getattr(message, name).add() if label == "repeated " else getattr(message, name)
                into.x = draw.draw(VALUES[inner])
        elif kind == "map<string, N>":
            getattr(message, name)["k"].x = draw.draw(VALUES[inner])
        elif kind.startswith("map"):
            getattr(message, name)[1] = "v" if "string" in kind else 7
        elif label == "repeated ":
            getattr(message, name).extend(value_of(number, kind) for _ in many)
        else:
            setattr(message, name, value_of(number, kind))


def unread(message: Message):
    """Numbers that the message's type has, but whose data it could not take; within others, too."""
    numbers = set(message.DESCRIPTOR.fields_by_number)
    found = [each.field_number for each in UnknownFieldSet(message) if each.field_number in numbers]
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            nested = [each for each in value.values() if isinstance(each, Message)]
        else:
            nested = (value if field.is_repeated else [value]) if field.message_type is not None else []
        found += [number for each in nested for number in unread(each)]
    return found


@settings(max_examples=120)
@given(draw=st.data(), syntax=st.sampled_from(["proto2", "proto3"]))
def test_whatever_is_called_compatible_reads_all_that_the_other_schema_writes(draw, syntax):
    old = draw.draw(messages(syntax))
    new = {**old, **draw.draw(messages(syntax))} if draw.draw(st.booleans()) else dict(old)
    for number in draw.draw(st.sets(st.sampled_from(sorted(new) or [0]), max_size=2)):
        if draw.draw(st.booleans()):
            new.pop(number, None)
        elif number in new and new[number][1] in SCALARS and not new[number][2]:
            new[number] = new[number][0], draw.draw(st.sampled_from(SCALARS)), None
    inner_old, inner_new = (draw.draw(st.sampled_from(["int32", "int32", "int64", "string"])) for _ in range(2))
    before, after = text_of(old, syntax, inner_old), text_of(new, syntax, inner_new)
    for level, writer, fields, inner, reader in (
        ("BACKWARD", before, old, inner_old, after),
        ("FORWARD", after, new, inner_new, before),
    ):
        if compatibility.problems(level, after, [before]):
            continue
        theirs, ours = (each.tree.message_types_by_name["M"] for each in (writer, reader))
        written = message_factory.GetMessageClass(theirs)()
        # proto2's enums are closed: what has no constant there is read as an unknown field.
        numbers = ours.fields_by_number.items() if syntax == "proto2" else ()
        filled(draw, written, fields, inner, {number for number, field in numbers if field.enum_type is not None})
        read = message_factory.GetMessageClass(ours)()
        read.ParseFromString(written.SerializePartialToString())
        assert unread(read) == []
        assert read.IsInitialized() or not written.IsInitialized()
        told = {field.number for field, _ in written.ListFields() if field.has_presence}
        if syntax == "proto2":
            assert told & set(ours.fields_by_number) <= {field.number for field, _ in read.ListFields()}
