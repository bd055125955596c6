"""Writes of a caller: checked for permission, then carried out, or tried out, by the same rules.

The API's handlers carry them out; the console's pages try them out first (`Call.try_out`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.registry import registering, settings_changes
from backend.registry.calls import Call
from backend.registry.catalog import Catalog
from backend.registry.parsing import Parser
from backend.registry.registering import Decision, Wanted
from backend.registry.writing import Decide


def register(call: Call, subject: str, wanted: Wanted) -> Decide:
    """Return the registration of a schema. Raises RegistryError unless the caller may register it."""
    if call.scope is not None:
        call.scope.check_register(subject, wanted.content.references, brings_id=wanted.id is not None)

    def decide(catalog: Catalog, parser: Parser) -> Decision:
        if call.scope is not None:
            registering.check_references(call.scope.visible(catalog), wanted)
        return registering.register(catalog, parser, subject, wanted)

    return decide


def set_config(call: Call, subject: str | None, wanted: Mapping[str, Any]) -> Decide:
    """Return the change of a configuration, a subject's or the global one (None).

    Raises RegistryError unless permitted.
    """
    check_settings(call, subject)
    return lambda catalog, _: settings_changes.set_config(catalog, subject, wanted)


def delete_config(call: Call, subject: str | None) -> Decide:
    """Return the deletion of a configuration, a subject's or the global one (None).

    Raises RegistryError unless permitted.
    """
    check_settings(call, subject)
    return lambda catalog, _: settings_changes.delete_config(catalog, subject)


def check_settings(call: Call, subject: str | None, mode: object = None) -> None:
    """Raise RegistryError unless the caller may set a level or a mode of the subject, or the global one (None)."""
    if call.scope is not None:
        with call.registry.mirror.lock.reading():
            call.scope.check_settings(call.catalog, subject, mode)
