"""Schemas in the format that a client asks for: Protobuf as a descriptor."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from backend.registry.records import Content, Reference, SchemaVersion
from tests.support.schemas.written_log import WrittenLog, avro
from tests.unit.schemas.http_client import Client, refused

OUTER = 'syntax = "proto3"; import "inner.proto"; package a; message Outer { Inner inner = 1; }'


@pytest.fixture
def log() -> WrittenLog:
    log = WrittenLog()
    log.register("avro", avro("x"))
    return log


@pytest.fixture
def client(log: WrittenLog) -> Client:
    return Client(log)


@pytest.fixture
def protobuf(log) -> int:
    """The id of a schema that refers to another one; the subjects are `outer` and `inner`."""
    log.register("inner", 'syntax = "proto3"; package a; message Inner { int64 n = 1; }', kind="PROTOBUF")
    reference = Reference(name="inner.proto", subject="inner", version=1)
    return log.register("outer", OUTER, reference, kind="PROTOBUF")


def test_protobuf_is_given_out_as_a_descriptor_to_who_asks_for_it(client, protobuf):
    by_id = client.get(f"/schemas/ids/{protobuf}?format=serialized")
    answers = [
        by_id["schema"],
        client.get("/subjects/outer/versions/1?format=serialized")["schema"],
        client.get("/subjects/outer/versions/latest?format=serialized")["schema"],
        client("GET", f"/schemas/ids/{protobuf}/schema?format=serialized").text,
        client("GET", "/subjects/outer/versions/1/schema?format=serialized").text,
    ]
    assert len(set(answers)) == 1
    outer = FileDescriptorProto.FromString(base64.b64decode(by_id["schema"]))
    assert (outer.package, list(outer.dependency)) == ("a", ["inner.proto"])
    assert outer.message_type[0].field[0].type_name == ".a.Inner"
    assert by_id["references"] == [{"name": "inner.proto", "subject": "inner", "version": 1}]
    sent = {"schema": OUTER, "schemaType": "PROTOBUF", "references": by_id["references"]}
    assert client("POST", "/subjects/outer?format=serialized", sent).json()["schema"] == by_id["schema"]


@pytest.mark.parametrize("wanted", ["", "resolved", "ignore_extensions"])
def test_in_no_other_format_is_a_schema_another_one(client, protobuf, wanted):
    assert client.get(f"/schemas/ids/{protobuf}?format={wanted}")["schema"] == OUTER
    assert client.get("/schemas/ids/1?format=serialized") == client.get("/schemas/ids/1")


def test_a_descriptor_of_what_is_no_schema_is_refused(log, client):
    content = Content(kind="PROTOBUF", text="message {")
    log.append(SchemaVersion(subject="broken", version=1, id=99, content=content))
    refused(client("GET", "/schemas/ids/99?format=serialized"), 422, 42201)
    assert client.get("/schemas/ids/99")["schema"] == "message {"
