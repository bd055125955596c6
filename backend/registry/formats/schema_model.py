"""What the schema languages have in common: a parsed schema, what it refers to, and the one way to be refused."""

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
    """A text is no schema of its language; the message says what is wrong and where."""


class CheckUnfinished(Exception):
    """A schema could not be checked for want of time or resources, which says nothing of the schema."""


@dataclass(frozen=True)
class Referenced:
    """A schema that another one refers to, already looked up."""

    name: str
    """As the referring schema calls it: a full name in Avro, a URI in JSON Schema, an import in Protobuf."""
    subject: str
    version: int
    text: str
    kind: str = AVRO


@dataclass(frozen=True)
class Parsed:
    """A valid schema of one language."""

    kind: str
    text: str
    """As it is stored."""
    identity: str
    """Equal for two schemas if, and only if, they are the same schema: how they are written does not count, what
    they refer to does. 64 hexadecimal digits."""
    referenced: tuple[Referenced, ...]
    """All that it refers to, directly or not; what a schema refers to itself comes before it."""
    tree: Any = field(repr=False, compare=False)
    """The language's own form of it, for its checks."""


def identity(kind: str, canonical: str | bytes, referenced: Sequence[Referenced]) -> str:
    """`canonical` is the same for each way to write a schema."""
    said = canonical.encode() if isinstance(canonical, str) else canonical
    names = sorted({(each.name, each.subject, each.version) for each in referenced})
    return hashlib.sha256(json.dumps([kind, names]).encode() + b"\0" + said).hexdigest()


def require_kind(kind: str, referenced: Sequence[Referenced]) -> None:
    """Raises SchemaInvalid if a reference is to a schema of another language."""
    for each in referenced:
        if each.kind != kind:
            raise SchemaInvalid(
                f"The reference {each.name!r} is to version {each.version} of subject {each.subject!r}, which is "
                f"a schema of type {each.kind}; a schema of type {kind} refers to schemas of its own type only."
            )
