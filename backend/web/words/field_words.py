"""Fields of things in words: called as forms and pages call them, and their values as people say them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from backend.domain.base.words import lasting
from backend.web.words.figures import NOTHING
from backend.web.words.measures import size_shown

QUOTAS = {
    "producer_bytes_per_second": "Produces at most, bytes/s",
    "consumer_bytes_per_second": "Consumes at most, bytes/s",
    "request_percentage": "Request handlers at most, %",
}
# Of what is not here the name says it.
_CALLED: Mapping[str, str] = {
    **QUOTAS,
    "away_minutes": "Minutes until a broker that is away has left",
    "bytes_per_second": "Most bytes a second",
    "cleanup_policy": "Cleanup",
    "defaults": "Default replicas",
    "config": "Other topic settings",
    "events": "Told of",
    "groups": "Consumer groups",
    "margin_seconds": "Margin in seconds",
    "max_message_bytes": "Largest batch",
    "min_insync_replicas": "In-sync replicas needed",
    "moves_per_broker": "Moves at once, each broker",
    "policy": "What is done",
    "properties": "Client properties",
    "record_name_subjects": "Subjects by record name",
    "retention_ms": "Records are kept",
    "url": "Address",
}
# They count what is said of a thing, and are nothing that anybody sets.
_COUNTS = frozenset({"revision", "version"})


def called(field: str) -> str:
    """`Records are kept`."""
    return _CALLED.get(field) or field.replace("_", " ").capitalize()


def said(field: str, value: Any) -> str:
    """`7 days`; – for nothing."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and field in ("retention_ms", "max_message_bytes"):
        return lasting(value) if field == "retention_ms" else size_shown(value)
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def otherwise(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What differs of the fields that both have: `records are kept 4 days instead of 7 days`; nothing if none."""
    return "; ".join(_differing(before, after))


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for field, value in after.items():
        old = before.get(field, value)
        if old == value or field in _COUNTS:
            continue
        name = called(field)
        if isinstance(old, dict) and isinstance(value, dict):
            if field == "config":  # what is left out is the cluster's own
                for key in sorted(key for key in {*old, *value} if old.get(key) != value.get(key)):
                    yield f"{key} {value.get(key, 'not declared')} instead of {old.get(key, 'not declared')}"
            elif field == "properties":  # their values may be secrets, and are long
                keys = sorted(key for key in {*old, *value} if old.get(key) != value.get(key))
                yield f"{name[0].lower()}{name[1:]} {', '.join(keys)}"
            else:
                yield from _differing(old, value)
        else:
            new, was = (said(field, each) if each is not None else "none" for each in (value, old))
            yield f"{name[0].lower()}{name[1:]} {new} instead of {was}"
