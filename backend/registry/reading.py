"""Answers to reads from a catalog: the documents of Confluent's API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from backend.registry import refusals
from backend.registry.catalog import Catalog
from backend.registry.records import Content, SchemaVersion, shown

LATEST = -1
_VERSION = re.compile(r"-?[0-9]{1,10}")
_HIGHEST_VERSION = 2**31 - 1


def version_number(text: str) -> int:
    """Return the version in a path; LATEST for the latest. Raises RegistryError."""
    plain = text.strip().lower()
    if plain in ("latest", str(LATEST)):
        return LATEST
    if not _VERSION.fullmatch(plain) or not 1 <= int(plain) <= _HIGHEST_VERSION:
        raise refusals.version_invalid(text)
    return int(plain)


def version_of(catalog: Catalog, subject: str, wanted: str, *, deleted: bool) -> SchemaVersion:
    """Return one version; the latest is never a soft-deleted one. Raises RegistryError."""
    number = version_number(wanted)
    if not catalog.versions(subject, deleted=deleted):
        raise refusals.subject_unknown(subject)
    if number == LATEST:
        found = next(reversed(catalog.versions(subject)), None)
    else:
        found = catalog.version((subject, number))
    if found is None or (found.deleted and not deleted):
        raise refusals.version_unknown(number)
    return found


def version_shown(version: SchemaVersion) -> dict[str, Any]:
    """Return a version of a subject with its schema."""
    named = {"subject": version.subject, "version": version.version, "id": version.id}
    mark = {"deleted": True} if version.deleted else {}
    return {**named, **shown(version.content), **mark}


def schema_by_id(
    catalog: Catalog,
    schema_id: int,
    subject: str | None,
    *,
    with_highest: bool,
    formatted: Callable[[Content], Content],
) -> dict[str, Any]:
    """Return the schema with an id, deleted or not; for a subject that has it, with the version there.

    Raises RegistryError.
    """
    content = catalog.contents.get(schema_id)
    if content is None:
        raise refusals.schema_unknown(schema_id)
    answer = {}
    of_subject = [each for each in catalog.used_by(schema_id) if each.subject == subject]
    if of_subject:
        newest = max(of_subject, key=lambda each: each.version)
        content = newest.content
        answer = {"subject": newest.subject, "version": newest.version}
    answer |= shown(formatted(content))
    return {**answer, "maxId": catalog.highest_id} if with_highest else answer


def versions_by_id(catalog: Catalog, schema_id: int, *, deleted: bool) -> list[dict[str, Any]]:
    """Return the versions that have an id. Raises RegistryError."""
    if schema_id not in catalog.contents:
        raise refusals.schema_unknown()
    used = sorted(catalog.used_by(schema_id), key=lambda each: (each.subject, each.version))
    return [{"subject": each.subject, "version": each.version} for each in used if deleted or not each.deleted]


def subjects_by_id(catalog: Catalog, schema_id: int, *, deleted: bool) -> list[str]:
    """Return the subjects that have an id. Raises RegistryError."""
    return list(dict.fromkeys(each["subject"] for each in versions_by_id(catalog, schema_id, deleted=deleted)))


def subjects(catalog: Catalog, prefix: str, *, deleted: bool, only_deleted: bool) -> list[str]:
    """Return subjects with this prefix; `only_deleted`: those whose versions are all soft-deleted."""
    found = []
    for name in sorted(catalog.subjects):
        if name.startswith(prefix):
            alive = bool(catalog.versions(name))
            if (not alive) if only_deleted else (alive or deleted):
                found.append(name)
    return found


def numbers(catalog: Catalog, subject: str, *, deleted: bool, only_deleted: bool, as_negative: bool) -> list[int]:
    """Return a subject's versions; on request only soft-deleted ones, or these as negative numbers.

    Raises RegistryError.
    """
    if not catalog.versions(subject, deleted=deleted or only_deleted):
        raise refusals.subject_unknown(subject)
    versions = catalog.versions(subject, deleted=True)
    if as_negative:
        return [-each.version if each.deleted else each.version for each in versions]
    if only_deleted:
        return [each.version for each in versions if each.deleted]
    return [each.version for each in versions if deleted or not each.deleted]


def schemas(catalog: Catalog, prefix: str, *, deleted: bool, latest_only: bool) -> list[dict[str, Any]]:
    """Return every version of the subjects with this prefix."""
    found = []
    for name in sorted(catalog.subjects):
        if name.startswith(prefix):
            versions = catalog.versions(name, deleted=deleted)
            found += [version_shown(each) for each in (versions[-1:] if latest_only else versions)]
    return found


def referring_ids(catalog: Catalog, subject: str, wanted: str, *, deleted: bool) -> list[int]:
    """Return ids of the schemas that reference a version. Raises RegistryError."""
    version = version_of(catalog, subject, wanted, deleted=True)
    return sorted({each.id for each in catalog.referrers((subject, version.version), deleted=deleted)})


def config(catalog: Catalog, subject: str | None, *, or_global: bool) -> Mapping[str, Any]:
    """Return a configuration. Raises RegistryError if the subject has none and `or_global` is not set."""
    if subject is not None and subject not in catalog.configs and not or_global:
        raise refusals.no_level_of_its_own(subject)
    return catalog.config(subject)


def mode(catalog: Catalog, subject: str | None, *, or_global: bool) -> dict[str, str]:
    """Return a mode. Raises RegistryError if the subject has none and `or_global` is not set."""
    if subject is not None and subject not in catalog.modes and not or_global:
        raise refusals.no_mode_of_its_own(subject)
    return {"mode": catalog.mode(subject)}
