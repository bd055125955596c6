"""Parsing of registered schemas, together with their direct and indirect references."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from backend.registry import refusals
from backend.registry.catalog import Catalog
from backend.registry.formats.schema_types import (
    CheckUnfinished,
    Parsed,
    Referenced,
    SchemaInvalid,
    normalized,
    parse,
)
from backend.registry.records import LATEST_VERSION, Content, Reference, SchemaVersion

_MOST_KEPT = 500
_MOST_KEPT_CHARACTERS = 16 * 1024 * 1024
"""Characters of the cached schemas' texts; parsed schemas take several times as much."""
_DEEPEST = 100

_Key = tuple[Content, tuple[Referenced, ...], bool]


class Parser:
    """Parses a catalog's schemas and caches the most recently used ones; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, Parsed] = OrderedDict()
        self._kept_characters = 0

    def sent(self, catalog: Catalog, content: Content, *, normalize: bool, strict: bool) -> Parsed:
        """Parse a schema for a look-up or a registration (`strict`). Raises RegistryError (invalid schema)."""
        try:
            # First as strictly as for a new schema: usually it is new, and is then parsed only once.
            found = self.parsed(catalog, content, strict=True)
        except refusals.RegistryError as refusal:
            if strict or refusal.is_for_now:
                raise
            found = self.parsed(catalog, content)
        try:
            return normalized(found) if normalize else found
        except SchemaInvalid as error:
            raise refusals.schema_invalid(str(error)) from error
        except CheckUnfinished as error:
            raise refusals.not_checked(str(error)) from error

    def parsed(self, catalog: Catalog, content: Content, *, strict: bool = False) -> Parsed:
        """Parse a stored schema.

        Raises RegistryError (invalid schema), also if a referenced version is not registered.
        """
        key = (content, tuple(referenced(catalog, content)), strict)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        try:
            found = parse(content.kind, content.text, key[1], strict=strict)
        except SchemaInvalid as error:
            raise refusals.schema_invalid(str(error)) from error
        except CheckUnfinished as error:
            raise refusals.not_checked(str(error)) from error
        with self._lock:
            self._keep(key, found)
        return found

    def _keep(self, key: _Key, found: Parsed) -> None:
        if key not in self._kept:
            self._kept_characters += len(key[0].text)
        self._kept[key] = found
        while len(self._kept) > _MOST_KEPT or self._kept_characters > _MOST_KEPT_CHARACTERS:
            (dropped, _, _), _ = self._kept.popitem(last=False)
            self._kept_characters -= len(dropped.text)


def referred(catalog: Catalog, reference: Reference) -> SchemaVersion:
    """Return the version that a reference names. Raises RegistryError (invalid schema)."""
    if reference.version == LATEST_VERSION:
        version = next(reversed(catalog.versions(reference.subject)), None)
    else:
        version = catalog.version((reference.subject, reference.version))
    if version is None:
        raise not_registered(reference)
    return version


def at_versions(catalog: Catalog, content: Content) -> Content:
    """Replace references to the latest version by the version's number.

    As newer Confluent registries store them: the meaning of a schema must not change. Raises RegistryError
    (invalid schema).
    """
    if all(each.version != LATEST_VERSION for each in content.references):
        return content
    numbered = (replace(each, version=referred(catalog, each).version) for each in content.references)
    return replace(content, references=tuple(numbered))


def not_registered(reference: Reference) -> refusals.RegistryError:
    """Return the one error for a reference to a missing version, and to one that is hidden from the sender."""
    return refusals.schema_invalid(
        f"the reference {reference.name!r} is to version {reference.version} of subject "
        f"{reference.subject!r}, which is not registered"
    )


def referenced(catalog: Catalog, content: Content) -> list[Referenced]:
    """Return all references of a schema, each after its own references; soft-deleted versions count.

    Raises RegistryError (invalid schema), also if a referenced version is not registered, or hidden.
    """
    seen: set[Reference] = set()
    found: list[Referenced] = []

    def add(needs: Content, depth: int) -> None:
        if depth > _DEEPEST:
            raise refusals.schema_invalid(f"its references are nested more than {_DEEPEST} schemas deep")
        for reference in needs.references:
            # Also those being resolved: records of other registries may have a cycle of references.
            if reference in seen:
                continue
            seen.add(reference)
            version = referred(catalog, reference)
            add(version.content, depth + 1)
            text, kind = version.content.text, version.content.kind
            found.append(Referenced(**vars(reference), text=text, kind=kind))

    add(content, 0)
    return found
