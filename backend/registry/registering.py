"""Registration of a schema, the look-up of one, and the check of its compatibility.

Rules over a catalog; a write is the records that carry it out. A schema that a subject has already is found and
not registered again: by its text, or by its identity, which is the same for differently written texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.registry import compatibility, refusals
from backend.registry.catalog import Catalog
from backend.registry.formats.schema_types import Parsed
from backend.registry.known_settings import IMPORT, READ_ONLY, READWRITE
from backend.registry.parsing import Parser, at_versions, referred
from backend.registry.records import Content, Record, SchemaVersion, VersionGone

_HIGHEST_ID = 2**31 - 1
_FARTHEST = 1_000_000
"""Limit of how far an imported id may be above the highest one: the ids between them are never used."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A schema as it was sent; id and version only if they are to be kept (mode IMPORT)."""

    content: Content
    id: int | None = None
    version: int | None = None
    normalize: bool = False
    """True if the schema is to be normalized."""
    force: bool = False
    """True if an id may be far above all others."""


@dataclass(frozen=True)
class Decision:
    """Result of a request: records to append, none if nothing is missing, and the answer once they count."""

    records: tuple[Record, ...]
    answer: Any


def check_writable(catalog: Catalog, subject: str | None) -> None:
    """Raise RegistryError if the subject must not be changed."""
    mode = catalog.mode(subject)
    if mode in READ_ONLY:
        what = "The registry" if subject is None else f"Subject {subject}"
        raise refusals.not_permitted(f"{what} is in mode {mode}")


def check_references(catalog: Catalog, wanted: Wanted) -> None:
    """Raise RegistryError (invalid schema) unless all references of a schema are in this catalog."""
    for reference in wanted.content.references:
        referred(catalog, reference)


def find(
    catalog: Catalog, parser: Parser, subject: str, wanted: Wanted, *, deleted: bool = False
) -> SchemaVersion | None:
    """Return the subject's version that has this schema, None without one. Raises RegistryError (invalid schema).

    A stored schema is found even if it would not be accepted as new: another registry may have registered it.
    """
    versions = catalog.versions(subject, deleted=deleted)
    if not versions:
        return None
    as_sent = find_as_sent(catalog, subject, wanted, deleted=deleted)
    if as_sent is not None:
        return as_sent
    wanted = _numbered(catalog, wanted)
    new = _parsed(catalog, parser, subject, wanted, strict=False)
    for content in _as_given_or_inherited(catalog, subject, replace(wanted.content, text=new.text)):
        found = _find(catalog, parser, content, new, versions)
        if found is not None:
            return found
    return None


def find_as_sent(catalog: Catalog, subject: str, wanted: Wanted, *, deleted: bool = False) -> SchemaVersion | None:
    """Return the subject's version with exactly this text, without parsing."""
    versions = catalog.versions(subject, deleted=deleted)
    if not versions:
        return None
    for version in reversed(versions):
        # Other registries may have stored a reference to the latest version as it was sent.
        if version.content == wanted.content:
            return version
    wanted = _numbered(catalog, wanted)
    for content in _as_given_or_inherited(catalog, subject, wanted.content):
        for version in reversed(versions):
            if version.content == content:
                return version
    return None


def _numbered(catalog: Catalog, wanted: Wanted) -> Wanted:
    return replace(wanted, content=at_versions(catalog, wanted.content))


def _parsed(catalog: Catalog, parser: Parser, subject: str, wanted: Wanted, *, strict: bool) -> Parsed:
    normalize = wanted.normalize or catalog.config(subject).get("normalize") is True
    return parser.sent(catalog, wanted.content, normalize=normalize, strict=strict)


def _find(
    catalog: Catalog,
    parser: Parser,
    content: Content,
    new: Parsed,
    versions: Sequence[SchemaVersion],
) -> SchemaVersion | None:
    for version in reversed(versions):
        if version.content == content:
            return version
    for version in reversed(versions):
        same = (version.content.kind, version.content.contract) == (content.kind, content.contract)
        if same and _identity(catalog, parser, version) == new.identity:
            return version
    return None


def _identity(catalog: Catalog, parser: Parser, version: SchemaVersion) -> object:
    try:
        return parser.parsed(catalog, version.content).identity
    except refusals.RegistryError as refusal:
        if refusal.is_for_now:
            raise
        # Another registry stored it, or its references are missing: it equals no other schema.
        return None


def _as_given_or_inherited(catalog: Catalog, subject: str, content: Content) -> list[Content]:
    """Return the candidates: a schema without a contract inherits the latest version's, as at Confluent's."""
    versions = catalog.versions(subject)
    inherited = versions[-1].content.contract if versions else None
    if content.contract is not None or inherited is None:
        return [content]
    return [content, replace(content, contract=inherited)]


def register(catalog: Catalog, parser: Parser, subject: str, wanted: Wanted) -> Decision:
    """Add a version to a subject. Raises RegistryError: invalid, incompatible, not permitted in this mode."""
    importing = catalog.mode(subject) == IMPORT
    there = _there(catalog, parser, subject, wanted)
    wanted = _numbered(catalog, wanted)
    if there is not None and wanted.id in (None, there.id):
        return Decision((), {"id": there.id})
    _check_mode(catalog, subject, wanted)
    new = _parsed(catalog, parser, subject, wanted, strict=True)
    content = replace(wanted.content, text=new.text)
    if not importing:
        content = _as_given_or_inherited(catalog, subject, content)[-1]
        _check_compatible(catalog, parser, subject, new)
    version = SchemaVersion(
        subject=subject,
        version=_version(catalog, subject, wanted.version, importing),
        id=_id(catalog, content, wanted),
        content=content,
    )
    there = catalog.version((subject, version.version))
    if there == version:
        return Decision((), {"id": version.id})
    if there is not None:
        _check_same(there, version)
    return Decision((*_superseded(catalog, version), version), {"id": version.id})


def _there(catalog: Catalog, parser: Parser, subject: str, wanted: Wanted) -> SchemaVersion | None:
    if wanted.version is None:
        return find(catalog, parser, subject, wanted)
    found = catalog.version((subject, wanted.version))
    return found if found is not None and not found.deleted and found.content == wanted.content else None


def _check_mode(catalog: Catalog, subject: str, wanted: Wanted) -> None:
    check_writable(catalog, subject)
    mode = catalog.mode(subject)
    if wanted.id is not None and mode != IMPORT:
        raise refusals.not_permitted(
            f"Subject {subject} is in mode {mode}: an id can be set in mode {IMPORT} only"
        )
    if wanted.id is None and mode != READWRITE:
        raise refusals.not_permitted(f"Subject {subject} is in mode {mode}, not {READWRITE}")


def _check_compatible(catalog: Catalog, parser: Parser, subject: str, new: Parsed) -> None:
    level = _level(catalog, subject)
    found = _problems(catalog, parser, level, new, catalog.versions(subject))
    if found:
        raise refusals.incompatible(subject, level, found)


def _version(catalog: Catalog, subject: str, wanted: int | None, importing: bool) -> int:
    following = max(catalog.subjects.get(subject, ()), default=0) + 1
    if wanted is None or wanted == following:
        return following
    if not importing:
        raise refusals.schema_invalid(f"version {wanted} is not the next version, which is {following}")
    return wanted


def _id(catalog: Catalog, content: Content, wanted: Wanted) -> int:
    if wanted.id is None:
        known = catalog.id_of(content)
        if known is None and catalog.highest_id >= _HIGHEST_ID:
            raise refusals.store_unfit(f"id {_HIGHEST_ID} is taken, and ids are never used again")
        return catalog.highest_id + 1 if known is None else known
    if wanted.id > catalog.highest_id + _FARTHEST and not wanted.force:
        raise refusals.schema_invalid(
            f"id {wanted.id} is more than {_FARTHEST} above the highest id, {catalog.highest_id}: the ids between "
            "them would never be used; set force=true to accept it"
        )
    holder = catalog.contents.get(wanted.id)
    if holder is not None and holder != content:
        raise refusals.not_permitted(
            f"id {wanted.id} belongs to another schema, and cannot be assigned to a second one"
        )
    return wanted.id


def _check_same(there: SchemaVersion, new: SchemaVersion) -> None:
    """Raise RegistryError unless a version number in use, also of a soft-deleted version, gets the same schema.

    Another schema in its place would take its id from all readers, and its schema from whatever references it.
    """
    if (there.id, there.content) != (new.id, new.content):
        what = "this schema" if there.content == new.content else "another schema"
        raise refusals.not_permitted(
            f"Version {there.version} of subject {there.subject} is {what} with id {there.id}; versions are never "
            "replaced; import it as another version"
        )


def _superseded(catalog: Catalog, new: SchemaVersion) -> list[Record]:
    """Return deletions of soft-deleted versions with the same schema, which is registered again."""
    return [
        VersionGone(subject=old.subject, version=old.version)
        for old in catalog.versions(new.subject, deleted=True)
        if old.deleted
        and old.id == new.id
        and old.version < new.version
        # Referencing schemas name the version, and could not be resolved any more.
        and not catalog.referrers((old.subject, old.version), deleted=True)
    ]


def compatible(
    catalog: Catalog, parser: Parser, subject: str, wanted: Wanted, against: Sequence[SchemaVersion]
) -> list[str]:
    """Return why a schema would not be accepted beside these versions. Raises RegistryError (invalid schema)."""
    new = _parsed(catalog, parser, subject, _numbered(catalog, wanted), strict=True)
    return _problems(catalog, parser, _level(catalog, subject), new, against)


def _level(catalog: Catalog, subject: str) -> str:
    return str(catalog.config(subject)["compatibilityLevel"]).upper()


def _problems(
    catalog: Catalog, parser: Parser, level: str, new: Parsed, previous: Sequence[SchemaVersion]
) -> list[str]:
    if level == "NONE":
        return []
    if not level.endswith("_TRANSITIVE"):
        previous = previous[-1:]
    parsed = []
    for each in previous:
        try:
            parsed.append(parser.parsed(catalog, each.content))
        except refusals.RegistryError as error:
            if error.is_for_now:
                raise
            # That is no verdict on the new schema, so it is not reported as one.
            raise refusals.level_invalid(
                f"Compatibility level {level} cannot be checked: version {each.version} cannot be read "
                f"({error.message}). Delete that version, or set the level NONE."
            ) from error
    try:
        return compatibility.problems(level, new, parsed)
    except compatibility.LevelNotSupported as error:
        raise refusals.level_invalid(str(error)) from error
