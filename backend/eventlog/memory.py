"""In-memory twin of the event log, for simulations; tests/postgres/eventlog holds it to PostgreSQL's behaviour."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from backend.domain.base.event import Event
from backend.eventlog.recorded import (
    EMPTY,
    Head,
    Metadata,
    RecordedEvent,
    StoredEvent,
    Write,
    chain,
    entries_of,
    with_event,
)
from backend.eventlog.registry import EventRegistry
from backend.eventlog.verification import ChainCheck, Verification


class MemoryEventLog:
    """Event log with the methods and errors of PostgresEventLog, without transactions; one thread at a time."""

    def __init__(self, registry: EventRegistry) -> None:
        self._registry = registry
        self._stored: list[StoredEvent] = []

    def lock(self) -> Head:
        return self.head()

    def head(self) -> Head:
        return Head(self._stored[-1].position, self._stored[-1].hash) if self._stored else EMPTY

    def version(self, stream: str) -> int:
        return sum(stored.stream == stream for stored in self._stored)

    def append(
        self,
        stream: str,
        expected_version: int,
        new_events: Sequence[Event],
        *,
        metadata: Metadata,
        time: datetime,
    ) -> list[RecordedEvent]:
        return self.append_all([Write(stream, expected_version, new_events, metadata, time)])

    def append_all(self, writes: Sequence[Write]) -> list[RecordedEvent]:
        versions = {write.stream: self.version(write.stream) for write in writes}
        stored = list(chain(self.head(), versions, entries_of(self._registry, versions, writes)))
        self._stored += stored
        added = [event for write in writes for event in write.events]
        return [RecordedEvent(**vars(each), event=event) for each, event in zip(stored, added, strict=True)]

    def read(
        self, stream: str, *, after_version: int = 0, until_position: int | None = None
    ) -> list[RecordedEvent]:
        return [
            with_event(stored, self._registry)
            for stored in self._stored
            if stored.stream == stream
            and stored.version > after_version
            and (until_position is None or stored.position <= until_position)
        ]

    def feed(
        self,
        after: int,
        limit: int,
        stream_prefix: str | None = None,
        *,
        names: Collection[str] | None = None,
    ) -> list[RecordedEvent]:
        rows = self.stored(after, limit, stream_prefix, names=names)
        return [with_event(stored, self._registry) for stored in rows]

    def stored(
        self,
        after: int,
        limit: int,
        stream_prefix: str | None = None,
        *,
        names: Collection[str] | None = None,
    ) -> list[StoredEvent]:
        found = [
            stored
            for stored in self._stored
            if stored.position > after
            and stored.stream.startswith(stream_prefix or "")
            and (names is None or stored.name in names)
        ]
        return found[:limit]

    def verify(self, expected_head: Head | None = None) -> Verification:
        check = ChainCheck(self.head(), expected_head)
        return check.read(self._stored) or check.finish(self.head())
