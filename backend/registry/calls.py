"""A request to a registry, as handlers see it: parameters, body, and the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from backend.registry import refusals
from backend.registry.access import Scope
from backend.registry.catalog import Catalog
from backend.registry.directory import Registry
from backend.registry.formats import protobuf_schemas
from backend.registry.formats.schema_model import AVRO, PROTOBUF
from backend.registry.parsing import Parser
from backend.registry.records import ALL_CONTEXTS, Content, Reference, contract_of, load_json, plain_subject
from backend.registry.registering import Decision, Wanted
from backend.registry.writing import Decide

T = TypeVar("T")

_HIGHEST_NUMBER = 2**31 - 1
_RESERVED = ("__GLOBAL", "__EMPTY")


class Text(str):
    """A response that is sent unchanged, not as a JSON string."""

    __slots__ = ()


@dataclass(frozen=True)
class Call:
    """A request below `/registries/{cluster}/`."""

    registry: Registry
    registries: str
    """Address of all registries; a cluster's is below it."""
    query: Mapping[str, str]
    raw_body: bytes = b""
    scope: Scope | None = None
    """Subjects that the caller sees and may change; None for full access."""

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as the caller sees it; only under the mirror's lock."""
        whole = self.registry.mirror.catalog
        return whole if self.scope is None else self.scope.visible(whole)

    @property
    def parser(self) -> Parser:
        """Return the parser; only under the mirror's lock."""
        return self.registry.mirror.parser

    @property
    def is_dry_run(self) -> bool:
        """Tell whether a write is only to be checked; a parameter that Treeline adds to Confluent's API."""
        return self.flag("dry_run")

    def write(self, decide: Decide) -> Any:
        """Carry a write out, or only check it. Raises RegistryError."""
        writer = self.registry.writer
        carry_out = writer.try_out if self.is_dry_run else writer.write
        return carry_out(decide, lambda cluster: f"{self.registries}/{cluster}")

    def try_out(self, decide: Decide, look: Callable[[Catalog, Decision], T]) -> T:
        """Return what `look` makes of the result that a write would have; nothing is stored.

        `look` gets the catalog as the caller sees it. Raises RegistryError.
        """
        mirror = self.registry.mirror
        with mirror.lock.parsing():
            return look(self.catalog, decide(mirror.catalog, mirror.parser))

    def sharing(self) -> AbstractContextManager[None]:
        """Lock the catalog for reading; a requested `format` needs the lock for parsing, which takes longer."""
        lock = self.registry.mirror.lock
        return lock.parsing() if self.query.get("format") else lock.reading()

    # --- parameters

    def flag(self, name: str) -> bool:
        """Return a boolean query parameter."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a numeric query parameter. Raises RegistryError."""
        text = self.query.get(name, "")
        if not text:
            return default
        try:
            return int(text[:20])
        except ValueError:
            raise refusals.RegistryError(404, f"{name} must be a number") from None

    def page(self, found: Sequence[T]) -> Sequence[T]:
        """Return the part of a list that `offset` and `limit` select; a negative limit means none."""
        first, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        return found[first:] if limit < 0 else found[first : first + limit]

    def formatted(self, content: Content) -> Content:
        """Return a schema in the requested `format`: `serialized` is a Protobuf descriptor in base64.

        Other formats are returned as they are stored, as in Confluent's registry. Raises RegistryError (a stored
        schema that is invalid).
        """
        if self.query.get("format", "").lower() != "serialized" or content.kind != PROTOBUF:
            return content
        return replace(content, text=protobuf_schemas.serialized(self.parser.parsed(self.catalog, content)))

    # --- body

    def body(self) -> dict[str, Any]:
        """Return the JSON object that was sent. Raises RegistryError."""
        if not self.raw_body.strip():
            raise refusals.unprocessable("The request has no body; a JSON object is required")
        try:
            found = load_json(self.raw_body)
        except ValueError as error:
            raise refusals.RegistryError(400, f"The body is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise refusals.unprocessable("The body is not a JSON object")
        return found

    def wanted(self) -> Wanted:
        """Return the schema that was sent. Raises RegistryError."""
        said = self.body()
        text, kind = said.get("schema"), said.get("schemaType") or AVRO
        if not isinstance(text, str) or not text.strip():
            raise refusals.schema_invalid("the field schema is missing; it must be the schema as a string")
        if not isinstance(kind, str):
            raise refusals.schema_invalid("schemaType must be AVRO, JSON or PROTOBUF")
        references = said.get("references") or []
        if not isinstance(references, list):
            raise refusals.schema_invalid("references must be a list")
        for field in ("metadata", "ruleSet"):
            if not isinstance(said.get(field) or {}, dict):
                raise refusals.schema_invalid(f"{field} must be an object")
        content = Content(
            kind=kind.upper(),
            text=text,
            references=tuple(_reference(each) for each in references),
            contract=contract_of(said),
        )
        return Wanted(
            content=content,
            id=_given(said, "id", 0),
            version=_given(said, "version", 1),
            normalize=self.flag("normalize"),
            force=self.flag("force"),
        )


def _reference(said: Any) -> Reference:
    fields = said if isinstance(said, dict) else {}
    name, subject, version = fields.get("name"), fields.get("subject"), fields.get("version")
    if not isinstance(name, str) or not isinstance(subject, str) or type(version) is not int:
        raise refusals.schema_invalid("a reference must have a name, a subject and a version number")
    return Reference(name=name, subject=subject_name(subject), version=version)


def _given(said: Mapping[str, Any], field: str, lowest: int) -> int | None:
    """Return an optional number; clients also send null, 0 or -1 for none."""
    found = said.get(field)
    if found is None:
        return None
    if type(found) is not int or found > _HIGHEST_NUMBER:
        raise refusals.unprocessable(f"{field} must be a number up to {_HIGHEST_NUMBER}")
    return found if found >= lowest else None


def subject_name(text: str) -> str:
    """Return a subject's name as a path or reference has it. Raises RegistryError."""
    plain = plain_subject(text)
    if plain is None:
        raise refusals.subject_invalid(text, "this registry supports only the default context")
    if plain.startswith(ALL_CONTEXTS):
        raise refusals.subject_invalid(
            text, f"{ALL_CONTEXTS} stands for all contexts, and is allowed only in the parameter subjectPrefix"
        )
    if (
        not plain.strip()
        or plain in _RESERVED
        or any(ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0 for sign in plain)
    ):
        raise refusals.subject_invalid(text, "it is empty, reserved, or has control characters")
    return plain


def parse_query(raw: bytes) -> dict[str, str]:
    """Return the parameters of a query; the first of each name counts."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=50):
        found.setdefault(name, value)
    return found
