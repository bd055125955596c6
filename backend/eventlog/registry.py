"""Mapping between stored name and schema version, event class, and the JSON of its events."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError

import backend.domain
from backend.domain.base.event import Event
from backend.eventlog import canonical
from backend.eventlog.faults import EventUnreadable, NotStorable
from backend.eventlog.upcasters import UPCASTERS, Upcasters


class EventRegistry:
    """One class per stored name, at its newest schema version; older versions are raised by upcasters."""

    def __init__(self, upcasters: Upcasters | None = None) -> None:
        self._upcasters = upcasters or Upcasters()
        self._classes: dict[str, type[Event]] = {}
        self._adapters: dict[str, TypeAdapter[Any]] = {}

    def register(self, cls: type[Event]) -> type[Event]:
        """Add a class; raises ValueError if it declares no name and version, or if the name is taken."""
        name: str = getattr(cls, "stored_name", "")
        if not name or cls.schema_version < 1:
            raise ValueError(f"{cls.__qualname__} declares no stored name and version")
        if name in self._classes:
            raise ValueError(f"{name} is both {self._classes[name].__qualname__} and {cls.__qualname__}")
        self._classes[name] = cls
        self._adapters[name] = TypeAdapter(cls)
        return cls

    def register_module(self, module: ModuleType) -> None:
        """Add every event class that `module` itself defines."""
        for cls in vars(module).values():
            if (
                isinstance(cls, type)
                and issubclass(cls, Event)
                and cls.__module__ == module.__name__
                and hasattr(cls, "stored_name")
            ):
                self.register(cls)

    @property
    def classes(self) -> Mapping[str, type[Event]]:
        """Return every registered class by its stored name."""
        return dict(self._classes)

    def encode(self, event: Event) -> dict[str, Any]:
        """Return the event's fields as JSON types.

        Raises ValueError for a class that is not registered, and NotStorable for a value that does not fit its
        field: nobody could read such an event again.
        """
        if self._classes.get(event.stored_name) is not type(event):
            raise ValueError(f"{type(event).__qualname__} is not registered")
        adapter = self._adapters[event.stored_name]
        # Not mode="json": that turns NaN into null silently; as it is, `canonical.check` refuses it.
        fields: dict[str, Any] = adapter.dump_python(event, warnings="none")
        data = {name: canonical.plain(value) for name, value in fields.items()}
        try:
            adapter.validate_python(data)
        except ValidationError as error:
            raise NotStorable(f"{event.stored_name} does not fit its class: {error}") from error
        return data

    def decode(self, name: str, version: int, data: Mapping[str, Any]) -> Event:
        """Return the event in its newest shape; raises EventUnreadable."""
        cls = self._classes.get(name)
        if cls is None:
            raise EventUnreadable(f"This program does not know events named {name}")
        if version > cls.schema_version:
            raise EventUnreadable(f"{name} version {version} comes from a newer program")
        try:
            raised = self._upcasters.raise_to(cls.schema_version, name, version, data)
            event: Event = self._adapters[name].validate_python(dict(raised))
        except (LookupError, ValidationError) as error:
            raise EventUnreadable(f"{name} version {version} does not fit its class: {error}") from error
        return event


@cache
def domain_registry() -> EventRegistry:
    """Return a registry of all events in backend/domain, found by import so that none can be forgotten."""
    registry = EventRegistry(UPCASTERS)
    for found in pkgutil.walk_packages(backend.domain.__path__, "backend.domain."):
        registry.register_module(import_module(found.name))
    return registry
