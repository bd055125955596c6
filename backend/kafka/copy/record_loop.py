"""Inner loop of a copy session: read records, decide, produce the copies in the session's transaction.

The session opens clients and commits positions (`session.py`); this loop handles every single record. It is the
reference and the fallback for the loop in C (`native_loop.py`).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from confluent_kafka import KafkaException, Message, Producer, TopicPartition

from backend.domain.records.marks import MetadataInvalid
from backend.domain.records.partition_edge import Header, PartitionEdge
from backend.kafka.base.errors import HeaderNameUnreadable
from backend.kafka.base.liveness import Alive
from backend.kafka.base.message_headers import headers_of, unreadable_names
from backend.kafka.copy.measuring import Copies
from backend.kafka.copy.schema_wait import EVERYWHERE, KEYS, VALUES, SchemaWait, wire_id
from backend.kafka.copy.source import Place, Source, SourcePartition
from backend.kafka.copy.transactions import cause_of, flush


@dataclass
class CopyTotals:
    """Totals of a session since it was opened."""

    copied_records: int = 0
    copied_bytes: int = 0
    skipped_records: int = 0
    schema_holds: int = 0
    """Times that a partition waited at a record whose schema the target did not have."""
    schema_held_seconds: float = 0.0
    schema_waits_run_out: int = 0
    """Number of those waits that timed out: the record was copied before its schema."""

    def __add__(self, other: CopyTotals) -> CopyTotals:
        return CopyTotals(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Progress:
    """Progress of one partition in a session: its position and the state of its decisions."""

    __slots__ = (
        "copies",
        "dirty",
        "edge",
        "largest_request",
        "noted_at",
        "saved",
        "source",
        "stream",
        "target_topic",
    )

    def __init__(
        self,
        source: SourcePartition,
        edge: PartitionEdge,
        stream: str,
        target_topic: str,
        largest_request: int = 1_000_000,
    ) -> None:
        self.source = source
        self.edge = edge
        self.stream = stream
        self.target_topic = target_topic
        self.largest_request = largest_request
        """Bytes that the target topic accepts at once, or less.

        Each partition is given the records of one request at a time: a batch larger than `max.message.bytes` is
        refused as a whole, and while an idempotent producer of librdkafka (2.16) waits for a partition's request
        and another is ready, its thread spins and burns a CPU.
        """
        self.noted_at = 0.0
        """Monotonic time of the last checkpoint."""
        self.copies = Copies(source.position)
        """Copies since the last commit."""
        self.dirty = False
        """True if decisions were made since the last commit."""
        self.saved = False
        """True if the target has a position of this session, recent enough not to expire."""

    @property
    def to_commit(self) -> bool:
        """Return whether the position must be saved.

        The first one is saved even for an empty log, since from then on missing records are noticed.
        """
        return self.dirty or (not self.saved and self.source.position is not None)

    def committed(self, partition: int) -> TopicPartition:
        """Return the position to commit on the target. Raises MetadataInvalid if its vectors are too long."""
        at = self.source.position or 0
        epoch = self.source.leader_epoch
        try:
            metadata = self.edge.metadata(at)
        except MetadataInvalid as error:
            raise MetadataInvalid(f"{self.stream}, partition {partition}, offset {at}: {error}") from error
        return TopicPartition(self.target_topic, partition, at, metadata, leader_epoch=epoch)


_RECORD_BYTES, _HEADER_BYTES = 32, 8
"""Overhead of a record and of a header in a request, at most."""


class RecordLoop:
    """Mover of batches from a source to a producer; used by the session's thread."""

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
        self._highest_schema = 0
        self._known_schemas: set[tuple[Place | None, int, int]] = set()
        self._producer = producer
        self._totals = totals
        self._alive = alive
        self._partitions: dict[Place, Progress] = {}
        self._wave: dict[Place, int] = {}
        self.in_transaction = False
        """True while a transaction is open; the session resets it."""

    def add(self, place: Place, progress: Progress) -> None:
        """Start copying this partition."""
        self._partitions[place] = progress

    def remove(self, place: Place) -> None:
        """Stop copying this partition."""
        del self._partitions[place]

    def begin(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self._wave.clear()
        self._producer.begin_transaction()
        self.in_transaction = True

    def copy_batch(self, most: int, wait_seconds: float) -> int:
        """Wait for records and produce the copies; return the number of records read. Raises KafkaException."""
        messages = self._source.read(most, wait_seconds)
        for message in messages:
            headers = self.decide(message)
            if headers is not None:
                self.copy(message, headers)
        return len(messages)

    def decide(self, message: Message) -> list[Header] | None:
        """Pass one message; return the headers of the copy to make of it, if any. Raises KafkaException."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None
        place = (topic, partition)
        progress = self._partitions.get(place)
        if progress is None:
            return None  # fetched before its stream was let go
        error = message.error()
        if error is not None:
            self._source.failed(place, offset, error)
            return None
        assert offset is not None  # only errors may be without one
        if self._source.troubles:
            self._source.healed(place)
        if self._schemas is not None and self._waits(self._schemas, place, progress, message):
            self.remove(place)
            return None
        headers = progress.edge.copy(offset, headers_of(message))
        progress.source.position = offset + 1
        progress.dirty = True
        if headers is None:
            self._totals.skipped_records += 1
            progress.copies.add(0, 0, 0, message.timestamp()[1])
        return headers

    def copy(self, message: Message, headers: list[Header]) -> None:
        """Produce the copy of a message that was decided on. Raises KafkaException."""
        place = message.topic() or "", message.partition() or 0
        progress = self._partitions[place]
        if not self.in_transaction:
            self.begin()
        if unreadable := unreadable_names(headers):
            raise HeaderNameUnreadable(f"{unreadable} of its header names")
        value, key = message.value(), message.key()
        size = len(value or b"") + len(key or b"") + sum(len(name) + len(held or b"") for name, held in headers)
        self._make_room(place, progress, size + _RECORD_BYTES + _HEADER_BYTES * len(headers))
        timestamp_ms = message.timestamp()[1]
        self.produce(progress.target_topic, place[1], value, key, timestamp_ms, headers)
        progress.copies.add(1, size, timestamp_ms, timestamp_ms)
        self._totals.copied_records += 1
        self._totals.copied_bytes += size

    def _waits(self, schemas: SchemaWait, place: Place, progress: Progress, message: Message) -> bool:
        if (news := schemas.gate.news) != self._schema_news:
            self._schema_news, self._highest_schema = news, schemas.gate.highest
            self._known_schemas.clear()
        known, found = self._known_schemas, [0, 0]
        for at, (part, data) in enumerate(((VALUES, message.value()), (KEYS, message.key()))):
            schema_id = wire_id(data, self._highest_schema)
            if schema_id and (None, EVERYWHERE, schema_id) not in known and (place, part, schema_id) not in known:
                found[at] = schema_id

        def remember(part: int, schema_id: int) -> None:
            known.add((None if part == EVERYWHERE else place, part, schema_id))

        ids, offset = (found[0], found[1]), message.offset() or 0
        return any(ids) and schemas.holds_up(place, progress, offset, ids, headers_of(message), remember)

    def _make_room(self, place: Place, progress: Progress, size_bytes: int) -> None:
        """Flush the producer before a partition's next request begins."""
        size_bytes += self._wave.get(place, 0)
        if size_bytes > progress.largest_request and place in self._wave:
            flush(self._producer, self._alive)
            size_bytes -= self._wave[place]
            self._wave.clear()
        self._wave[place] = size_bytes

    def produce(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        timestamp_ms: int,
        headers: list[Header],
    ) -> None:
        """Produce one record, waiting while the producer's queue is full. Raises KafkaException."""
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    # librdkafka takes 0 for none and would write the current time: 1 ms is the smallest change.
                    timestamp=timestamp_ms or 1,
                    headers=headers,  # type: ignore[arg-type]
                )
            except BufferError:
                # The queue bounds the memory.
                flush(self._producer, self._alive)
            except KafkaException as error:
                raise cause_of(self._producer, error) from error
            else:
                return

    def close(self) -> None:
        """Release the partitions."""
        self._partitions.clear()
