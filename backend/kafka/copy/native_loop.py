"""Driver of the record loop in C (`backend/kafka/copy/native/`); `record_loop.py` is its reference.

The C code reads, decides and produces without the interpreter; it returns for rare cases: a transaction to begin,
a target to wait for, an error instead of a record.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from backend.kafka.base.liveness import Alive
from backend.kafka.copy import native
from backend.kafka.copy.record_loop import CopyTotals, Progress, RecordLoop
from backend.kafka.copy.schema_wait import SchemaWait
from backend.kafka.copy.source import Place, Source
from backend.kafka.copy.transactions import cause_of, flush

_DONE, _BEGIN, _FULL, _EVENT, _FAILED, _SCHEMA = range(6)
_MOST_BYTES = 8 * 1024 * 1024
"""Maximum of one read: with the source's fetch buffer and the producer's queue it bounds a session's memory."""


class NativeRecordLoop:
    """Mover of batches from a source to a producer, with `RecordLoop`'s interface; used by one thread."""

    def __init__(
        self,
        source: Source,
        producer: Producer,
        totals: CopyTotals,
        alive: Alive,
        schemas: SchemaWait | None = None,
    ) -> None:
        self._source = source
        self._schemas = schemas
        self._schema_news: object = None
        self._producer = producer
        self._totals = totals
        self._alive = alive
        self._loop: Any = native.module().Loop(source.consumer, producer)
        self.in_transaction = False
        """True while a transaction is open; the session resets it."""

    def add(self, place: Place, progress: Progress) -> None:
        """Start copying this partition."""
        edge = native.module().Edge(progress.edge)
        self._loop.add(*place, progress.target_topic, progress.largest_request, edge, (place, progress))

    def remove(self, place: Place) -> None:
        """Stop copying this partition."""
        self._loop.remove(*place)

    def begin(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self._producer.begin_transaction()
        self.in_transaction = True

    def copy_batch(self, most: int, wait_seconds: float) -> int:
        """Wait for records and produce the copies; return the number of records read. Raises KafkaException."""
        self._source.reading()
        read: int = self._loop.read(most, _MOST_BYTES, int(wait_seconds * 1000))
        if self._schemas is not None and (news := self._schemas.gate.news) != self._schema_news:
            self._schema_news = news
            self._loop.watch(self._schemas.gate.highest)
        try:
            while (what := self._loop.take(self.in_transaction)) != _DONE:
                if what == _BEGIN:
                    self.begin()
                elif what == _FULL:
                    flush(self._producer, self._alive)
                elif what == _EVENT:
                    self._note()
                    self._event()
                elif what == _SCHEMA:
                    self._note()
                    self._schema()
                elif what == _FAILED:
                    raise cause_of(self._producer, KafkaException(KafkaError(self._loop.error)))
        finally:
            self._note()
        return read

    def _note(self) -> None:
        """Take over the partitions' progress from C; the edges' vectors are up to date afterwards."""
        for (place, progress), position, copies in self._loop.moved():
            progress.copies.add(*copies)
            progress.source.position = position
            progress.dirty = True
            if self._source.troubles:
                self._source.healed(place)
        copied, copied_bytes, skipped = self._loop.counts()
        self._totals.copied_records += copied
        self._totals.copied_bytes += copied_bytes
        self._totals.skipped_records += skipped

    def _event(self) -> None:
        topic, partition, offset, code, text = self._loop.event()
        error = KafkaError(code, text)
        if topic is None:
            if not error.retriable():
                raise KafkaException(error)
        else:
            self._source.failed((topic, partition), offset, error)

    def _schema(self) -> None:
        assert self._schemas is not None
        (place, progress), offset, value_id, key_id, headers = self._loop.schema()
        if self._schemas.holds_up(place, progress, offset, (value_id, key_id), headers, self._loop.remember):
            self.remove(place)
        else:
            self._loop.let_pass()

    def close(self) -> None:
        """Release the clients, which can be closed afterwards."""
        self._loop.close()


def make_record_loop(
    kind: str,
    source: Source,
    producer: Producer,
    totals: CopyTotals,
    alive: Alive,
    schemas: SchemaWait | None = None,
) -> RecordLoop | NativeRecordLoop:
    """Return the loop that the setting `record_loop` selects. Raises NativeMissing if `native` is impossible."""
    if kind == "native" or (kind == "auto" and native.available()):
        return NativeRecordLoop(source, producer, totals, alive, schemas)
    return RecordLoop(source, producer, totals, alive, schemas)
