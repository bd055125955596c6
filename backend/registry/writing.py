"""Writes to one cluster's schemas topic: one writer at a time, among all API processes.

    lock -> are we the primary? -> read up to the log's end -> decide -> append -> read it back -> answer

The lock (`backend/eventlog/held_lock.py`) can be lost while a record is in flight. Then the log's order decides:
an id keeps the first schema that it was given to, for every reader, so a writer that was overtaken finds its
record overruled when it reads it back, and decides again (decision 22).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Engine

from backend.domain.base.errors import ClusterUnreachable
from backend.eventlog import held_lock
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.held_lock import HeldLock, LockBusy
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.schemas.schemas_topic import OutcomeUnknown, RecordTooLarge, SchemasTopic
from backend.queries.tree.trees import primary_for
from backend.registry import refusals
from backend.registry.catalog import Catalog
from backend.registry.mirror import Mirror
from backend.registry.parsing import Parser
from backend.registry.records import Record, SchemaVersion
from backend.registry.registering import Decision

LOCK_SECONDS = 10.0
READ_SECONDS = 8.0
"""Seconds that a write waits for earlier writes, of any process, and then for its own records to be read back.
With the time of an append, all of it is less than the minute that clients wait for an answer."""
_ATTEMPTS = 3

Decide = Callable[[Catalog, Parser], Decision]


def writing_schemas(engine: Engine, cluster: str) -> AbstractContextManager[HeldLock]:
    """Hold the lock as the only writer of a cluster's schemas. Raises LockBusy, DatabaseUnavailable."""
    return held_lock.hold(engine, f"registry {cluster}", wait_seconds=LOCK_SECONDS)


class Writer:
    """Writer of one cluster in this process; threads share it."""

    def __init__(self, engine: Engine, mirror: Mirror) -> None:
        self._engine = engine
        self._mirror = mirror
        self._cluster = mirror.endpoint.name
        # A thread that waits for another one here holds no connection meanwhile.
        self._turn = threading.Lock()

    def write(self, decide: Decide, address_of: Callable[[str], str]) -> Any:
        """Carry out what `decide` makes of the catalog and answer.

        `address_of`: returns a cluster's registry address.

        Raises RegistryError: if `decide` refuses, if this is not the primary, or if the cluster or database does
        not answer.
        """
        topic = self._topic()
        if not self._turn.acquire(timeout=LOCK_SECONDS):
            raise refusals.timed_out(f"Other schemas are being written on {self._cluster}; try again.")
        try:
            with self._engine.connect() as connection:
                self._check_primary(connection, address_of)
            with writing_schemas(self._engine, self._cluster) as lock:
                self._check_primary(lock.connection, address_of)
                return self._write(lock, topic, decide)
        except LockBusy as error:
            raise refusals.timed_out(f"Other schemas are being written on {self._cluster}; try again.") from error
        except DatabaseUnavailable as error:
            raise refusals.store_failed(error.detail) from error
        except RecordTooLarge as error:
            raise refusals.too_large(str(error)) from error
        except OutcomeUnknown as error:
            raise refusals.timed_out(
                f"{self._cluster} did not confirm the write in time ({error}); try again."
            ) from error
        except KafkaCallFailed as error:
            refusal = refusals.store_unfit if error.is_lasting else refusals.store_failed
            raise refusal(f"{self._cluster}: {error}") from error
        except ClusterUnreachable as error:
            raise refusals.store_failed(f"{self._cluster}: {error.detail}") from error
        finally:
            self._turn.release()

    def try_out(self, decide: Decide, address_of: Callable[[str], str]) -> Any:
        """Return what `write` would answer, by what has been read so far; nothing is written.

        Raises RegistryError as `write` does, except for what only writing shows: others write, or a record is
        too large.
        """
        self._topic()
        try:
            with self._engine.connect() as connection:
                self._check_primary(connection, address_of)
        except DatabaseUnavailable as error:
            raise refusals.store_failed(error.detail) from error
        with self._mirror.lock.parsing():
            return decide(self._mirror.catalog, self._mirror.parser).answer

    def _topic(self) -> SchemasTopic:
        topic = self._mirror.topic
        if topic is None or self._mirror.reason is not None:
            raise refusals.store_failed(f"{self._cluster}: {self._mirror.reason or 'the topic is being opened'}")
        return topic

    def _check_primary(self, connection: Connection, address_of: Callable[[str], str]) -> None:
        primary = primary_for(connection, self._cluster)
        if primary != self._cluster:
            raise refusals.not_the_primary(self._cluster, primary, address_of(primary))

    def _write(self, lock: HeldLock, topic: SchemasTopic, decide: Decide) -> Any:
        for _ in range(_ATTEMPTS):
            topic_id, end = topic.end()
            self._wait_for(topic_id, end)
            with self._mirror.lock.parsing():
                decision = decide(self._mirror.catalog, self._mirror.parser)
                repairs = self._mirror.catalog.repairs()
                entries = [*self._mirror.catalog.key_spellings.encoded((*repairs, *decision.records))]
            if not decision.records:
                return decision.answer
            lock.check()
            offsets = topic.append(entries)
            self._wait_for(topic_id, offsets[-1] + 1)
            if self._counts(decision.records):
                return decision.answer
        raise refusals.timed_out(f"Others write to the schemas topic of {self._cluster}; try again.")

    def _wait_for(self, topic_id: str, offset: int) -> None:
        if not self._mirror.wait_for(topic_id, offset, READ_SECONDS):
            raise refusals.timed_out(f"{self._cluster}: the schemas topic was not read in time; try again.")

    def _counts(self, records: Sequence[Record]) -> bool:
        with self._mirror.lock.reading():
            overruled = self._mirror.catalog.overruled
            return not any(
                (each.subject, each.version) in overruled for each in records if isinstance(each, SchemaVersion)
            )
