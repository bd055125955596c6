"""Events as pages show them: one in a line, one with all of it, and what is configured otherwise since."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from backend.eventlog.recorded import StoredEvent
from backend.queries.differences import Difference
from backend.web.figures import NOTHING, clock, day, shortened
from backend.web.sentences import TROUBLES, sentence

_LONGEST_VALUE = 400


@dataclass(frozen=True)
class TimelineItem:
    """An event as the timeline shows it."""

    position: int
    time: str
    day: str
    moment: str
    stream: str
    name: str
    actor: str
    sentence: str
    trouble: bool


def timeline_item(event: StoredEvent) -> TimelineItem:
    """In a line."""
    return TimelineItem(
        position=event.position,
        time=clock(event.time),
        day=day(event.time),
        moment=event.time.isoformat(timespec="milliseconds"),
        stream=event.stream,
        name=event.name,
        actor=event.metadata.actor,
        sentence=sentence(event.name, event.stream, event.data),
        trouble=event.name in TROUBLES,
    )


def stored(event: StoredEvent) -> str:
    """What was written, as text that people read."""
    return json.dumps(event.data, indent=2, ensure_ascii=False, sort_keys=True)


@dataclass(frozen=True)
class Field:
    """One field of a thing, before and after."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Changed:
    """A thing that is another one than before, was not there, or is there no more."""

    kind: str
    name: str
    change: str
    fields: Sequence[Field]


def changed(found: Difference) -> Changed:
    """With a field in each line."""
    return Changed(found.kind, found.name, found.change, list(_fields(found)))


def _fields(found: Difference) -> Iterator[Field]:
    for name in found.before or found.after or ():
        before, after = (row and row[name] for row in (found.before, found.after))
        if before is None and after is None:
            continue  # of what was added or removed: not set
        yield Field(name.replace("_", " "), _said(found.before, name), _said(found.after, name))


def _said(row: Any, name: str) -> str:
    if row is None or row[name] is None:
        return NOTHING
    value = row[name]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shortened(text, _LONGEST_VALUE)
