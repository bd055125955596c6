"""A schema in a file, as the registry's API takes it, and what it may refer to."""

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
    """The languages that schemas are written in."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


SchemaFile = Annotated[Path, typer.Option("--filename", "-f", help='The schema; "-" is standard input.')]
TypeOption = Annotated[
    SchemaType | None,
    typer.Option("--type", case_sensitive=False, help="Left out: as the file's name says, by .avsc or .proto."),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="What the schema refers to by NAME, once for each; VERSION may be latest.",
    ),
]
Normalize = Annotated[
    bool, typer.Option("--normalize", help="Leave out what only its way of writing adds, before it is compared.")
]

_TYPES: Mapping[str, SchemaType] = {".avsc": SchemaType.AVRO, ".proto": SchemaType.PROTOBUF}
_REFERENCE = re.compile(r"(?P<name>[^=]+)=(?P<subject>.+):(?P<version>[1-9][0-9]*|latest)")
_LATEST = -1


def read_schema(file: Path, kind: SchemaType | None, references: Sequence[str] | None) -> dict[str, Any]:
    """The body of a request that sends a schema; exits with 2 if there is none in the file."""
    # A schema of Avro may be kept as .json, too, and would mostly pass as one of JSON Schema.
    kind = kind or _TYPES.get(file.suffix.lower())
    if kind is None:
        there = ", ".join(SchemaType)
        fail(
            f"{file}: its name does not say of which type the schema is: give --type, one of {there}.",
            Code.BAD_INPUT,
        )
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error}", Code.BAD_INPUT)
    if not text.strip():
        fail(f"{'Standard input' if str(file) == '-' else file} is empty: it is to have a schema.", Code.BAD_INPUT)
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
