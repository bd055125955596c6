"""Deletion of subjects and versions: a soft delete, after which ids still resolve, then a permanent one.

Referenced schemas cannot be deleted. Ids are never used again: if the highest one is deleted permanently, a record
keeps it, since compaction would remove the trace of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from backend.registry import refusals
from backend.registry.catalog import Catalog
from backend.registry.reading import version_of
from backend.registry.records import ConfigSet, ModeSet, Noop, Record, SchemaVersion, SubjectDeleted, VersionGone
from backend.registry.registering import Decision, check_writable


def delete_subject(catalog: Catalog, subject: str, *, permanent: bool) -> Decision:
    """Delete all versions of a subject; the answer is their numbers. Raises RegistryError."""
    if not catalog.versions(subject, deleted=True):
        raise refusals.subject_unknown(subject)
    versions = catalog.versions(subject, deleted=permanent)
    if not versions:
        raise refusals.subject_deleted_already(subject)
    check_writable(catalog, subject)
    for each in versions:
        # References within the subject do not count: all its versions are deleted together.
        if any(other.subject != subject for other in _referrers(catalog, each, permanent)):
            raise refusals.referred_to(subject, each.version)
    numbers = [each.version for each in versions]
    if not permanent:
        return Decision((SubjectDeleted(subject=subject, version=numbers[-1]),), numbers)
    if not all(each.deleted for each in versions):
        raise refusals.subject_not_deleted_first(subject)
    # The newest first, so that no version is left without its references if this is interrupted.
    return Decision((*gone(catalog, versions[::-1]), *_settings_gone(catalog, subject)), numbers)


def delete_version(catalog: Catalog, subject: str, wanted: str, *, permanent: bool) -> Decision:
    """Delete one version; the answer is its number. Raises RegistryError."""
    version = version_of(catalog, subject, wanted, deleted=True)
    if version.deleted and not permanent:
        raise refusals.version_deleted_already(subject, version.version)
    check_writable(catalog, subject)
    if _referrers(catalog, version, permanent):
        raise refusals.referred_to(subject, version.version)
    if not permanent:
        return Decision((replace(version, deleted=True),), version.version)
    if not version.deleted:
        raise refusals.version_not_deleted_first(subject, version.version)
    records = gone(catalog, [version])
    if len(catalog.subjects[subject]) == 1:
        records += _settings_gone(catalog, subject)
    return Decision(tuple(records), version.version)


def _referrers(catalog: Catalog, version: SchemaVersion, permanent: bool) -> list[SchemaVersion]:
    return catalog.referrers((version.subject, version.version), deleted=permanent)


def gone(catalog: Catalog, versions: Sequence[SchemaVersion]) -> list[Record]:
    """Return the records that delete versions permanently."""
    going = {(each.subject, each.version) for each in versions}
    records: list[Record] = [VersionGone(subject=each.subject, version=each.version) for each in versions]
    is_noted = catalog.noted_id == catalog.highest_id
    if not is_noted and all((each.subject, each.version) in going for each in catalog.used_by(catalog.highest_id)):
        records.insert(0, Noop(highest_id=catalog.highest_id))
    return records


def _settings_gone(catalog: Catalog, subject: str) -> list[Record]:
    """Return the records that delete a subject's configuration and mode; a new subject starts without them."""
    records: list[Record] = []
    if subject in catalog.modes:
        records.append(ModeSet(subject=subject, mode=None))
    if subject in catalog.configs:
        records.append(ConfigSet(subject=subject, fields=None))
    return records
