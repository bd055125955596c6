"""What a change would do, as its form says it before anybody confirms it: what a dry run has shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.web.forms.same_change import SameChange
from backend.web.words.differences import Line


@dataclass(frozen=True)
class FieldEffect:
    """A field before and after; `before` None: the thing is new."""

    name: str
    before: str | None
    after: str

    @property
    def changes(self) -> bool:
        return self.before is not None and self.before != self.after


@dataclass(frozen=True)
class NameOn:
    """What a stream is called on one cluster; `problem`: why that cannot be."""

    cluster: str
    topic: str
    subject: str
    problem: str | None = None


@dataclass(frozen=True)
class Ask:
    """What is typed below the preview, and stands on no page after that: a password."""

    label: str
    name: str
    autocomplete: str
    longest: int
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What would be different. `fields` are all of the thing; `nothing`: all of it is so already."""

    sentence: str
    same: SameChange | None
    """None: it can be done nowhere else."""
    fields: tuple[FieldEffect, ...] = ()
    names: tuple[NameOn, ...] = ()
    notes: tuple[str, ...] = ()
    due: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(cluster, what an application is to be allowed there)."""
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(heading, lines) of what there is to say besides."""
    hunks: tuple[tuple[Line, ...], ...] = ()
    """Of a text, the lines that change."""
    nothing: bool = False
    confirm: str = ""
    """What has to be typed below the preview before it is done; empty: nothing."""
    asks: tuple[Ask, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    """Fields that the preview's form has besides what was typed: what is to be so still when it is done."""


def fields_of(after: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> tuple[FieldEffect, ...]:
    """Field by field, in the order of `after`."""
    return tuple(
        FieldEffect(name, None if before is None else str(before.get(name, "–")), str(value))
        for name, value in after.items()
    )


def listed(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
