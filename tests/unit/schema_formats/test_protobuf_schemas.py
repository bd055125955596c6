"""Protobuf: texts and descriptors, references, and what makes two of them one schema."""

from __future__ import annotations

import base64
from importlib import resources

import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from confluent_kafka.schema_registry.confluent.types import decimal_pb2 as old_decimal_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.registry.formats.protobuf_schemas import serialized
from backend.registry.formats.schema_types import Referenced, SchemaInvalid, normalized, parse


def reference(name, text):
    return Referenced(name, f"subject of {name}", 1, text, kind="PROTOBUF")


PARTS = reference("parts.proto", 'syntax="proto3"; package r; message R { string some_long_name = 3; }')
EVERYTHING = r"""// A comment.
syntax = "proto2"; package a.b; import "google/protobuf/descriptor.proto"; import public "parts.proto";
option java_package = "x\"y"; option (fo) = { s: "x" n: 5 r: [1, 2] };
message Opt { optional string s = 1; optional int32 n = 2; repeated int32 r = 3; }
extend google.protobuf.FileOptions { optional Opt fo = 50001; repeated string many = 50002; }
extend google.protobuf.FieldOptions {
  optional double d = 50001; optional bytes by = 50002; optional E en = 50003;
}
extend google.protobuf.MethodOptions { optional string h = 50001; }
extend google.protobuf.OneofOptions { optional int32 oo = 50001; }
option (many) = "a"; option (many) = "b";
enum E {
  option allow_alias = true; A = 0; B = -1 [deprecated = true]; C = -1; reserved 5 to 7, 100 to max; reserved "Z";
}
message M {
  option deprecated = true;
  message Inner { optional int32 x = 1 [default = -5]; }
  map<string, Inner> m = 1;
  message Other {
    required string s = 1 [default = "a\"\n\001ü"]; optional bytes b = 2 [default = "\377\"x"];
    optional float f = 3 [default = inf]; optional E e = 4 [default = B]; optional bool t = 5 [default = true];
    optional double g = 6 [default = -1e300];
  }
  optional group Grp = 2 { optional int32 y = 1; repeated group Deep = 2 { optional int32 z = 1; } }
  oneof o {
    option (oo) = 7; int32 p = 3 [(d) = 1.5, (by) = "\001\377", (en) = B];
    group Og = 4 { optional int32 q = 1; } .r.R rr = 5;
  }
  repeated int32 packed = 6 [packed = true, json_name = "pk"];
  extensions 100 to 199, 1000 to max [verification = UNVERIFIED];
  extensions 500 to 510 [declaration = { number: 500, full_name: ".a.b.zz", type: "int32" }];
  reserved 20, 30 to 40; reserved "gone", "away";
  extend M { optional int32 ext = 100; }
  enum N { N0 = 1; }
}
extend M { optional group Ge = 101 { optional int32 a = 1; } repeated string es = 102; }
service S {
  option deprecated = true;
  rpc One (M) returns (stream M) { option (h) = "x"; } rpc Two (stream M) returns (r.R);
  rpc Three (M) returns (M) {}
}
"""
PROTO3 = """syntax = "proto3"; message A {
  optional int32 a = 1; oneof x { string b = 2; A c = 3; } optional A d = 4; repeated int32 e = 5 [packed = false];
  map<int32, A> f_g_h = 6; int32 _u = 7; int32 X_y__z = 8; reserved "gone";
}"""
EDITION_2023 = """edition = "2023"; option features.field_presence = IMPLICIT;
message A {
  int32 a = 1 [features.field_presence = LEGACY_REQUIRED]; A b = 2 [features.message_encoding = DELIMITED];
  string s = 3 [default = "x", features.field_presence = EXPLICIT]; reserved foo;
}
enum E { option features.enum_type = CLOSED; X = 1; }"""
EDITION_2024 = """edition = "2024"; export message A { int32 a = 1; local enum E { X = 0; } } local message B {}"""
META = """syntax = "proto3"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
message A {
  option (confluent.message_meta).doc = "hi";
  confluent.type.Decimal a = 1 [(confluent.field_meta) = { tags: ["PII"], params: { key: "k", value: "v" } }];
}"""
COMMON = """syntax = "proto3"; import "google/type/money.proto"; import "google/protobuf/timestamp.proto";
message A { google.type.Money price = 1; google.protobuf.Timestamp at = 2; }"""


@pytest.mark.parametrize(
    "text",
    [EVERYTHING, PROTO3, EDITION_2023, EDITION_2024, META, COMMON],
    ids=["all", "proto3", "2023", "2024", "meta", "common"],
)
def test_text_descriptor_and_normal_form_say_the_same(text):
    parsed = parse("PROTOBUF", text, [PARTS])
    sent = parse("PROTOBUF", serialized(parsed), [PARTS])
    assert parsed.text == text
    assert sent.identity == parsed.identity == normalized(parsed).identity
    assert sent.text == normalized(parsed).text
    assert normalized(normalized(parsed)).text == normalized(parsed).text
    assert "comment" not in sent.text


@pytest.mark.parametrize("name", ["descriptor", "struct", "api", "type", "wrappers", "compiler/plugin", "any"])
def test_protobufs_own_files_are_written_without_a_loss(name):
    package, _, file = f"google/protobuf/{name}".rpartition("/")
    module = __import__(f"{package.replace('/', '.')}.{file}_pb2", fromlist=["DESCRIPTOR"])
    sent = base64.b64encode(module.DESCRIPTOR.serialized_pb).decode()
    assert FileDescriptorProto.FromString(base64.b64decode(serialized(parse("PROTOBUF", sent)))).message_type


@pytest.mark.parametrize("name", ["money", "datetime", "expr", "calendar_period"])
def test_texts_of_others_are_taken(name):
    text = resources.files("google.type").joinpath(f"{name}.proto").read_text()
    parsed = parse("PROTOBUF", text)
    assert parse("PROTOBUF", serialized(parsed)).identity == parsed.identity


def test_what_clients_import_without_a_reference_is_what_they_know():
    for theirs in (meta_pb2, decimal_pb2, variant_pb2, old_decimal_pb2):
        file = FileDescriptorProto.FromString(theirs.DESCRIPTOR.serialized_pb)
        parsed = parse("PROTOBUF", f'syntax = "proto3"; import "{file.name}"; message Own {{}}')
        pool: DescriptorPool = parsed.tree.pool
        for message in file.message_type:
            ours = pool.FindMessageTypeByName(f"{file.package}.{message.name}")
            assert {(f.name, f.number, f.type) for f in ours.fields} == {
                (f.name, f.number, f.type) for f in message.field
            }
        for extension in file.extension:
            ours = pool.FindExtensionByName(f"{file.package}.{extension.name}")
            assert (ours.number, f".{ours.containing_type.full_name}") == (extension.number, extension.extendee)


def test_spaces_and_comments_do_not_count_but_fields_names_and_references_do():
    def identity(text, *references):
        return parse("PROTOBUF", text, references).identity

    one = identity('syntax="proto3"; message A { int32 a = 1; }')
    assert one == identity('// x\nsyntax = "proto3";\n\nmessage A {\n  int32 a = 1; // y\n}\n')
    assert one != identity('syntax="proto3"; message A { int32 b = 1; }')
    importing = 'syntax="proto3"; import "parts.proto"; message A { r.R a = 1; }'
    newer = Referenced(PARTS.name, PARTS.subject, 2, PARTS.text, kind="PROTOBUF")
    assert identity(importing, PARTS) != identity(importing, newer)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("hello", "neither the text of a .proto file nor a FileDescriptorProto in base64"),
        ("CgFh", "not a FileDescriptorProto"),
        (
            'syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }',
            "line 1, column 55: Field number 1 has already",
        ),
        ('syntax = "proto3";\nmessage A { Foo a = 1; }', 'line 2, column 13: "Foo" is not defined'),
        ('syntax = "proto3"; message A { required int32 a = 1; }', "Required fields are not allowed in proto3"),
        ('syntax = "proto3"; import "x.proto";', "x.proto: File not found"),
        (
            'syntax = "proto3"; import "google/api/http.proto";',
            "google/api/http.proto, which is not one of its references",
        ),
        ('import "/etc/passwd";', "/etc/passwd: File not found"),
        ('import "../../../../etc/passwd";', "not allowed in the virtual path"),
        ('syntax = "proto9";', 'Unrecognized syntax identifier "proto9"'),
        ("message A {" * 200 + "}" * 200, "maximum recursion limit"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_place(text, told):
    with pytest.raises(SchemaInvalid) as error:
        parse("PROTOBUF", text)
    assert told in str(error.value)
    assert "/tmp" not in str(error.value)


@pytest.mark.parametrize(
    "name",
    ["../x.proto", "/tmp/x.proto", "//tmp/x.proto", "a/../../x.proto", "", ".", "a\0b", ".compiled", "x" * 300],
)
def test_a_references_name_cannot_leave_its_folder(name):
    with pytest.raises(SchemaInvalid, match="The reference name"):
        parse("PROTOBUF", PROTO3, [reference(name, PARTS.text)])


def test_a_reference_may_have_any_path_that_can_be_imported():
    text = 'syntax="proto3"; import "a b/ü/schema.proto"; import "schema.proto"; message M { r.R a = 1; Q b = 2; }'
    other = reference("schema.proto", 'syntax="proto3"; message Q {}')
    assert parse("PROTOBUF", text, [reference("a b/ü/schema.proto", PARTS.text), other])


def test_a_broken_reference_is_named():
    with pytest.raises(SchemaInvalid, match=r"bad\.proto:1:9: Expected message name"):
        parse("PROTOBUF", 'syntax="proto3"; import "bad.proto";', [reference("bad.proto", "message {")])


def test_a_reference_must_be_of_the_same_type():
    with pytest.raises(SchemaInvalid, match="which is a schema of type AVRO"):
        parse("PROTOBUF", PROTO3, [Referenced("a", "a", 1, '"int"')])


def test_a_descriptor_with_options_that_are_none_is_refused():
    whole = bytearray(base64.b64decode(serialized(parse("PROTOBUF", EVERYTHING, [PARTS]))))
    # Within an option that descriptors themselves do not know: nobody reads it before it is to be written.
    whole[whole.index(b"\t\n\x01x") + 1] = 0
    with pytest.raises(SchemaInvalid, match="cannot be written as text"):
        parse("PROTOBUF", base64.b64encode(whole).decode(), [PARTS])


@settings(max_examples=40)
@given(st.data())
def test_a_damaged_descriptor_is_refused_or_written_without_a_loss(data):
    whole = bytearray(base64.b64decode(serialized(parse("PROTOBUF", EVERYTHING, [PARTS]))))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        sent = parse("PROTOBUF", base64.b64encode(whole).decode(), [PARTS])
    except SchemaInvalid:
        return
    assert parse("PROTOBUF", sent.text, [PARTS]).identity == sent.identity
