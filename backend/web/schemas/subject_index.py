"""Rows of a cluster's subjects, kept from one request to the next.

Subjects are in memory, not in the database. Making and sorting the rows of 20,000 of them takes a second, so only
those are made anew that have changed since the last request.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Any

from backend.domain.names.names import StreamName
from backend.domain.schemas.subjects import SubjectOwners
from backend.registry.access import Scope
from backend.registry.catalog import Catalog
from backend.registry.records import SchemaVersion
from backend.web.tables.natural_order import natural
from backend.web.tables.table import Column, Table

# Clusters whose rows are kept; those of 20,000 subjects take some 20 MB.
_KEPT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRow:
    """A subject in a list."""

    name: str
    name_key: tuple[Any, ...]
    stream: StreamName | None
    stream_key: tuple[Any, ...] | None
    declared: bool = False
    """True if its stream still exists; known of shown rows only."""
    kind: str
    versions: int
    latest: int
    id: int
    level: str
    own_level: bool
    searched: str = ""
    """Text of all its cells, as the filter compares it."""


SUBJECTS_TABLE = Table[SubjectRow](
    "subjects",
    "subjects",
    (
        Column("name", "Subject", lambda each: each.name_key, lambda each: each.name),
        Column("stream", "Stream", lambda each: each.stream_key, lambda each: str(each.stream or "")),
        Column("type", "Type", lambda each: each.kind),
        Column("versions", "Versions", lambda each: each.versions, number=True),
        Column("latest", "Latest", lambda each: each.latest, number=True),
        Column("id", "Id", lambda each: each.id, number=True),
        Column("level", "Compatibility", lambda each: each.level),
    ),
    sort="name",
    within="subjects-part",
    searched=lambda each: each.searched,
)


@dataclass(frozen=True, slots=True)
class _Subject:
    """A subject with its present row; None if all its versions are soft-deleted."""

    name: str
    name_key: tuple[Any, ...]
    stream: StreamName | None
    row: SubjectRow | None
    same_since_ms: float
    """Moment from which the row has been as it is now; infinity if a version is soft-deleted."""


class SubjectIndex:
    """Rows of one catalog's subjects; `rows` is called under the catalog's lock, by any thread."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._changes = 0
        self._owners: SubjectOwners | None = None
        self._subjects: dict[str, _Subject] = {}
        self._orders: dict[str, Sequence[SubjectRow]] = {}
        """Order as in an address -> present rows."""

    def rows(self, scope: Scope, sort: str) -> Sequence[SubjectRow]:
        """Return the present rows that a caller may see, in an order of the table."""
        with self._lock:
            self._refresh(scope.owners)
            if sort not in self._orders:
                present = [each.row for each in self._subjects.values() if each.row is not None]
                self._orders[sort] = SUBJECTS_TABLE.sorted(present, sort)
            every = self._orders[sort]
        return every if scope.sees_all else [each for each in every if _sees(scope, each)]

    def rows_at(self, scope: Scope, until_ms: float) -> Sequence[SubjectRow]:
        """Return the rows of a moment that a caller may see, in any order."""
        with self._lock:
            self._refresh(scope.owners)
            every = list(self._subjects.values())
        found = (self._row_at(each, until_ms) for each in every)
        return [each for each in found if each is not None and _sees(scope, each)]

    def _refresh(self, owners: SubjectOwners) -> None:
        catalog = self._catalog
        if owners is self._owners and catalog.changes == self._changes:
            return
        changed = self._changed(owners)
        if changed is None:
            self._subjects, changed = {}, catalog.subjects
        for name in changed:
            versions = catalog.versions(name, deleted=True)
            if versions:
                self._subjects[name] = _subject(catalog, owners, versions)
            else:
                self._subjects.pop(name, None)
        self._owners, self._changes = owners, catalog.changes
        self._orders = {}

    def _changed(self, owners: SubjectOwners) -> Collection[str] | None:
        """Return the subjects that have changed, or whose stream has; None: any may have."""
        changed = self._catalog.changed_since(self._changes)
        if changed is None or owners is self._owners:
            return changed
        # There are new owners after each event about any stream; nearly all subjects follow the one of before.
        every = self._subjects.values()
        return {*changed, *(each.name for each in every if owners.stream_of(each.name) != each.stream)}

    def _row_at(self, subject: _Subject, until_ms: float) -> SubjectRow | None:
        if subject.same_since_ms <= until_ms:
            return subject.row
        versions = self._catalog.versions(subject.name, deleted=True)
        there = [each for each in versions if each.was_there(until_ms)]
        return _row(self._catalog, subject.stream, subject.name_key, there) if there else None


@lru_cache(_KEPT)
def index_of(catalog: Catalog) -> SubjectIndex:
    """Return the index of a catalog, the same one for each request."""
    return SubjectIndex(catalog)


def _sees(scope: Scope, row: SubjectRow) -> bool:
    return scope.sees(row.name) if row.stream is None else scope.sees_tenant(row.stream.tenant)


def _subject(catalog: Catalog, owners: SubjectOwners, versions: Sequence[SchemaVersion]) -> _Subject:
    name = versions[0].subject
    key, stream = natural(name), owners.stream_of(name)
    present = [each for each in versions if not each.deleted]
    since = max(each.written_ms for each in versions) if len(present) == len(versions) else inf
    return _Subject(name, key, stream, _row(catalog, stream, key, present) if present else None, since)


def _row(
    catalog: Catalog, stream: StreamName | None, name_key: tuple[Any, ...], versions: Sequence[SchemaVersion]
) -> SubjectRow:
    latest = versions[-1]
    row = SubjectRow(
        name=latest.subject,
        name_key=name_key,
        stream=stream,
        stream_key=None if stream is None else natural(str(stream)),
        kind=latest.content.kind,
        versions=len(versions),
        latest=latest.version,
        id=latest.id,
        level=level_of(catalog, latest.subject),
        own_level=has_level(catalog, latest.subject),
    )
    return replace(row, searched=SUBJECTS_TABLE.text_of(row))


def level_of(catalog: Catalog, subject: str | None) -> str:
    """Return the compatibility level in force."""
    return str(catalog.config(subject)["compatibilityLevel"]).upper()


def has_level(catalog: Catalog, subject: str) -> bool:
    """Tell whether the subject has a level of its own."""
    return "compatibilityLevel" in (catalog.configs.get(subject) or {})
