"""Schemas of records, compiled to decoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from backend.messages.decoding import json_values
from backend.parent_exit import exit_with_parent
from backend.registry.formats.schema_model import AVRO, JSON, PROTOBUF, CheckUnfinished, Referenced, SchemaInvalid


class SchemaUnusable(Exception):
    """No decoder can be made of a schema; the message says why."""


class SchemaBeyondLimits(SchemaUnusable):
    """No decoder of a schema is made within the limits, which says nothing about its records."""


class Decoder(Protocol):
    """Decodes the values of one schema."""

    def decode(self, data: bytes, at: int) -> tuple[Any, str | None]:
        """Return the value that takes the bytes from `at` to the end, and a note for people.

        Raises Undecodable; NotJson.
        """


def decoder(language: str, text: str, references: Mapping[str, str]) -> Decoder:
    """Return the decoder of a schema. `references`: name -> text, each after its own references.

    Raises SchemaUnusable; SchemaBeyondLimits, which is one.
    """
    # Each is imported where it is needed: a start without them takes half the time, and most processes need one.
    try:
        if language == AVRO:
            return _avro(text, references)
        if language == PROTOBUF:
            return _protobuf(text, references)
        if language == JSON:
            return _Json()
    except SchemaInvalid as error:
        raise SchemaUnusable(str(error)) from error
    except CheckUnfinished as error:
        raise SchemaBeyondLimits(str(error)) from error
    except RecursionError as error:
        raise SchemaUnusable("It is nested too deeply.") from error
    except ValueError as error:
        raise SchemaUnusable("Its text cannot be read.") from error
    raise SchemaUnusable(f"Its language {language[:20]!r} is unknown.")


def _avro(text: str, references: Mapping[str, str]) -> Decoder:
    from backend.messages.decoding.avro_values import AvroDecoder
    from backend.registry.formats import avro_schemas

    known = [Referenced(name, "", 0, schema) for name, schema in references.items()]
    return AvroDecoder(avro_schemas.parse(text, known, strict=False).tree)


def _protobuf(text: str, references: Mapping[str, str]) -> Decoder:
    from google.protobuf.descriptor_pool import DescriptorPool

    from backend.messages.decoding.protobuf_values import ProtobufDecoder
    from backend.registry.formats import protobuf_compiler

    # The compiler would outlive this process when that is killed.
    files = protobuf_compiler.compiled(text, references, before_exec=exit_with_parent)
    pool = DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
    except TypeError as error:
        raise SchemaUnusable(f"It is invalid: {error}.") from error
    return ProtobufDecoder(pool.FindFileByName(files.file[-1].name))


class _Json:
    """Decodes JSON; what the schema demands of it is not checked."""

    def decode(self, data: bytes, at: int) -> tuple[Any, str | None]:
        return json_values.read(data[at:].decode()), None
