"""Comparison of the primary's schemas with a target's: the records that the target lacks, and conflicts.

Pure, and computed from both catalogs, not from what was written before: after a crash, a restart or an
interruption it is computed again, and after it was carried out nothing is left to do. Ids, versions, types, texts
and deletions are kept; subjects get their names on the target, also inside references
(`domain/schemas/subjects.py`).

What others wrote on a target stays: only versions that carry our header, or equal the primary's in every respect,
are changed or deleted. Anything in the way is a conflict, and delays nothing but what references it. A copied
version that the primary no longer has is deleted only if the primary says so: it deleted the version, or has its
schema under another name. A primary that lost its schemas must not make all others delete them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from backend.domain.schemas.schema_conflicts import (
    ID_TAKEN,
    NAME_TAKEN,
    ONLY_THERE,
    RECORD_NAME,
    REFERS_TO_CONFLICT,
    TOO_LARGE,
    VERSION_TAKEN,
    Conflict,
)
from backend.domain.schemas.subjects import Translation
from backend.registry.catalog import Catalog, VersionKey
from backend.registry.deleting import gone
from backend.registry.records import ConfigSet, ModeSet, Noop, Record, SchemaVersion, VersionGone, encode

_LISTED = 20


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Records that a target lacks, in an order in which every prefix is consistent, and conflicts for the rest."""

    records: tuple[Record, ...]
    conflicts: tuple[Conflict, ...]
    subjects: int
    """Number of the primary's subjects that the target is to have."""


def compare(
    primary: Catalog, target: Catalog, translation: Translation, most_bytes: int | None = None
) -> Difference:
    """Return the records to append to a target's log, all with our header, so that it follows the primary.

    `most_bytes`: limit of a record's key and value there.
    """
    return _Comparison(primary, target, translation, most_bytes).made()


class _Comparison:
    def __init__(
        self, primary: Catalog, target: Catalog, translation: Translation, most_bytes: int | None
    ) -> None:
        self._primary, self._target, self._translation = primary, target, translation
        self._most_bytes = most_bytes
        self._names = _Names(translation)
        self._conflicts: list[Conflict] = []
        self._losers: set[str] = set()
        self._wanted: dict[VersionKey, SchemaVersion] = {}
        self._blocked: set[VersionKey] = set()
        self._refers_to_loser: dict[VersionKey, str] = {}

    def made(self) -> Difference:
        subjects = self._choose_names()
        for name in sorted(subjects):
            for version in self._primary.versions(subjects[name], deleted=True):
                self._wanted[name, version.version] = _renamed(version, self._names)
                for reference in version.content.references:
                    if reference.subject in self._losers:
                        self._refers_to_loser[name, version.version] = reference.subject
        changed = [key for key in self._wanted if not self._is_there(key)]
        freed = self._check(changed, subjects)
        ordered = _in_order(changed, self._wanted)
        self._block_referrers(ordered)
        records: list[Record] = [VersionGone(subject=subject, version=number) for subject, number in sorted(freed)]
        records += [self._wanted[key] for key in ordered if key not in self._blocked]
        records += [
            VersionGone(subject=subject, version=number)
            for subject, number in sorted(self._blocked & self._target.overruled)
            if self._target.version((subject, number)) is None
        ]
        records += self._fitting(self._settings(subjects))
        records += self._deletions(freed)
        if self._target.highest_id < self._primary.highest_id:
            written = (each.id for each in records if isinstance(each, SchemaVersion))
            if max(written, default=0) < self._primary.highest_id:
                records.append(Noop(highest_id=self._primary.highest_id))
        return Difference(records=tuple(records), conflicts=tuple(sorted(self._conflicts)), subjects=len(subjects))

    def _choose_names(self) -> dict[str, str]:
        """Return name on the target -> subject of the primary.

        The name belongs to the stream that has it there, then to the subject that has it already.
        """
        found: dict[str, list[str]] = {}
        for subject in self._primary.subjects:
            found.setdefault(self._names(subject), []).append(subject)
        chosen = {}
        for name, rivals in found.items():
            chosen[name] = rivals[0]
            if len(rivals) > 1:
                chosen[name] = min(rivals, key=lambda subject: self._claim(name, subject))
                self._losers.update(set(rivals) - {chosen[name]})
                self._conflicts += [
                    Conflict(
                        kind=NAME_TAKEN,
                        subject=subject,
                        detail=f"{subject} would have the name {name} there, which {chosen[name]} already has",
                    )
                    for subject in rivals
                    if subject != chosen[name]
                ]
        return chosen

    def _claim(self, name: str, subject: str) -> tuple[bool, bool, bool, str]:
        # Otherwise a subject by record name would take a name from a stream that is declared later.
        there = {each.id for each in self._target.versions(name, deleted=True) if self._is_copied(each)}
        has_it = any(each.id in there for each in self._primary.versions(subject, deleted=True))
        translation = self._translation
        return not translation.fits(subject), not translation.follows_topic(subject), not has_it, subject

    def _is_copied(self, version: SchemaVersion) -> bool:
        return (version.subject, version.version) in self._target.copied

    def _is_there(self, key: VersionKey) -> bool:
        return key in self._target.copied and self._target.version(key) == self._wanted[key]

    def _check(self, changed: Iterable[VersionKey], subjects: Mapping[str, str]) -> set[VersionKey]:
        """Record versions that must not be written; return our versions to delete first, holding a wanted id."""
        freed: set[VersionKey] = set()
        for key in changed:
            wanted, there = self._wanted[key], self._target.version(key)
            if not self._translation.carries(subjects[key[0]]):
                self._block(key, RECORD_NAME, "no environment of the tree allows subjects by record name")
                continue
            if there is not None and key not in self._target.copied and not _same_schema(there, wanted):
                self._block(key, VERSION_TAKEN, f"it was registered there by others, with id {there.id}")
                continue
            unfit = self._unfit(wanted)
            if unfit is not None:
                self._block(key, TOO_LARGE, unfit)
                continue
            holder = self._target.contents.get(wanted.id)
            if holder is None or holder.text == wanted.content.text:
                continue
            users = self._target.used_by(wanted.id)
            strangers = [each for each in users if not self._is_copied(each)]
            if strangers:
                other = f"version {strangers[0].version} of {strangers[0].subject}"
                self._block(key, ID_TAKEN, f"id {wanted.id} belongs to another schema there, {other}")
            else:
                freed.update((each.subject, each.version) for each in users)
        return freed

    def _unfit(self, record: Record) -> str | None:
        """Return why a record cannot be written there, None if it can; such a record must not delay others."""
        try:
            size = sum(len(part or b"") for part in encode(record))
        except UnicodeEncodeError as error:
            return f"it is not valid text: {error.reason}"
        if self._most_bytes is None or size <= self._most_bytes:
            return None
        return f"it has {size} bytes, and the limit of the topic there is {self._most_bytes} (max.message.bytes)"

    def _fitting(self, settings: Sequence[ConfigSet | ModeSet]) -> list[Record]:
        found: list[Record] = []
        for each in settings:
            unfit = self._unfit(each)
            if unfit is None:
                found.append(each)
                continue
            subject = each.subject or "global"
            detail = f"the setting of {subject} is not written: {unfit}"
            self._conflicts.append(Conflict(kind=TOO_LARGE, subject=subject, detail=detail))
        return found

    def _block(self, key: VersionKey, kind: str, why: str) -> None:
        subject, number = key
        self._blocked.add(key)
        schema_id = self._wanted[key].id
        detail = f"version {number} of {subject} (id {schema_id}) is not written: {why}"
        self._conflicts.append(
            Conflict(kind=kind, subject=subject, version=number, schema_id=schema_id, detail=detail)
        )

    def _block_referrers(self, ordered: Iterable[VersionKey]) -> None:
        """Hold back versions whose references a reader would resolve to a foreign schema, or not at all.

        A version that was there before its conflict is reported and stays.
        """
        for key, loser in sorted(self._refers_to_loser.items()):
            if key in self._blocked:
                continue
            self._block(key, REFERS_TO_CONFLICT, f"it references {loser}, whose name is taken there")
            there = self._target.version(key)
            if there is not None and key in self._target.copied and _same_schema(there, self._wanted[key]):
                self._blocked.discard(key)
        for key in ordered:
            if key in self._blocked:
                continue
            for reference in self._wanted[key].content.references:
                if (reference.subject, reference.version) in self._blocked:
                    other = f"version {reference.version} of {reference.subject}"
                    self._block(key, REFERS_TO_CONFLICT, f"it references {other}, which is missing there")
                    break

    def _settings(self, subjects: Mapping[str, str]) -> list[ConfigSet | ModeSet]:
        """Add the primary's configuration and modes, of its subjects and global."""
        primary, target = self._primary, self._target
        records: list[ConfigSet | ModeSet] = []
        configs = {self._named(each): said for each, said in primary.configs.items() if each not in self._losers}
        for name in sorted(configs.keys() | target.configs.keys(), key=str):
            if name in configs and target.configs.get(name) != configs[name]:
                records.append(ConfigSet(subject=name, fields=configs[name]))
            elif name not in configs and (name is None or name in subjects or name in target.copied_configs):
                records.append(ConfigSet(subject=name, fields=None))
        modes = {self._named(each): mode for each, mode in primary.modes.items() if each not in self._losers}
        for name in sorted(modes.keys() | target.modes.keys(), key=str):
            if name in modes and target.modes.get(name) != modes[name]:
                records.append(ModeSet(subject=name, mode=modes[name]))
            elif name not in modes and (name is None or name in subjects or name in target.copied_modes):
                records.append(ModeSet(subject=name, mode=None))
        return records

    def _named(self, subject: str | None) -> str | None:
        return None if subject is None else self._names(subject)

    def _deletions(self, freed: set[VersionKey]) -> list[Record]:
        """Add deletions of copies that the primary no longer has.

        Versions that only the target has are reported, and stay.
        """
        # Two subjects may have had the same name there, one after the other.
        deleted: dict[VersionKey, set[int | None]] = {}
        for (subject, number), ids in self._primary.gone.items():
            deleted.setdefault((self._names(subject), number), set()).update(ids)
        for subject in self._losers:
            # The copy there may be of an older version with the same number.
            for version in self._primary.versions(subject, deleted=True):
                deleted.setdefault((self._names(subject), version.version), set()).add(None)
        going: list[SchemaVersion] = []
        alone: dict[str, list[SchemaVersion]] = {}
        for there in self._target.all_versions():
            key = (there.subject, there.version)
            if key in freed:
                continue
            wanted = self._wanted.get(key)
            if wanted is not None:
                # Its place is wanted by another version, which is held back.
                is_over = key in self._blocked and self._is_copied(there) and not _same_schema(there, wanted)
            else:
                is_over = self._is_copied(there) and self._is_over(there, deleted)
            if is_over:
                going.append(there)
            elif wanted is None:
                alone.setdefault(there.subject, []).append(there)
        for subject, versions in alone.items():
            listed = ", ".join(f"{each.version} (id {each.id})" for each in versions[:_LISTED])
            more = ", ..." if len(versions) > _LISTED else ""
            detail = f"{subject} has versions that the primary does not have: {listed}{more}"
            self._conflicts.append(Conflict(kind=ONLY_THERE, subject=subject, detail=detail))
        by_key = {(each.subject, each.version): each for each in going}
        ordered = [by_key[key] for key in reversed(_in_order(by_key, by_key))]
        return gone(self._target, ordered) if ordered else []

    def _is_over(self, there: SchemaVersion, deleted: Mapping[VersionKey, set[int | None]]) -> bool:
        if deleted.get((there.subject, there.version), set()) & {None, there.id}:
            return True
        elsewhere = self._primary.contents.get(there.id)
        return elsewhere is not None and elsewhere.text == there.content.text


class _Names:
    """Cache of translated names; a subject is translated with each of its versions and references."""

    def __init__(self, translation: Translation) -> None:
        self._translation = translation
        self._known: dict[str, str] = {}

    def __call__(self, subject: str) -> str:
        found = self._known.get(subject)
        if found is None:
            found = self._known[subject] = self._translation.translate(subject)
        return found


def _renamed(version: SchemaVersion, names: Callable[[str], str]) -> SchemaVersion:
    content, name = version.content, names(version.subject)
    if any(names(each.subject) != each.subject for each in content.references):
        references = tuple(replace(each, subject=names(each.subject)) for each in content.references)
        content = replace(content, references=references)
    if name == version.subject and content is version.content:
        return version
    return replace(version, subject=name, content=content)


def _same_schema(one: SchemaVersion, other: SchemaVersion) -> bool:
    return one.id == other.id and one.content.text == other.content.text


def _in_order(keys: Iterable[VersionKey], versions: Mapping[VersionKey, SchemaVersion]) -> list[VersionKey]:
    """Sort by subject and version, but references, and earlier versions of the subject, come first."""
    waiting = sorted(keys)
    before = {late: early for early, late in pairwise(waiting) if early[0] == late[0]}
    known = frozenset(waiting)
    done: dict[VersionKey, None] = {}
    entered: set[VersionKey] = set()
    for first in waiting:
        stack = [first]
        while stack:
            key = stack[-1]
            if key in entered:
                stack.pop()
                done.setdefault(key)
                continue
            entered.add(key)
            needed: Sequence[VersionKey] = [
                (each.subject, each.version) for each in versions[key].content.references
            ]
            if key in before:
                needed = [*needed, before[key]]
            stack += [each for each in needed if each in known and each not in entered]
    return list(done)
