"""Reading of a dead letter, and writing it where it is missing."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from backend.domain.records.partition_edge import Header
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, refusal, sentence
from backend.kafka.base.message_headers import headers_of
from backend.kafka.copy import dead_letter_topic
from backend.kafka.copy.transactions import abort, cause_of
from backend.kafka.search.record_search import Place

_SECONDS = 15.0
_CHUNK_RECORDS = 500


@dataclass(frozen=True)
class DeadLetter:
    """A record of the dead-letter topic, without the header that holds its id."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[Header]


def read_dead_letter(
    bootstrap_servers: str, properties: Mapping[str, str], topic: str, name: str
) -> DeadLetter | None:
    """Return the record with this id; None if it is not there. Raises KafkaCallFailed."""
    try:
        reader = Consumer(
            client_config(
                bootstrap_servers,
                properties,
                group_id=f"_treeline.replay.{uuid.uuid4().hex[:8]}",
                isolation_level="read_committed",
                enable_auto_commit=False,
                enable_partition_eof=True,
            )
        )
    except (KafkaException, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error
    try:
        reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while messages := reader.consume(1, _SECONDS):
            for message in messages + reader.consume(_CHUNK_RECORDS, 0):
                failure = message.error()
                if failure is not None:
                    if failure.code() == KafkaError._PARTITION_EOF:
                        return None
                    raise KafkaException(failure)
                dead_letter = _dead_letter(message, name.encode())
                if dead_letter is not None:
                    return dead_letter
    except KafkaException as error:
        raise KafkaCallFailed(f"topic {topic}: {sentence(error)}") from error
    finally:
        reader.close()
    raise KafkaCallFailed(f"topic {topic} could not be read within {_SECONDS:g} s")


def _dead_letter(message: Message, name: bytes) -> DeadLetter | None:
    headers = headers_of(message)
    if not headers or headers[-1] != (dead_letter_topic.ID_HEADER, name):
        return None
    return DeadLetter(message.key(), message.value(), message.timestamp()[1], headers[:-1])


def write(place: Place, cluster: str, record: DeadLetter, headers: Sequence[Header]) -> str | None:
    """Write the record in a transaction; return why the cluster refuses it, None on success.

    There is one transactional id per cluster: of two concurrent replays, one fails. Raises KafkaCallFailed.
    """
    try:
        producer = Producer(
            client_config(
                place.bootstrap_servers,
                place.properties,
                transactional_id=f"_treeline.replay.{cluster}",
                transaction_timeout_ms=int(_SECONDS * 1000),
                message_max_bytes=dead_letter_topic.LARGEST_RECORD_BYTES,
            )
        )
        producer.init_transactions(_SECONDS)
        return _write(producer, place, record, headers)
    except (KafkaException, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error


def _write(producer: Producer, place: Place, record: DeadLetter, headers: Sequence[Header]) -> str | None:
    try:
        producer.begin_transaction()
        producer.produce(
            place.topic,
            record.value,
            record.key,
            place.partition,
            timestamp=record.timestamp_ms,
            headers=list(headers),
        )
        producer.commit_transaction(_SECONDS)
    except KafkaException as error:
        cause = cause_of(producer, error)
        # Left open, the transaction would block the topic's readers until it times out.
        abort(producer, _SECONDS)
        reason = refusal(cause)
        if reason is None:
            raise cause from error
        return reason
    return None
