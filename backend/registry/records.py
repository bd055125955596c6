"""Records of a schemas topic, as Confluent Schema Registry and Karapace write and read them.

A key is JSON that names the record's object, in a fixed order of fields, since compaction compares bytes; a value
is JSON, or empty: the object is deleted. Unknown fields are ignored. Whether a record counts is not decided here
but by the order of the log (`catalog.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.registry.formats.schema_model import AVRO
from backend.registry.known_settings import LEVELS, MODES

COPIED_HEADER = "treeline.copied"
"""Kafka header of a record that the schema distributor wrote: it is the primary's, and changes with it."""

LATEST_VERSION = -1
"""Version in a reference that stands for the latest version of its subject."""
_HIGHEST_VERSION = 2**31 - 1
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


class Unreadable(Exception):
    """A record that no registry wrote, or that needs a feature which this registry does not have."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Reference of a schema to a version of another subject, with the name used in the schema."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, kw_only=True)
class Content:
    """Content with one id: the schema itself, whichever subjects it is registered under."""

    kind: str = AVRO
    text: str
    references: tuple[Reference, ...] = ()
    contract: str | None = None
    """JSON object with `metadata` and `ruleSet` of a data contract, which clients carry out; None without one."""


@dataclass(frozen=True, kw_only=True)
class SchemaVersion:
    """A version of a subject.

    `deleted`: soft-deleted, so that it is still found by its id, and on request. Times are those of the log that
    was read, and do not distinguish versions.
    """

    subject: str
    version: int
    id: int
    content: Content
    deleted: bool = False
    written_ms: int = field(default=0, compare=False)
    """Time of the first record of the version that compaction has left."""
    deleted_ms: int | None = field(default=None, compare=False)

    def was_there(self, moment_ms: float) -> bool:
        """Tell whether it was registered at a moment, and not deleted, as far as the log still shows."""
        gone = self.deleted and (self.deleted_ms or 0) <= moment_ms
        return self.written_ms <= moment_ms and not gone


@dataclass(frozen=True, kw_only=True)
class VersionGone:
    """A version was permanently deleted."""

    subject: str
    version: int


@dataclass(frozen=True, kw_only=True)
class ConfigSet:
    """Configuration of a subject, or the global one (None); `fields` None: it was deleted."""

    subject: str | None
    fields: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class ModeSet:
    """Mode of a subject, or the global one (None); `mode` None: it was deleted."""

    subject: str | None
    mode: str | None


@dataclass(frozen=True, kw_only=True)
class SubjectDeleted:
    """All versions up to this one were soft-deleted at once."""

    subject: str
    version: int


@dataclass(frozen=True, kw_only=True)
class SubjectCleared:
    """The soft-deleted versions of a subject, or of all (None), were removed."""

    subject: str | None


@dataclass(frozen=True, kw_only=True)
class Noop:
    """A record that other registries ignore.

    Ours has the highest id ever assigned, which compaction would remove.
    """

    highest_id: int | None = None


Record = SchemaVersion | VersionGone | ConfigSet | ModeSet | SubjectDeleted | SubjectCleared | Noop


DEFAULT_CONTEXT, ALL_CONTEXTS = ":.:", ":*:"
"""Prefixes of a subject that name its context in Confluent's registry; only lists may cover all contexts."""
_A_CONTEXT = ":."


def plain_subject(name: str) -> str | None:
    """Return a subject's name without the default context; None for another, unsupported context."""
    name = name.removeprefix(DEFAULT_CONTEXT)
    return None if name.startswith(_A_CONTEXT) else name


def load_json(raw: bytes) -> Any:
    """Parse JSON. Raises ValueError, also for an unpaired surrogate, which no text can contain."""
    try:
        # json.loads itself accepts unpaired surrogates in bytes that are not UTF-8, and other encodings.
        found = json.loads(raw.decode("utf-8-sig"))
        if _HALF_PAIR.search(raw):
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return found


def dump_json(value: Any) -> bytes:
    """Write compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# --- reading


def decode(key: bytes | None, value: bytes | None) -> Record | None:
    """Decode a record; None for a record without effect (an obsolete one that compaction ended).

    Raises Unreadable.
    """
    named = _object(key, "key")
    kind, subject = named.get("keytype"), _subject(named)
    said = None if value is None or not value.strip() else _object_or_null(value)
    match kind:
        case "SCHEMA":
            return _schema(named, _needed(subject), said)
        case "CONFIG":
            return ConfigSet(subject=subject, fields=_config_fields(said))
        case "MODE":
            return ModeSet(subject=subject, mode=None if said is None else _mode(said))
        case "DELETE_SUBJECT":
            if said is None:
                return None
            return SubjectDeleted(subject=_needed(subject), version=_number(said, "version", lowest=0))
        case "CLEAR_SUBJECT":
            return None if said is None else SubjectCleared(subject=subject)
        case "NOOP":
            highest = None if said is None else said.get("highestId")
            return Noop(highest_id=highest if type(highest) is int else None)
    raise Unreadable(f"unknown keytype {str(kind)[:40]!r}")


def _schema(named: Mapping[str, Any], subject: str, said: Mapping[str, Any] | None) -> Record:
    if named.get("magic") not in (0, 1):
        raise Unreadable(f"a schema's key must have magic 1, not {str(named.get('magic'))[:20]!r}")
    version = _number(named, "version", lowest=1)
    if said is None:
        return VersionGone(subject=subject, version=version)
    kind = AVRO if said.get("schemaType") is None else _text(said, "schemaType")
    references = said.get("references") or ()
    if not isinstance(references, list | tuple):
        raise Unreadable("references must be a list")
    return SchemaVersion(
        subject=subject,
        version=version,
        id=_number(said, "id", lowest=0),
        content=Content(
            kind=kind,
            text=_text(said, "schema"),
            references=tuple(map(_reference, references)),
            contract=contract_of(said),
        ),
        deleted=said.get("deleted") is True,
    )


def _reference(said: Any) -> Reference:
    if not isinstance(said, dict):
        raise Unreadable("a reference must be an object")
    return Reference(
        name=_text(said, "name"), subject=_text(said, "subject"), version=_number(said, "version", lowest=-1)
    )


def contract_of(said: Mapping[str, Any]) -> str | None:
    """Return `metadata` and `ruleSet` of an object as `Content.contract` has them."""
    found = {field: said[field] for field in ("metadata", "ruleSet") if said.get(field)}
    return json.dumps(found, ensure_ascii=False, sort_keys=True) if found else None


def _config_fields(said: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if said is None:
        return None
    fields = {name: value for name, value in said.items() if name != "subject" and value is not None}
    if "compatibilityLevel" in fields and _text(fields, "compatibilityLevel").upper() not in LEVELS:
        raise Unreadable(f"compatibilityLevel must be one of {', '.join(LEVELS)}")
    return fields


def _mode(said: Mapping[str, Any]) -> str:
    mode = _text(said, "mode")
    if mode not in MODES:
        raise Unreadable(f"mode must be one of {', '.join(MODES)}")
    return mode


def _object(raw: bytes | None, what: str) -> Mapping[str, Any]:
    if raw is None:
        raise Unreadable(f"the {what} is missing")
    found = _object_or_null(raw)
    if found is None:
        raise Unreadable(f"the {what} is not a JSON object")
    return found


def _object_or_null(raw: bytes) -> Mapping[str, Any] | None:
    try:
        found = load_json(raw)
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from error
    if found is None or isinstance(found, dict):
        return found
    raise Unreadable("it is not a JSON object")


def _subject(named: Mapping[str, Any]) -> str | None:
    subject = named.get("subject")
    if subject is None:
        return None
    plain = plain_subject(_text(named, "subject"))
    if plain is None:
        raise Unreadable(f"{subject[:60]!r} is in a context; only the default context is supported")
    return plain


def _needed(subject: str | None) -> str:
    if subject is None:
        raise Unreadable("the key names no subject")
    return subject


def _text(said: Mapping[str, Any], field: str) -> str:
    found = said.get(field)
    if not isinstance(found, str):
        raise Unreadable(f"{field} must be a string")
    return found


def _number(said: Mapping[str, Any], field: str, *, lowest: int) -> int:
    found = said.get(field)
    if type(found) is not int or not lowest <= found <= _HIGHEST_VERSION:
        raise Unreadable(f"{field} must be a number from {lowest} to {_HIGHEST_VERSION}")
    return found


# --- writing

_KEYTYPES: dict[type[Record], str] = {
    ConfigSet: "CONFIG",
    ModeSet: "MODE",
    SubjectDeleted: "DELETE_SUBJECT",
    SubjectCleared: "CLEAR_SUBJECT",
}


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return key and value."""
    value = _value(record)
    return key_of(record), None if value is None else dump_json(value)


def key_of(record: Record) -> bytes:
    """Return the key, as Confluent's registry writes it."""
    match record:
        case SchemaVersion(subject=subject, version=version) | VersionGone(subject=subject, version=version):
            return dump_json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})
        case Noop():
            return dump_json({"keytype": "NOOP", "magic": 0})
        case _:
            return dump_json({"keytype": _KEYTYPES[type(record)], **_named(record.subject), "magic": 0})


def _value(record: Record) -> dict[str, Any] | None:
    match record:
        case SchemaVersion():
            return _schema_value(record)
        case ConfigSet(subject=subject, fields=fields):
            return None if fields is None else {**_named(subject), **fields}
        case ModeSet(subject=subject, mode=mode):
            return None if mode is None else {**_named(subject), "mode": mode}
        case SubjectDeleted(subject=subject, version=version):
            return {"subject": subject, "version": version}
        case SubjectCleared(subject=subject):
            return _named(subject)
        case Noop(highest_id=highest):
            return {"highestId": highest}
        case VersionGone():
            return None


def shown(content: Content) -> dict[str, Any]:
    """Return a schema as responses and values show it: the type AVRO is the default and left out."""
    found: dict[str, Any] = {} if content.kind == AVRO else {"schemaType": content.kind}
    if content.references:
        found["references"] = [vars(reference) for reference in content.references]
    if content.contract is not None:
        found |= json.loads(content.contract)
    found["schema"] = content.text
    return found


def _schema_value(record: SchemaVersion) -> dict[str, Any]:
    named = {"subject": record.subject, "version": record.version, "id": record.id}
    return {**named, **shown(record.content), "deleted": record.deleted}


def _named(subject: str | None) -> dict[str, str]:
    return {} if subject is None else {"subject": subject}
