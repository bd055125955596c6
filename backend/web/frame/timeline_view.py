"""Events as pages show them: as one line, in full, and with the changes of configuration since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from backend.eventlog.recorded import StoredEvent
from backend.queries.base.differences import Difference
from backend.queries.base.names_of_events import Names, names_in
from backend.queries.base.settings_before import Settings, settings_before
from backend.web.words.field_words import label, value_text
from backend.web.words.figures import clock, day, shortened
from backend.web.words.sentences import TROUBLES, sentence

_LONGEST_VALUE = 400
_BEFORE_IT = 60


@dataclass(frozen=True)
class TimelineItem:
    """One event of the timeline."""

    position: int
    time: str
    day: str
    at: datetime
    stream: str
    name: str
    actor: str
    sentence: str
    trouble: bool


def timeline_items(connection: Connection, events: Iterable[StoredEvent]) -> list[TimelineItem]:
    """Return one item for each event."""
    found = list(events)
    before, names = settings_before(connection, found), names_in(connection, found)
    return [in_line(event, before.get(event.position), names) for event in found]


def timeline_item(connection: Connection, event: StoredEvent) -> TimelineItem:
    """Return the item for an event."""
    return timeline_items(connection, [event])[0]


def in_line(event: StoredEvent, before: Settings | None, names: Names) -> TimelineItem:
    """Return the item for an event; `before`: the settings that it replaced; `names`: names in place of ids."""
    return TimelineItem(
        position=event.position,
        time=clock(event.time),
        day=day(event.time),
        at=event.time,
        stream=event.stream,
        name=event.name,
        actor=event.metadata.actor,
        sentence=sentence(event.name, event.stream, event.data, before, names),
        trouble=event.name in TROUBLES,
    )


def stored(event: StoredEvent) -> str:
    """Return the stored event as readable text."""
    return json.dumps(event.data, indent=2, ensure_ascii=False, sort_keys=True)


@dataclass(frozen=True)
class Field:
    """One field of a resource, before and after."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Changed:
    """A resource that was changed, added or removed."""

    kind: str
    name: str
    change: str
    fields: Sequence[Field]


def changed(found: Difference) -> Changed:
    """Return a difference with one line for each field."""
    return Changed(found.kind, found.name, found.change, list(_fields(found)))


def _fields(found: Difference) -> Iterator[Field]:
    for name in found.before or found.after or ():
        before, after = (value_text(name, row and row[name]) for row in (found.before, found.after))
        if before != after:  # otherwise unset fields of an added or removed resource
            yield Field(label(name), *_cut(before, after))


def _cut(before: str, after: str) -> tuple[str, str]:
    """Shorten long texts to begin a little before they differ."""
    same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    skipped = max(0, same - _BEFORE_IT) if max(len(before), len(after)) > _LONGEST_VALUE else 0
    old, new = (f"…{text[skipped:]}" if skipped else text for text in (before, after))
    return shortened(old, _LONGEST_VALUE), shortened(new, _LONGEST_VALUE)
