"""The effect of a change, as its form previews it: the result of a dry run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.web.forms.same_change import SameChange
from backend.web.words.differences import Line


@dataclass(frozen=True)
class FieldEffect:
    """A field before and after; `before` None: the resource is new."""

    name: str
    before: str | None
    after: str

    @property
    def changes(self) -> bool:
        return self.before is not None and self.before != self.after


@dataclass(frozen=True)
class NameOn:
    """Name of a stream on one cluster; `problem`: why that name is not possible."""

    cluster: str
    topic: str
    subject: str
    problem: str | None = None


@dataclass(frozen=True)
class Ask:
    """A question below the preview whose answer is shown on no later page: a password."""

    label: str
    name: str
    autocomplete: str
    longest: int
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Effect of a change. `fields` are all of the resource; `nothing`: it is in that state already."""

    sentence: str
    same: SameChange | None
    """The same change by other means; None: there are none."""
    fields: tuple[FieldEffect, ...] = ()
    names: tuple[NameOn, ...] = ()
    notes: tuple[str, ...] = ()
    due: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(cluster, permissions to be applied there for an application)."""
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(heading, lines) of additional information."""
    hunks: tuple[tuple[Line, ...], ...] = ()
    """Changed lines of a text."""
    nothing: bool = False
    confirm: str = ""
    """Text to type below the preview to confirm; empty: none."""
    asks: tuple[Ask, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    """Fields of the preview's form besides the user's input: facts that must still hold at confirmation."""


def fields_of(after: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> tuple[FieldEffect, ...]:
    """Return field by field, in the order of `after`."""
    return tuple(
        FieldEffect(name, None if before is None else str(before.get(name, "–")), str(value))
        for name, value in after.items()
    )


def listed(names: Iterable[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
