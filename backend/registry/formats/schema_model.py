"""Common model of the schema languages: a parsed schema, its references, and its errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"


class SchemaInvalid(Exception):
    """A text is not a schema of its language; the message says what is wrong and where."""


class CheckUnfinished(Exception):
    """A schema could not be checked for lack of time or resources, which says nothing about the schema."""


@dataclass(frozen=True)
class Referenced:
    """A schema that another one references, already looked up."""

    name: str
    """Name in the referencing schema: a full name in Avro, a URI in JSON Schema, an import in Protobuf."""
    subject: str
    version: int
    text: str
    kind: str = AVRO


@dataclass(frozen=True)
class Parsed:
    """A valid schema of one language."""

    kind: str
    text: str
    """Text as it is stored."""
    identity: str
    """Equal for two schemas if, and only if, they are the same schema: spelling does not count, references do. 64
    hexadecimal digits."""
    referenced: tuple[Referenced, ...]
    """All direct and indirect references; each comes after its own references."""
    tree: Any = field(repr=False, compare=False)
    """The language's own form of the schema, for its checks."""


def identity(kind: str, canonical: str | bytes, referenced: Sequence[Referenced]) -> str:
    """Return the identity. `canonical` is the same for each way to write a schema."""
    said = canonical.encode() if isinstance(canonical, str) else canonical
    names = sorted({(each.name, each.subject, each.version) for each in referenced})
    return hashlib.sha256(json.dumps([kind, names]).encode() + b"\0" + said).hexdigest()


def require_kind(kind: str, referenced: Sequence[Referenced]) -> None:
    """Raise SchemaInvalid if a reference is to a schema of another language."""
    for each in referenced:
        if each.kind != kind:
            raise SchemaInvalid(
                f"The reference {each.name!r} is to version {each.version} of subject {each.subject!r}, which is "
                f"a schema of type {each.kind}; a schema of type {kind} can reference only its own type."
            )
