"""A cluster's schemas topic: reading it from the beginning, and appending to it.

Appends use no transactions, although these would fence a writer that was overtaken: Karapace considers a log read
when it has seen the record before the log's end, and there is none if a transaction marker is there (decision 22).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from backend.domain.distribution.edges import Endpoint
from backend.kafka.admin.topics import TopicAdmin, TopicFacts
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, kafka_error, sentence
from backend.kafka.base.message_headers import headers_of
from backend.kafka.logs.following import TopicFollower

LARGEST_RECORD_BYTES = 8 * 1024 * 1024
REQUEST_SECONDS = 3.0
DELIVERY_SECONDS = 5.0
_GROUP = "_treeline.schemas"
"""Group name of our readers, for ACLs; nothing is committed for it."""
_MOST_REPLICAS = 3
_LOOK_SECONDS = 0.05
LIMIT_SECONDS = 30.0
"""Seconds for which the topic's max.message.bytes is cached."""
_BATCH_BYTES = 1_000_000
_OVERHEAD_BYTES = 512
"""Bytes of a record and its batch, besides key, value and header."""


class OutcomeUnknown(KafkaCallFailed):
    """The cluster did not confirm in time whether it accepted the records."""


class RecordTooLarge(KafkaCallFailed):
    """The topic does not accept a record of this size."""


class AnotherCluster(KafkaCallFailed):
    """Another Kafka cluster answers at the address: it must be neither read nor written."""

    is_lasting = True


class TopicUnfit(KafkaCallFailed):
    """The topic would lose schemas, or the order of their records."""

    is_lasting = True


@dataclass(frozen=True)
class LogRecord:
    """A record of the log."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: frozenset[str]
    """Names of its headers."""
    timestamp_ms: int


class SchemasReader:
    """Reads on from a position; used by one thread. Raises KafkaCallFailed."""

    def __init__(self, endpoint: Endpoint, topic: str, position: int) -> None:
        config = client_config(endpoint.bootstrap_servers, endpoint.properties, group_id=_GROUP)
        self._log = TopicFollower(config, [(topic, 0)], {0: position} if position else {})
        self._topic = topic
        self.reached = position
        """Offset before which everything has been read."""

    @property
    def caught_up(self) -> bool:
        """Tell whether the log's end was reached once."""
        return self._log.caught_up

    def read(self, wait_seconds: float) -> list[LogRecord]:
        """Wait for one record, then return it with all that follow without waiting."""
        found = [_record(message) for message in self._log.read(wait_seconds)]
        first = found[0].offset if found else self.reached
        if min(first, self._log.reached.get(0, self.reached)) < self.reached:
            raise KafkaCallFailed(
                f"{self._topic} was truncated or re-created: it is read again from the beginning"
            )
        self.reached = self._log.reached.get(0, self.reached)
        return found

    def close(self) -> None:
        """Close the connections."""
        self._log.close()


def _record(message: Message) -> LogRecord:
    names = frozenset(name for name, _ in headers_of(message))
    return LogRecord(message.offset() or 0, message.key(), message.value(), names, message.timestamp()[1])


class SchemasTopic:
    """The topic as a whole; threads may share it. Raises KafkaCallFailed."""

    def __init__(self, endpoint: Endpoint, topic: str) -> None:
        self._endpoint = endpoint
        self.topic = topic
        self._lock = threading.Lock()
        self._admin = TopicAdmin(endpoint.bootstrap_servers, endpoint.properties, REQUEST_SECONDS)
        self._producer: Producer | None = None
        self._limit = LARGEST_RECORD_BYTES
        self._limit_of: str | None = None
        """Id of the topic that the limit belongs to."""
        self._limit_until = 0.0

    @property
    def room(self) -> int:
        """Return the bytes that a record's key and value may have, as far as is known."""
        return self._limit - _OVERHEAD_BYTES

    def look(self) -> TopicFacts | None:
        """Return the topic, None if it does not exist; another Kafka cluster at this address is a failure."""
        with self._lock:
            return self._look()[0]

    def _look(self) -> tuple[TopicFacts | None, int]:
        seen = self._admin.observe([self.topic])
        wanted, found = self._endpoint.kafka_cluster_id, seen.facts.kafka_cluster_id
        if wanted not in (None, found):
            raise AnotherCluster(f"Kafka cluster {found} answers instead of {wanted}")
        if self.topic in seen.refused:
            raise KafkaCallFailed(seen.refused[self.topic])
        return seen.topics.get(self.topic), len(seen.facts.brokers)

    def end(self) -> tuple[str, int]:
        """Return the topic's id and the end of its log; a missing topic is created."""
        with self._lock:
            facts, brokers = self._look()
            if facts is None:
                facts = self._create(min(_MOST_REPLICAS, brokers))
            self._check(facts)
            return facts.topic_id, self._admin.end(self.topic)

    def present_end(self) -> tuple[str, int] | None:
        """Return the same as `end` without creating the topic; None if it is missing."""
        with self._lock:
            facts, _ = self._look()
            return None if facts is None else (facts.topic_id, self._admin.end(self.topic))

    def _create(self, replication_factor: int) -> TopicFacts:
        config = {"cleanup.policy": "compact", "max.message.bytes": str(LARGEST_RECORD_BYTES)}
        self._admin.create(self.topic, 1, replication_factor, config)
        deadline = time.monotonic() + REQUEST_SECONDS
        # Brokers learn about a topic a moment after the controller has created it.
        while (facts := self._look()[0]) is None:
            if time.monotonic() > deadline:
                raise KafkaCallFailed(f"{self.topic} was created, but is not available yet")
            time.sleep(_LOOK_SECONDS)
        return facts

    def _check(self, facts: TopicFacts) -> None:
        if facts.partitions != 1:
            raise TopicUnfit(
                f"{self.topic} has {facts.partitions} partitions; it must have one, to keep records in order"
            )
        if facts.topic_id != self._limit_of or time.monotonic() > self._limit_until:
            self._read_limit()
            self._limit_of = facts.topic_id

    def _read_limit(self) -> None:
        """Look up the largest size of a record. Raises TopicUnfit."""
        configs, _ = self._admin.configs([self.topic])
        # Without the permission to read the configuration it is assumed to be right.
        config = configs[self.topic].values if self.topic in configs else {}
        policy = config.get("cleanup.policy", "compact")
        if policy != "compact":
            raise TopicUnfit(f"{self.topic} has cleanup.policy={policy}, which loses schemas; set compact")
        limit = min(int(config.get("max.message.bytes", LARGEST_RECORD_BYTES)), LARGEST_RECORD_BYTES)
        if limit != self._limit:
            # The producer's batches would be too large, or smaller than necessary.
            self._producer = None
        self._limit, self._limit_until = limit, time.monotonic() + LIMIT_SECONDS

    def append(self, records: Sequence[tuple[bytes, bytes | None]], header: str | None = None) -> list[int]:
        """Append records in their order, all with this header.

        Returns their offsets, once all in-sync replicas have the records. Raises RecordTooLarge, OutcomeUnknown,
        KafkaCallFailed.
        """
        with self._lock:
            self._check_sizes(records)
            if self._producer is None:
                self._producer = _producer(self._endpoint, min(_BATCH_BYTES, self._limit))
            try:
                return _append(self._producer, self.topic, records, [(header, b"")] if header else [])
            except KafkaCallFailed as error:
                # Records in its buffer must not be delivered after the failure was reported.
                self._producer.purge()
                self._producer = None
                if error.code != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                # The limit has changed since it was looked up.
                self._limit_until = 0.0
                if isinstance(error, OutcomeUnknown):
                    raise
                raise RecordTooLarge(f"{self.topic}: {error}", error.code) from error

    def _check_sizes(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        largest = max(len(key) + len(value or b"") for key, value in records)
        if largest > self.room:
            self._read_limit()
        if largest > self.room:
            raise RecordTooLarge(
                f"{self.topic} accepts records of up to {self._limit} bytes (max.message.bytes), "
                f"this one has {largest + _OVERHEAD_BYTES}"
            )

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._producer = None


def _producer(endpoint: Endpoint, batch_bytes: int) -> Producer:
    settings: Mapping[str, Any] = {
        "enable_idempotence": True,
        "linger_ms": 0,
        "delivery_timeout_ms": int(DELIVERY_SECONDS * 1000),
        "message_max_bytes": LARGEST_RECORD_BYTES,
        "batch_size": batch_bytes,
    }
    try:
        return Producer(client_config(endpoint.bootstrap_servers, endpoint.properties, **settings))
    except (KafkaException, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error


def _append(
    producer: Producer,
    topic: str,
    records: Sequence[tuple[bytes, bytes | None]],
    headers: list[tuple[str, str | bytes | None]],
) -> list[int]:
    offsets: list[int] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            offsets.append(message.offset() or 0)

    try:
        for key, value in records:
            producer.produce(topic, value, key, partition=0, on_delivery=delivered, headers=headers)
        left = producer.flush(DELIVERY_SECONDS + 1)
    except (BufferError, KafkaException) as error:
        # Reports of earlier records may not have been read yet. What failed first is the cause; after it the
        # producer may take nothing more.
        producer.poll(0)
        if failed:
            raise _refusal(failed) from error
        inner = kafka_error(error)
        raise KafkaCallFailed(sentence(error), inner.code() if inner else None) from error
    if failed:
        raise _refusal(failed)
    if left:
        raise OutcomeUnknown(f"no answer within {DELIVERY_SECONDS:g} s")
    return offsets


def _refusal(failed: Sequence[KafkaError]) -> KafkaCallFailed:
    """Return the error for records that were not delivered, with the reason of the first one."""
    kind = OutcomeUnknown if any(_may_have_arrived(error) for error in failed) else KafkaCallFailed
    return kind(str(failed[0].str()), failed[0].code())


def _may_have_arrived(error: KafkaError) -> bool:
    return error.code() in (
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    )
