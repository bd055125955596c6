"""The base of every domain event.

An event is a frozen, keyword-only dataclass in the past tense. It carries its stored name and schema
version explicitly, so that renaming a class never renames history:

    @dataclass(frozen=True, kw_only=True)
    class TargetSwitched(Event, name="DistributorTargetSwitched", version=1):
        cluster: str
"""

from __future__ import annotations

from typing import ClassVar


class Event:
    """A fact of the past; fields hold JSON-able values, tuples and nested frozen dataclasses only."""

    stored_name: ClassVar[str]
    schema_version: ClassVar[int]

    def __init_subclass__(cls, *, name: str = "", version: int = 0, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        # dataclass(slots=True) creates the class a second time without keywords: keep what was declared.
        if name:
            cls.stored_name = name
            cls.schema_version = version
