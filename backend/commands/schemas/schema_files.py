"""Schemas in files, as the registry's API takes them, with their references."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from backend.commands.shell.exit_codes import Code
from backend.commands.shell.rest import fail


class SchemaType(StrEnum):
    """Types of schemas."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


SchemaFile = Annotated[Path, typer.Option("--filename", "-f", help='File with the schema; "-" is standard input.')]
TypeOption = Annotated[
    SchemaType | None,
    typer.Option("--type", case_sensitive=False, help="Left out: by the file's extension, .avsc or .proto."),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="A reference of the schema, by NAME; may be repeated. VERSION may be latest.",
    ),
]
Normalize = Annotated[
    bool, typer.Option("--normalize", help="Normalize the schema before it is compared and registered.")
]

_TYPES: Mapping[str, SchemaType] = {".avsc": SchemaType.AVRO, ".proto": SchemaType.PROTOBUF}
_REFERENCE = re.compile(r"(?P<name>[^=]+)=(?P<subject>.+):(?P<version>[1-9][0-9]*|latest)")
_LATEST = -1


def read_schema(file: Path, kind: SchemaType | None, references: Sequence[str] | None) -> dict[str, Any]:
    """Return the body of a request that sends a schema; exits with 2 if the file has none."""
    # An Avro schema may be in a .json file, too, and would mostly be accepted as JSON Schema.
    kind = kind or _TYPES.get(file.suffix.lower())
    if kind is None:
        there = ", ".join(SchemaType)
        fail(
            f"{file}: the type of the schema is unknown by this extension: give --type, one of {there}.",
            Code.BAD_INPUT,
        )
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error}", Code.BAD_INPUT)
    if not text.strip():
        fail(f"{'Standard input' if str(file) == '-' else file} is empty: a schema is expected.", Code.BAD_INPUT)
    return {"schema": text, "schemaType": kind.value, "references": list(map(_reference, references or ()))}


def _reference(said: str) -> dict[str, Any]:
    found = _REFERENCE.fullmatch(said)
    if found is None:
        fail(
            f"--reference {said!r}: give NAME=SUBJECT:VERSION, such as User=acme-retail-prod-users-value:1.",
            Code.BAD_INPUT,
        )
    version = found["version"]
    return {**found.groupdict(), "version": _LATEST if version == "latest" else int(version)}
