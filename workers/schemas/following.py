"""Bringing one target up to the primary: read both to their ends, compare, append, read back.

    lock of the target's writer -> is the primary still the primary? -> read both -> compare -> append -> read back

The lock is the one that the registry's writer of that cluster takes (`backend/registry/writing.py`), so a cluster
that becomes the primary meanwhile is no longer written to from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from sqlalchemy import Engine

from backend.domain.schemas.subjects import Translation
from backend.eventlog.held_lock import HeldLock
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.schemas.schemas_topic import SchemasTopic
from backend.queries.schemas.schemas import WantedSchemas, wanted_schemas
from backend.registry.catalog import Catalog
from backend.registry.distribution import Difference, compare
from backend.registry.mirror import Mirror
from backend.registry.records import COPIED_HEADER, Record
from backend.registry.writing import READ_SECONDS, writing_schemas

_ROUNDS = 3
MOST_AT_ONCE = 5000
"""Records that are written before the lock is released."""
_CHUNK_RECORDS = 500
_CHUNK_BYTES = 4 * 1024 * 1024


class NotThere(KafkaCallFailed):
    """A cluster's schemas cannot be read, or written, now."""


class Follower:
    """Brings one target up to the primary; used by one thread. Raises KafkaCallFailed, DatabaseUnavailable."""

    def __init__(
        self, engine: Engine, mirrors: Mapping[str, Mirror], target: str, changes: Callable[[], object]
    ) -> None:
        self._engine, self._mirrors, self.target = engine, mirrors, target
        self._changes = changes
        self.seen: object = None
        """Result of `changes` before the last comparison: while it is the same, there is nothing new."""

    def look(self, wanted: WantedSchemas) -> Difference:
        """Return the difference that is already known, without a request to a cluster."""
        self.seen = self._changes()
        # A future primary must have all subjects.
        takes_all = wanted.record_names or (wanted.move is not None and wanted.move.cluster == self.target)
        translation = translation_between(wanted, wanted.primary, self.target, record_names=takes_all)
        with self.catalogs(wanted.primary) as (primary, target):
            return compare(primary, target, translation, self.room)

    @property
    def room(self) -> int | None:
        """Return the bytes that the target accepts as one record, None while that is unknown."""
        topic = self._mirrors[self.target].topic
        return None if topic is None else topic.room

    def follow(self, primary: str, held: Sequence[HeldLock] = ()) -> Difference | None:
        """Write what is missing; return what is still missing then. None: the primary has changed meanwhile.

        `held` are locks of the caller's, which have to be checked now and then to be kept.
        """
        with writing_schemas(self._engine, self.target) as lock:
            wanted = wanted_schemas(lock.connection)
            if wanted is None or wanted.primary != primary or not {primary, self.target} <= wanted.leaves.keys():
                return None
            for _ in range(_ROUNDS):
                if self._mirrors[primary].reason is None:
                    self.read_to_end(primary)
                check_held(lock, *held)
                self.read_to_end(self.target)
                found = self.look(wanted)
                if not found.records:
                    break
                self.append(found.records[:MOST_AT_ONCE], lock, *held)
            return found

    def append(self, records: Sequence[Record], *held: HeldLock) -> None:
        """Append to the target and read it back, under these locks. Raises LockLost."""
        topic, mirror = self._topic(self.target), self._mirrors[self.target]
        topic_id, _ = topic.end()
        offset = 0
        with mirror.lock.reading():
            entries = [*mirror.catalog.key_spellings.encoded(records)]
        for chunk in _chunks(entries):
            check_held(*held)
            offset = topic.append(chunk, COPIED_HEADER)[-1]
        check_held(*held)
        if not mirror.wait_for(topic_id, offset + 1, READ_SECONDS):
            raise NotThere(f"{self.target}: the records written were not read back in time")

    def read_to_end(self, cluster: str) -> None:
        """Read a cluster's log to its present end."""
        topic_id, end = self._topic(cluster).end()
        if not self._mirrors[cluster].wait_for(topic_id, end, READ_SECONDS):
            raise NotThere(f"{cluster}: the schemas topic was not read in time")

    @contextmanager
    def catalogs(self, source: str) -> Iterator[tuple[Catalog, Catalog]]:
        """Yield the catalogs of a source and of the target, which do not change meanwhile."""
        with ExitStack() as held:
            # In one order for all threads, so that no two wait for each other.
            for name in sorted((source, self.target)):
                held.enter_context(self._mirrors[name].lock.reading())
            yield self._mirrors[source].catalog, self._mirrors[self.target].catalog

    def _topic(self, cluster: str) -> SchemasTopic:
        topic = self._mirrors[cluster].topic
        if topic is None:
            raise NotThere(f"{cluster}: its schemas topic is being opened")
        return topic


def check_held(*locks: HeldLock) -> None:
    """Check that all of these locks are still held. Raises LockLost."""
    for lock in locks:
        lock.check()


def translation_between(
    wanted: WantedSchemas, source: str, target: str, *, record_names: bool = True
) -> Translation:
    """Return the translation from one leaf's subjects to another's."""
    leaves = wanted.leaves
    source_format, target_format = leaves[source].subject_format, leaves[target].subject_format
    return Translation(source_format, target_format, wanted.streams, record_names=record_names)


def _chunks(entries: Sequence[tuple[bytes, bytes | None]]) -> Iterator[list[tuple[bytes, bytes | None]]]:
    chunk: list[tuple[bytes, bytes | None]] = []
    size = 0
    for key, value in entries:
        length = len(key) + len(value or b"")
        if chunk and (len(chunk) == _CHUNK_RECORDS or size + length > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append((key, value))
        size += length
    if chunk:
        yield chunk
