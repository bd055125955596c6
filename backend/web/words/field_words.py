"""Labels and values of resources' fields, as forms and pages show them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from backend.domain.base.words import lasting
from backend.web.words.figures import NOTHING
from backend.web.words.units import size_shown

QUOTAS = {
    "producer_bytes_per_second": "Producer quota (bytes/s)",
    "consumer_bytes_per_second": "Consumer quota (bytes/s)",
    "request_percentage": "Request handler quota (%)",
}
# Other fields are labelled by their names.
_CALLED: Mapping[str, str] = {
    **QUOTAS,
    "away_minutes": "Minutes until an unreachable broker counts as left",
    "bytes_per_second": "Maximum bytes per second",
    "cleanup_policy": "Cleanup policy",
    "defaults": "Default replicas",
    "config": "Other topic settings",
    "events": "Events",
    "groups": "Consumer groups",
    "margin_seconds": "Margin (seconds)",
    "max_message_bytes": "Maximum message size",
    "min_insync_replicas": "min.insync.replicas",
    "moves_per_broker": "Concurrent moves per broker",
    "policy": "Action",
    "properties": "Client properties",
    "record_name_subjects": "Subjects by record name",
    "retention_ms": "Retention",
    "url": "URL",
}
# Counters of a resource, not settings.
_COUNTS = frozenset({"revision", "version"})


def label(field: str) -> str:
    """Return the label of a field, such as `Retention`."""
    return _CALLED.get(field) or field.replace("_", " ").capitalize()


def value_text(field: str, value: Any) -> str:
    """Return a value as text, such as `7 days`; – for None."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and field in ("retention_ms", "max_message_bytes"):
        return lasting(value) if field == "retention_ms" else size_shown(value)
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def describe_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Describe the fields that differ, such as `retention: 7 days → 4 days`; empty if none do."""
    return "; ".join(_differing(before, after))


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for field, value in after.items():
        old = before.get(field, value)
        if old == value or field in _COUNTS:
            continue
        name = label(field)
        if isinstance(old, dict) and isinstance(value, dict):
            if field == "config":  # keys that are left out have the cluster's own value
                for key in sorted(key for key in {*old, *value} if old.get(key) != value.get(key)):
                    yield f"{key}: {old.get(key, 'not declared')} → {value.get(key, 'not declared')}"
            elif field == "properties":  # their values may be secrets, and are long
                keys = sorted(key for key in {*old, *value} if old.get(key) != value.get(key))
                yield f"{_lowered(name)}: {', '.join(keys)} changed"
            else:
                yield from _differing(old, value)
        else:
            new, was = (value_text(field, each) if each is not None else "none" for each in (value, old))
            yield f"{_lowered(name)}: {was} → {new}"


def _lowered(name: str) -> str:
    return name if name == "URL" else f"{name[0].lower()}{name[1:]}"
