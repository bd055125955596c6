"""An event as the log stores it, and the hash chain over all events."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from backend.domain.base.event import Event
from backend.eventlog import canonical
from backend.eventlog.faults import NotStorable, WrongExpectedVersion
from backend.eventlog.registry import EventRegistry


@dataclass(frozen=True)
class Metadata:
    """Actor and request that caused an event; `causation` names what led to it (a switch, a barrier)."""

    actor: str
    request_id: str
    causation: str | None = None


@dataclass(frozen=True)
class Head:
    """Position and hash of the newest event; an exported head shows later whether the tail was cut."""

    position: int
    hash: str


EMPTY = Head(0, "0" * 64)


@dataclass(frozen=True)
class Entry:
    """An event on its way into the log, without position, version or hash yet. `data` holds JSON types."""

    stream: str
    name: str
    schema_version: int
    data: Mapping[str, Any]
    metadata: Metadata
    time: datetime

    @classmethod
    def of(cls, registry: EventRegistry, stream: str, event: Event, metadata: Metadata, time: datetime) -> Entry:
        return cls(stream, event.stored_name, event.schema_version, registry.encode(event), metadata, time)


@dataclass(frozen=True)
class Write:
    """Events for the end of one stream, which must be at `expected_version` (0: a new stream)."""

    stream: str
    expected_version: int
    events: Sequence[Event]
    metadata: Metadata
    time: datetime


@dataclass(frozen=True)
class StoredEvent:
    """One row of the log, as it was written. `position` counts from 1 over the log, `version` in the stream."""

    position: int
    stream: str
    version: int
    name: str
    schema_version: int
    data: Mapping[str, Any]
    metadata: Metadata
    time: datetime
    previous_hash: str
    hash: str


@dataclass(frozen=True)
class RecordedEvent(StoredEvent):
    """A row together with its event in the current shape; `data` stays as stored."""

    event: Event


def with_event(stored: StoredEvent, registry: EventRegistry) -> RecordedEvent:
    """Decode and upcast a stored event; raises EventUnreadable with its position."""
    event = registry.decode(stored.name, stored.schema_version, stored.data)
    return RecordedEvent(**vars(stored), event=event)


def entries_of(registry: EventRegistry, versions: Mapping[str, int], writes: Iterable[Write]) -> list[Entry]:
    """Return the entries to be chained, if each stream is where its write expects it after the writes before.

    `versions` are the streams' current versions. Raises WrongExpectedVersion.
    """
    reached = dict(versions)
    entries = []
    for write in writes:
        actual = reached.get(write.stream, 0)
        if actual != write.expected_version:
            raise WrongExpectedVersion(write.stream, write.expected_version, actual)
        reached[write.stream] = actual + len(write.events)
        entries += [Entry.of(registry, write.stream, event, write.metadata, write.time) for event in write.events]
    return entries


def chain(head: Head, versions: MutableMapping[str, int], entries: Iterable[Entry]) -> Iterator[StoredEvent]:
    """Yield entries with their positions, versions and hashes after `head`; `versions` is kept up to date.

    Raises NotStorable for values that the database would return changed.
    """
    for entry in entries:
        canonical.check(entry.stream, "stream")
        canonical.check(entry.data, entry.name)
        canonical.check(asdict(entry.metadata), "metadata")
        if not entry.stream:
            raise NotStorable("A stream needs a name")
        if entry.time.tzinfo is None:
            raise NotStorable(f"{entry.name}: its time has no time zone")
        version = versions.get(entry.stream, 0) + 1
        unhashed = StoredEvent(
            position=head.position + 1,
            stream=entry.stream,
            version=version,
            name=entry.name,
            schema_version=entry.schema_version,
            data=entry.data,
            metadata=entry.metadata,
            time=entry.time.astimezone(UTC),
            previous_hash=head.hash,
            hash="",
        )
        stored = StoredEvent(**{**vars(unhashed), "hash": hash_of(unhashed)})
        versions[entry.stream] = version
        head = Head(stored.position, stored.hash)
        yield stored


def hash_of(stored: StoredEvent) -> str:
    """Return SHA-256 (hex) over all of a row but its own hash; the previous row's hash makes it a chain."""
    content = {
        "position": stored.position,
        "stream": stored.stream,
        "version": stored.version,
        "name": stored.name,
        "schema_version": stored.schema_version,
        "data": stored.data,
        "metadata": asdict(stored.metadata),
        "time": stored.time.astimezone(UTC).isoformat(timespec="microseconds"),
        "previous_hash": stored.previous_hash,
    }
    return hashlib.sha256(canonical.encode(content)).hexdigest()
