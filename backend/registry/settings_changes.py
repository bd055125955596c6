"""Changes of compatibility levels and modes, of one subject or global (subject None)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.registry import refusals
from backend.registry.catalog import Catalog
from backend.registry.deleting import gone
from backend.registry.known_settings import DEFAULT_COMPATIBILITY, IMPORT, LEVELS, MODES, READWRITE
from backend.registry.records import ConfigSet, ModeSet, Record, SchemaVersion, SubjectCleared
from backend.registry.registering import Decision, check_writable

_FLAGS = ("normalize",)


def set_config(catalog: Catalog, subject: str | None, wanted: Mapping[str, Any]) -> Decision:
    """Change the given settings and keep the rest; the answer is the subject's own configuration afterwards.

    Raises RegistryError, also for settings that only Confluent's registry supports: ignoring them silently would
    be worse.
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    # Stock clients send the level under either name.
    level = given.pop("compatibility", None) or given.pop("compatibilityLevel", None)
    given.pop("compatibilityLevel", None)
    unknown = sorted(given.keys() - {*_FLAGS})
    if unknown:
        raise refusals.unprocessable(f"this registry does not support the setting {unknown[0][:60]!r}")
    if any(not isinstance(given[flag], bool) for flag in given):
        raise refusals.unprocessable("normalize must be true or false")
    check_writable(catalog, subject)
    fields = {**catalog.configs.get(subject, {}), **given}
    if level is not None:
        fields["compatibilityLevel"] = _level(level)
    return Decision((ConfigSet(subject=subject, fields=fields),), _as_requested(fields))


def _level(wanted: Any) -> str:
    level = str(wanted).upper()
    if level not in LEVELS:
        listed = ", ".join(sorted(LEVELS))
        raise refusals.level_invalid(
            f"{str(wanted)[:60]!r} is not a valid compatibility level. Valid values are {listed}"
        )
    return level


def _as_requested(fields: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(fields)
    if "compatibilityLevel" in shown:
        shown["compatibility"] = shown.pop("compatibilityLevel")
    return shown


def delete_config(catalog: Catalog, subject: str | None) -> Decision:
    """Delete a configuration; the answer is its former value. Raises RegistryError."""
    was = catalog.configs.get(subject)
    if was is None and subject is not None:
        raise refusals.subject_unknown(subject)
    check_writable(catalog, subject)
    records = () if was is None else (ConfigSet(subject=subject, fields=None),)
    return Decision(records, {"compatibilityLevel": DEFAULT_COMPATIBILITY, **(was or {})})


def set_mode(catalog: Catalog, subject: str | None, wanted: Any, *, force: bool) -> Decision:
    """Set a mode. Raises RegistryError.

    IMPORT needs a subject without schemas, unless it is forced: imported ids must not collide with others.
    """
    mode = str(wanted).upper()
    if mode not in MODES:
        raise refusals.mode_invalid(
            f"{str(wanted)[:60]!r} is not a valid mode. Valid values are {', '.join(MODES)}"
        )
    records: list[Record] = []
    if mode == IMPORT and catalog.mode(subject) != IMPORT and not force:
        records = _cleared(catalog, subject)
    return Decision((*records, ModeSet(subject=subject, mode=mode)), {"mode": mode})


def _cleared(catalog: Catalog, subject: str | None) -> list[Record]:
    of_all = [each for each in catalog.all_versions() if subject in (None, each.subject)]
    if any(not each.deleted for each in of_all):
        raise refusals.not_permitted("There are schemas already; set force=true to set the mode nevertheless")
    going = {(each.subject, each.version) for each in of_all}
    for each in of_all:
        _check_unreferred(catalog, each, going)
    return [*gone(catalog, of_all), SubjectCleared(subject=subject)]


def _check_unreferred(catalog: Catalog, version: SchemaVersion, going: set[tuple[str, int]]) -> None:
    referrers = catalog.referrers((version.subject, version.version), deleted=True)
    if any((each.subject, each.version) not in going for each in referrers):
        raise refusals.referred_to(version.subject, version.version)


def delete_mode(catalog: Catalog, subject: str | None) -> Decision:
    """Delete a mode; the answer is its former value. Raises RegistryError."""
    was = catalog.modes.get(subject)
    if was is None and subject is not None:
        raise refusals.subject_unknown(subject)
    records = () if was is None else (ModeSet(subject=subject, mode=None),)
    return Decision(records, {"mode": was or READWRITE})
