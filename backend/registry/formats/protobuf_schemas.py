"""Protobuf schemas: the text of a .proto file, or a FileDescriptorProto in base64, as some clients send it.

A text is stored as it came, with its comments. A descriptor is stored as text, so that every client can read it,
and only if that text means the same. Both are one schema if their descriptors are equal.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from backend.registry.formats import protobuf_compiler, protobuf_text
from backend.registry.formats.schema_model import (
    PROTOBUF,
    Parsed,
    Referenced,
    SchemaInvalid,
    identity,
    require_kind,
)

_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+=*\s*", re.ASCII)
"""No .proto text looks like this: every statement has another character."""


def parse(text: str, references: Sequence[Referenced], *, strict: bool) -> Parsed:
    """Parse a schema. Raises SchemaInvalid.

    `strict` changes nothing here: a schema that the compiler refuses is of no use to any client.
    """
    require_kind(PROTOBUF, references)
    imports = {each.name: each.text for each in references}
    if not text.strip():
        raise SchemaInvalid("The Protobuf schema is empty.")
    if not _BASE64.fullmatch(text):
        return _parsed(text, protobuf_compiler.compiled(text, imports), references)
    sent = _decoded(text)
    around = "".join(f"import {protobuf_text.quoted(name)};\n" for name in sent.dependency)
    files = protobuf_compiler.compiled(f'syntax = "proto3";\n{around}', imports)
    sent.name = files.file[-1].name
    files.file[-1].CopyFrom(sent)
    try:
        written = protobuf_text.written(sent, _pool(files))
    except (ValueError, LookupError, DecodeError) as error:
        # No compiler made this descriptor: it has a map entry without a key, or a constant that its enum lacks.
        raise SchemaInvalid("The Protobuf descriptor is inconsistent and cannot be written as text.") from error
    parsed = _parsed(written, None, references)
    if _canonical(_proto(parsed.tree)) != _canonical(sent):
        raise SchemaInvalid("The Protobuf descriptor cannot be written as text without a loss; register the text.")
    return parsed


def normalized(parsed: Parsed) -> Parsed:
    """Return the schema without comments, and with full names."""
    text = protobuf_text.written(_proto(parsed.tree), parsed.tree.pool)
    return _parsed(text, None, parsed.referenced)


def serialized(parsed: Parsed) -> str:
    """Return the FileDescriptorProto in base64, for clients that request `format=serialized`."""
    return base64.b64encode(_proto(parsed.tree).SerializeToString()).decode()


def _parsed(text: str, files: FileDescriptorSet | None, references: Sequence[Referenced]) -> Parsed:
    if files is None:
        files = protobuf_compiler.compiled(text, {each.name: each.text for each in references})
    tree = _pool(files).FindFileByName(files.file[-1].name)
    same = _canonical(files.file[-1])
    return Parsed(PROTOBUF, text, identity(PROTOBUF, same, references), tuple(references), tree)


def _decoded(text: str) -> FileDescriptorProto:
    try:
        sent = FileDescriptorProto.FromString(base64.b64decode(text))
    except (binascii.Error, DecodeError) as error:
        raise SchemaInvalid(
            "The Protobuf schema is neither the text of a .proto file nor a FileDescriptorProto in base64."
        ) from error
    sent.ClearField("name")
    if len(UnknownFieldSet(sent)) or not sent.ByteSize():
        raise SchemaInvalid("The Protobuf schema in base64 is not a FileDescriptorProto.")
    return sent


def _pool(files: FileDescriptorSet) -> DescriptorPool:
    pool = DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
    except TypeError as error:
        raise SchemaInvalid(f"The Protobuf schema is invalid: {error}.") from error
    return pool


def _proto(file: FileDescriptor) -> FileDescriptorProto:
    made = FileDescriptorProto()
    file.CopyToProto(made)
    made.ClearField("name")
    return made


def _canonical(file: FileDescriptorProto) -> bytes:
    """Return bytes that are the same for every way to write and compile the same file."""
    made = FileDescriptorProto()
    made.CopyFrom(file)
    made.ClearField("name")
    made.ClearField("source_code_info")
    if made.syntax == "proto2":
        made.ClearField("syntax")
    _without_own_json_names(made.extension)
    for message in made.message_type:
        _settle(message)
    return made.SerializeToString(deterministic=True)


def _settle(message: DescriptorProto) -> None:
    _without_own_json_names(message.field)
    _without_own_json_names(message.extension)
    for nested in message.nested_type:
        _settle(nested)


def _without_own_json_names(fields: Sequence[FieldDescriptorProto]) -> None:
    for field in fields:
        if field.json_name == protobuf_text.json_name(field.name) or field.extendee:
            field.ClearField("json_name")
