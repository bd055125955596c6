"""One request to a registry, as its handlers see it: parameters, body, and the catalog that it is about."""

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
    """An answer that is sent as it is, not as a JSON string."""

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
    """What the caller sees and may change; None: everything."""

    @property
    def catalog(self) -> Catalog:
        """Under the mirror's lock only."""
        whole = self.registry.mirror.catalog
        return whole if self.scope is None else self.scope.visible(whole)

    @property
    def parser(self) -> Parser:
        """Under the mirror's lock only."""
        return self.registry.mirror.parser

    @property
    def is_dry_run(self) -> bool:
        """Whether a write is only to be checked: no parameter of Confluent's API, but Treeline's everywhere."""
        return self.flag("dry_run")

    def write(self, decide: Decide) -> Any:
        """Carry a write out, or check it only. Raises Refusal."""
        writer = self.registry.writer
        carry_out = writer.try_out if self.is_dry_run else writer.write
        return carry_out(decide, lambda cluster: f"{self.registries}/{cluster}")

    def try_out(self, decide: Decide, look: Callable[[Catalog, Decision], T]) -> T:
        """What `look` makes of what a write would come to, by what has been read; nothing is kept of it.

        `look` gets the catalog as the caller sees it. Raises Refusal.
        """
        mirror = self.registry.mirror
        with mirror.lock.parsing():
            return look(self.catalog, decide(mirror.catalog, mirror.parser))

    def sharing(self) -> AbstractContextManager[None]:
        """The catalog, to look at; another `format` is made of a schema first, which takes as long as parsing."""
        lock = self.registry.mirror.lock
        return lock.parsing() if self.query.get("format") else lock.looking()

    # --- parameters

    def flag(self, name: str) -> bool:
        """A query parameter that is true or not."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """A query parameter that is a number. Raises Refusal."""
        text = self.query.get(name, "")
        if not text:
            return default
        try:
            return int(text[:20])
        except ValueError:
            raise refusals.Refusal(404, f"{name} is a number") from None

    def page(self, found: Sequence[T]) -> Sequence[T]:
        """The part of a list that `offset` and `limit` ask for; below 0 is no limit."""
        first, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        return found[first:] if limit < 0 else found[first : first + limit]

    def formatted(self, content: Content) -> Content:
        """A schema as `format` asks for it: `serialized` is a Protobuf descriptor in base64. Others are as they
        are stored, as in Confluent's registry. Raises Refusal (a stored schema that is invalid)."""
        if self.query.get("format", "").lower() != "serialized" or content.kind != PROTOBUF:
            return content
        return replace(content, text=protobuf_schemas.serialized(self.parser.parsed(self.catalog, content)))

    # --- body

    def body(self) -> dict[str, Any]:
        """The JSON object that was sent. Raises Refusal."""
        if not self.raw_body.strip():
            raise refusals.not_as_it_should_be("The request has no body; a JSON object is needed")
        try:
            found = load_json(self.raw_body)
        except ValueError as error:
            raise refusals.Refusal(400, f"The body is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise refusals.not_as_it_should_be("The body is no JSON object")
        return found

    def wanted(self) -> Wanted:
        """The schema that was sent. Raises Refusal."""
        said = self.body()
        text, kind = said.get("schema"), said.get("schemaType") or AVRO
        if not isinstance(text, str) or not text.strip():
            raise refusals.schema_invalid("the field schema is missing; it is the schema as one text")
        if not isinstance(kind, str):
            raise refusals.schema_invalid("schemaType is AVRO, JSON or PROTOBUF")
        references = said.get("references") or []
        if not isinstance(references, list):
            raise refusals.schema_invalid("references are a list")
        for field in ("metadata", "ruleSet"):
            if not isinstance(said.get(field) or {}, dict):
                raise refusals.schema_invalid(f"{field} is an object")
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
        raise refusals.schema_invalid("a reference has a name, a subject and the number of a version")
    return Reference(name=name, subject=subject_name(subject), version=version)


def _given(said: Mapping[str, Any], field: str, lowest: int) -> int | None:
    """A number that clients also send as null, 0 or -1 where they do not mean one."""
    found = said.get(field)
    if found is None:
        return None
    if type(found) is not int or found > _HIGHEST_NUMBER:
        raise refusals.not_as_it_should_be(f"{field} is a number up to {_HIGHEST_NUMBER}")
    return found if found >= lowest else None


def subject_name(text: str) -> str:
    """A subject as a path or reference names it. Raises Refusal."""
    plain = plain_subject(text)
    if plain is None:
        raise refusals.subject_invalid(text, "this registry has the default context only")
    if plain.startswith(ALL_CONTEXTS):
        raise refusals.subject_invalid(
            text, f"{ALL_CONTEXTS} stands for all contexts, in the parameter subjectPrefix of lists alone"
        )
    if (
        not plain.strip()
        or plain in _RESERVED
        or any(ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0 for sign in plain)
    ):
        raise refusals.subject_invalid(text, "it is empty, reserved, or has control characters")
    return plain


def parse_query(raw: bytes) -> dict[str, str]:
    """The parameters of a query; the first of each name counts."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=50):
        found.setdefault(name, value)
    return found
