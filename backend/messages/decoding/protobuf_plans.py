"""Plans for decoding Protobuf message types: their fields, and how these are shown in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from backend.messages.decoding import readable_values

_KIND = FieldDescriptor
Show = Callable[[Any], Any]


class Field:
    """A field of a message type."""

    def __init__(self, descriptor: FieldDescriptor, plans: Plans) -> None:
        self.number, self.type, self.name = descriptor.number, descriptor.type, descriptor.json_name
        self.is_repeated, self.has_presence = descriptor.is_repeated, descriptor.has_presence
        self._message_type, self._plans = descriptor.message_type, plans
        self.is_message = self._message_type is not None
        self.is_map = self._message_type is not None and self._message_type.GetOptions().map_entry
        self.show = _show(descriptor)
        self.symbol_characters = _symbol_characters(descriptor)
        oneof = descriptor.containing_oneof
        self.rivals = [each.number for each in oneof.fields if each is not descriptor] if oneof else []
        """Numbers of the other fields of its oneof: only the last one of these in a message counts."""
        self._default = None if self.is_message or self.is_repeated else descriptor.default_value

    @cached_property
    def message(self) -> Plan:
        """Return the plan of its message type, which may be the one that has this field."""
        assert self._message_type is not None
        return self._plans.plan(self._message_type)

    def default(self) -> Any:
        """Return what JSON shows where a message lacks it, for a field without presence."""
        if self.is_map:
            return {}
        return [] if self.is_repeated else self.show(self._default)


@dataclass(frozen=True)
class Plan:
    """A message type: its name and its fields by number, in the order of their declaration."""

    name: str
    fields: Mapping[int, Field]

    @cached_property
    def cost(self) -> int:
        """Return how many values a message without fields counts as: its defaults, and what walking it takes."""
        return max(sum(not field.has_presence for field in self.fields.values()), len(self.fields) // 10)

    @cached_property
    def types(self) -> dict[int, int]:
        """Return number -> type of its fields: who defines a type may choose any name for it."""
        return {number: field.type for number, field in self.fields.items()}


class Plans:
    """Plans of a schema's message types, made when they are first needed."""

    def __init__(self) -> None:
        self._known: dict[str, Plan] = {}

    def plan(self, descriptor: Descriptor) -> Plan:
        """Return the plan of a message type."""
        name = descriptor.full_name
        if name not in self._known:
            fields = [Field(each, self) for each in descriptor.fields]
            self._known[name] = Plan(name, {each.number: each for each in fields})
        return self._known[name]


def _symbol_characters(descriptor: FieldDescriptor) -> int:
    """Return the length of the longest name that a value of an enum is shown by."""
    if descriptor.enum_type is None:
        return 0
    return max(len(value.name) for value in descriptor.enum_type.values)


def _show(descriptor: FieldDescriptor) -> Show:
    if descriptor.enum_type is not None:
        # The first of several names for a number is the one that is shown.
        names = {value.number: value.name for value in reversed(list(descriptor.enum_type.values))}
        return lambda number: names.get(number, number)
    match descriptor.type:
        case _KIND.TYPE_DOUBLE:
            return readable_values.floating
        case _KIND.TYPE_FLOAT:
            return readable_values.single
        case _KIND.TYPE_BYTES:
            return readable_values.in_base64
    return lambda value: value
