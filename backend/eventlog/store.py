"""The event log in PostgreSQL. One store lives on one connection, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from backend.domain.base.event import Event
from backend.eventlog.recorded import (
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
from backend.eventlog.tables import event_log_head, events
from backend.eventlog.verification import ChainCheck, Verification

CHANNEL = "treeline_events"
VERIFY_PAGE_EVENTS = 5000


class PostgresEventLog:
    """Event log that appends at an expected version, reads one stream, or follows all streams in order."""

    def __init__(self, connection: Connection, registry: EventRegistry) -> None:
        self._connection = connection
        self._registry = registry

    def lock(self) -> Head:
        """Take the append lock until the transaction ends, and return the log's head.

        Without it two writers could draw positions 5 and 6 and commit 6 first. A reader that follows the feed
        would see 6, remember it as its place, and never see 5 when that commits. With the lock, positions have no
        gaps and commit in order. Raises LogBusy if the lock does not become free in time.
        """
        return Head(*self._connection.execute(_HEAD.with_for_update()).one())

    def head(self) -> Head:
        """Return position and hash of the newest event; position 0 for an empty log."""
        return Head(*self._connection.execute(_HEAD).one())

    def version(self, stream: str) -> int:
        """Return the stream's newest version, 0 if it has no events."""
        return self._versions([stream]).get(stream, 0)

    def append(
        self,
        stream: str,
        expected_version: int,
        new_events: Sequence[Event],
        *,
        metadata: Metadata,
        time: datetime,
    ) -> list[RecordedEvent]:
        """Append events to `stream`, which must be at `expected_version` (0: a new stream).

        Raises WrongExpectedVersion, NotStorable. The events become visible to others, and are announced, when the
        transaction commits.
        """
        return self.append_all([Write(stream, expected_version, new_events, metadata, time)])

    def append_all(self, writes: Sequence[Write]) -> list[RecordedEvent]:
        """Append several writes in order: all of them or, if it raises, none."""
        head = self.lock()
        versions = self._versions({write.stream for write in writes})
        stored = list(chain(head, versions, entries_of(self._registry, versions, writes)))
        if not stored:
            return []
        self._connection.execute(sa.insert(events), [row_of(each) for each in stored])
        move_head(self._connection, Head(stored[-1].position, stored[-1].hash))
        added = [event for write in writes for event in write.events]
        return [RecordedEvent(**vars(each), event=event) for each, event in zip(stored, added, strict=True)]

    def _versions(self, streams: Collection[str]) -> dict[str, int]:
        newest = sa.select(events.c.stream, sa.func.max(events.c.version).label("version"))
        rows = self._connection.execute(newest.where(events.c.stream.in_(streams)).group_by(events.c.stream))
        return {row.stream: row.version for row in rows}

    def read(
        self, stream: str, *, after_version: int = 0, until_position: int | None = None
    ) -> list[RecordedEvent]:
        """Return the events of one stream in order, as of `until_position` if given."""
        query = sa.select(events).where(events.c.stream == stream, events.c.version > after_version)
        if until_position is not None:
            query = query.where(events.c.position <= until_position)
        rows = self._connection.execute(query.order_by(events.c.version))
        return [with_event(stored_of(row), self._registry) for row in rows]

    def feed(
        self,
        after: int,
        limit: int,
        stream_prefix: str | None = None,
        *,
        names: Collection[str] | None = None,
    ) -> list[RecordedEvent]:
        """Return at most `limit` events of all streams after a position; only those of `names` if given."""
        rows = self.stored(after, limit, stream_prefix, names=names)
        return [with_event(stored, self._registry) for stored in rows]

    def stored(
        self,
        after: int,
        limit: int,
        stream_prefix: str | None = None,
        *,
        names: Collection[str] | None = None,
        streams: Collection[str] | None = None,
        below: Collection[str] = (),
    ) -> list[StoredEvent]:
        """Return rows like `feed`, but undecoded, for readers that must not fail on events of a newer program.

        Only events of `streams` if given, and of streams whose names begin with one of `below`.
        """
        query = sa.select(events).where(events.c.position > after)
        if stream_prefix is not None:
            query = query.where(events.c.stream.startswith(stream_prefix, autoescape=True))
        if names is not None:
            query = query.where(events.c.name.in_(names))
        if streams is not None:
            begun = (events.c.stream.startswith(each, autoescape=True) for each in below)
            query = query.where(sa.or_(events.c.stream.in_(streams), *begun))
        rows = self._connection.execute(query.order_by(events.c.position).limit(limit))
        return [stored_of(row) for row in rows]

    def verify(self, expected_head: Head | None = None) -> Verification:
        """Recompute the whole chain; with a head exported earlier, a tail cut since then shows, too."""
        check = ChainCheck(self.head(), expected_head)
        for page in self._pages():
            broken = check.read(page)
            if broken:
                return broken
        return check.finish(self.head())

    def _pages(self) -> Iterator[list[StoredEvent]]:
        after = -(1 << 62)  # rows at position 0 or below do not belong here either
        while page := self.stored(after, VERIFY_PAGE_EVENTS):
            yield page
            after = page[-1].position


_HEAD = sa.select(event_log_head.c.position, event_log_head.c.hash)


def move_head(connection: Connection, head: Head) -> None:
    """Record the newest event and announce it to listeners; both take effect when the caller commits."""
    announced = sa.func.pg_notify(CHANNEL, sa.cast(event_log_head.c.position, sa.Text))
    connection.execute(
        sa.update(event_log_head).values(position=head.position, hash=head.hash).returning(announced)
    )


def row_of(stored: StoredEvent) -> dict[str, object]:
    """Return the columns of one event."""
    return {**vars(stored), "metadata": asdict(stored.metadata)}


def stored_of(row: Row[Any]) -> StoredEvent:
    """Build an event from its columns in the table's order; by position, as folds read hundreds of thousands."""
    columns: tuple[Any, ...] = tuple(row)
    position, stream, version, name, schema_version, data, metadata, time, previous_hash, digest = columns
    return StoredEvent(
        position,
        stream,
        version,
        name,
        schema_version,
        data,
        _metadata_of(metadata),
        time.astimezone(UTC),
        previous_hash,
        digest,
    )


def _metadata_of(raw: Any) -> Metadata:
    if isinstance(raw, dict) and raw.keys() == _METADATA_FIELDS:
        return Metadata(**raw)
    # The row was tampered with: keep all of it, so that its hash differs from every hash that we ever wrote.
    return Metadata(actor="", request_id="", causation=f"unreadable metadata: {raw!r}")


_METADATA_FIELDS = {field.name for field in fields(Metadata)}
