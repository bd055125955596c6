"""State of a schemas topic after its records were read in order: subjects, ids, configuration, modes.

Pure, and the same for all readers of the same log: the last record of a key counts, but an id keeps the first
schema that it was given to. A record that gives it to another schema does not count and is remembered as
`overruled`: compaction would one day leave only that record of its key, so the next writer writes the valid one
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from backend.registry.key_spellings import KeySpellings
from backend.registry.known_settings import DEFAULT_COMPATIBILITY, READONLY_OVERRIDE, READWRITE
from backend.registry.records import (
    LATEST_VERSION,
    ConfigSet,
    Content,
    ModeSet,
    Noop,
    Record,
    Reference,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    VersionGone,
)

VersionKey = tuple[str, int]
"""(subject, version)."""
K = TypeVar("K")
V = TypeVar("V")


class Catalog:
    """Schemas of one cluster. `apply` changes them; concurrent readers and appliers need a lock."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SchemaVersion]] = {}
        """Subject -> version -> version's content, including soft-deleted ones; no subject is empty."""
        self.contents: dict[int, Content] = {}
        """Id -> schema, as long as a version has the id."""
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        """Subject, None for the global one -> configuration as it was written."""
        self.modes: dict[str | None, str] = {}
        self.highest_id = 0
        """Highest id ever assigned, including those of deleted or overruled versions: the next id is above it."""
        self.noted_id = 0
        """Highest id by the log's last note: the note stays when the version that had the id is deleted."""
        self.gone: dict[VersionKey, set[int | None]] = {}
        """Permanently deleted versions, as far as they were read, with all ids that they had one after the other:
        a version number is used again. None: compaction had already removed the version itself."""
        self.overruled: set[VersionKey] = set()
        """Versions whose last record does not count."""
        self.copied: set[VersionKey] = set()
        """Versions whose last record was written by the schema distributor."""
        self.copied_configs: set[str | None] = set()
        self.copied_modes: set[str | None] = set()
        """Subjects, None for the global one, whose present configuration or mode the distributor wrote."""
        self.changes = 0
        """Number of changes that were applied."""
        self._changed: dict[str | None, int] = {}
        """Subject, None for all -> number of its last change, in the order of these numbers."""
        self.key_spellings = KeySpellings()
        """Other spellings of keys in the log that was read."""
        self._ids: dict[Content, set[int]] = {}
        self._uses: dict[int, dict[VersionKey, None]] = {}
        self._referrers: dict[VersionKey, dict[VersionKey, None]] = {}

    # --- reading

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """Return a subject's versions, oldest first; with `deleted` the soft-deleted ones, too."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def version(self, key: VersionKey) -> SchemaVersion | None:
        """Return one version, soft-deleted or not."""
        return self.subjects.get(key[0], {}).get(key[1])

    def all_versions(self) -> Iterator[SchemaVersion]:
        """Yield every version, by subject and number: equal catalogs give equal sequences."""
        for subject in sorted(self.subjects):
            yield from self.versions(subject, deleted=True)

    def id_of(self, content: Content) -> int | None:
        """Return the lowest id that a schema has."""
        return min(self._ids.get(content, ()), default=None)

    def used_by(self, schema_id: int) -> list[SchemaVersion]:
        """Return the versions that have an id, including soft-deleted ones, oldest record first."""
        return [self.subjects[subject][number] for subject, number in self._uses.get(schema_id, ())]

    def referrers(self, key: VersionKey, *, deleted: bool = False) -> list[SchemaVersion]:
        """Return the versions that reference a version; with `deleted` the soft-deleted ones, too."""
        who = {**self._referrers.get(key, {})}
        if (key[0], LATEST_VERSION) in self._referrers and self.versions(key[0])[-1:] == [self.version(key)]:
            who |= self._referrers[key[0], LATEST_VERSION]
        found = [self.subjects[subject][number] for subject, number in who]
        return [each for each in found if deleted or not each.deleted]

    def config(self, subject: str | None) -> Mapping[str, Any]:
        """Return the configuration in force for a subject: its own, or the global one.

        A level that neither has is the default.
        """
        found = self.configs.get(subject)
        if found is None:
            found = self.configs.get(None, {})
        return {"compatibilityLevel": DEFAULT_COMPATIBILITY, **found}

    def mode(self, subject: str | None) -> str:
        """Return the mode in force for a subject: its own, or the global one, which may override it."""
        if self.modes.get(None) == READONLY_OVERRIDE:
            return READONLY_OVERRIDE
        return self.modes.get(subject) or self.modes.get(None) or READWRITE

    def changed_since(self, change: int) -> list[str] | None:
        """Return the subjects whose versions or configuration have changed since then; None: any may have."""
        found: list[str] = []
        for subject, last in reversed(self._changed.items()):
            if last <= change:
                break
            if subject is None:
                return None
            found.append(subject)
        return found

    def repairs(self) -> list[Record]:
        """Return records that replace the last record of each overruled version by a valid one."""
        found: list[Record] = []
        for subject, number in sorted(self.overruled):
            found.append(self.version((subject, number)) or VersionGone(subject=subject, version=number))
        return found

    # --- applying

    def apply(self, record: Record, *, copied: bool = False, at_ms: int = 0) -> bool:
        """Apply the next record of the log, written at `at_ms`; return whether it counts."""
        if not isinstance(record, (ModeSet, Noop)):
            self.changes += 1
            self._changed.pop(record.subject, None)
            self._changed[record.subject] = self.changes
        match record:
            case SchemaVersion():
                return self._set(self._timed(record, at_ms), copied)
            case VersionGone(subject=subject, version=number):
                self._remove((subject, number))
            case ConfigSet(subject=subject, fields=fields):
                _set_or_remove(self.configs, subject, fields)
                _mark(self.copied_configs, subject, copied and fields is not None)
            case ModeSet(subject=subject, mode=mode):
                _set_or_remove(self.modes, subject, mode)
                _mark(self.copied_modes, subject, copied and mode is not None)
            case SubjectDeleted(subject=subject, version=last):
                for each in self.versions(subject):
                    if each.version <= last:
                        self._put(replace(each, deleted=True, deleted_ms=at_ms))
            case SubjectCleared(subject=subject):
                for name in [subject] if subject is not None else list(self.subjects):
                    for each in self.versions(name, deleted=True):
                        if each.deleted:
                            self._remove((name, each.version))
            case Noop(highest_id=highest):
                self.noted_id = highest or 0
                self.highest_id = max(self.highest_id, self.noted_id)
        return True

    def _timed(self, new: SchemaVersion, at_ms: int) -> SchemaVersion:
        """Keep the first time of a version that is written again, as when it is deleted or repaired."""
        old = self.version((new.subject, new.version))
        if old is None or (old.id, old.content) != (new.id, new.content):
            return replace(new, written_ms=at_ms, deleted_ms=at_ms if new.deleted else None)
        gone = old.deleted_ms if old.deleted else at_ms
        return replace(new, written_ms=min(old.written_ms, at_ms), deleted_ms=gone if new.deleted else None)

    def _set(self, new: SchemaVersion, copied: bool) -> bool:
        key = (new.subject, new.version)
        self.highest_id = max(self.highest_id, new.id)
        holder = self.contents.get(new.id)
        # By the text alone, as other registries do: other names of references do not make it another schema.
        if holder is not None and holder.text != new.content.text:
            self.overruled.add(key)
            return False
        self._forget(key)
        self._put(new)
        self.contents.setdefault(new.id, new.content)
        self._ids.setdefault(new.content, set()).add(new.id)
        self._uses.setdefault(new.id, {})[key] = None
        for reference in new.content.references:
            self._referrers.setdefault(_target(reference), {})[key] = None
        if copied:
            self.copied.add(key)
        return True

    def _put(self, version: SchemaVersion) -> None:
        self.subjects.setdefault(version.subject, {})[version.version] = version

    def _remove(self, key: VersionKey) -> None:
        old = self._forget(key)
        if old is None:
            self.gone.setdefault(key, {None})
            return
        self.gone.setdefault(key, set()).add(old.id)
        del self.subjects[old.subject][old.version]
        if not self.subjects[old.subject]:
            del self.subjects[old.subject]

    def _forget(self, key: VersionKey) -> SchemaVersion | None:
        """Remove a version from all indexes but the one by name."""
        self.overruled.discard(key)
        self.copied.discard(key)
        old = self.version(key)
        if old is None:
            return None
        uses = self._uses[old.id]
        del uses[key]
        if not uses:
            del self._uses[old.id], self.contents[old.id]
        else:
            # The oldest record that is left, which is the same one after compaction.
            subject, number = next(iter(uses))
            self.contents[old.id] = self.subjects[subject][number].content
        if not any(self.version(other).content == old.content for other in uses):  # type: ignore[union-attr]
            self._ids[old.content].discard(old.id)
            if not self._ids[old.content]:
                del self._ids[old.content]
        for target in set(map(_target, old.content.references)):
            del self._referrers[target][key]
            if not self._referrers[target]:
                del self._referrers[target]
        return old


def _target(reference: Reference) -> VersionKey:
    return reference.subject, reference.version


def _mark(marked: set[K], key: K, wanted: bool) -> None:
    if wanted:
        marked.add(key)
    else:
        marked.discard(key)


def _set_or_remove(found: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        found.pop(key, None)
    else:
        found[key] = value
