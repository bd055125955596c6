"""Writing of one message, which all in-sync replicas have when it is confirmed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from backend.domain.records.partition_edge import Header
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, kafka_error, refusal, sentence
from backend.kafka.base.probe import ConnectionReasons
from backend.kafka.search.topic_reader import TopicPlace

_SECONDS = 10.0
_REACH_SECONDS = 5.0
"""Time in which a broker must describe the topic; before that nothing is sent, so nothing can be in doubt."""
_SPARE_SECONDS = 2.0
"""Time in which librdkafka reports that its own deadline has passed."""
_LARGEST_BYTES = 64 * 1024 * 1024  # the topic's own limit decides, on the broker
_NOT_WRITTEN = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Failures after which a message is certainly not in the log, besides refusals."""
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)


@dataclass(frozen=True, kw_only=True)
class NewMessage:
    """A message to be written; without a partition the key decides, as in Kafka's own clients."""

    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    timestamp_ms: int | None

    @property
    def bytes(self) -> int:
        """Return the size of key, value and headers."""
        headers = sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True)
class Written:
    """Place of a message that was written; the timestamp is the broker's if the topic takes that."""

    partition: int
    offset: int
    timestamp_ms: int


class MessageRefused(Exception):
    """The broker will never take the message as it is; the text says why."""


class OutcomeUncertain(KafkaCallFailed):
    """The cluster did not confirm the message in time: it may have been written all the same."""


def write_message(place: TopicPlace, message: NewMessage) -> Written:
    """Write a message and wait until it is confirmed; librdkafka's retries do not write it twice.

    Raises OutcomeUncertain; after all others nothing was written: MessageRefused; KafkaCallFailed;
    ClusterUnreachable for a secret that cannot be read
    or a forbidden address.
    """
    reasons, reports = ConnectionReasons(), list[tuple[KafkaError | None, Message]]()
    config = client_config(place.bootstrap_servers, place.properties, error_cb=reasons)
    config |= {
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 0,
        "message.timeout.ms": int(_SECONDS * 1000),
        "message.max.bytes": _LARGEST_BYTES,
        # The partitioner of Kafka's own clients: the same key is in the same partition whoever produces it.
        "partitioner": "murmur2_random",
    }
    try:
        producer = Producer(config)
        _reach(producer, place.topic, reasons)
        _produce(producer, place.topic, message, reports)
        deadline = time.monotonic() + _SECONDS + _SPARE_SECONDS
        while not reports and time.monotonic() < deadline:
            producer.poll(0.2)
    except (KafkaException, ValueError) as error:
        raise _failed(error) from error
    if not reports:
        producer.purge()
        raise OutcomeUncertain(reasons.last or f"no answer within {_SECONDS:g} s")
    failure, report = reports[0]
    if failure is not None:
        failed = _failed(KafkaException(failure))
        if isinstance(failed, KafkaCallFailed) and failure.code() not in _NOT_WRITTEN:
            raise OutcomeUncertain(reasons.last or str(failure.str()), failure.code())
        raise failed
    partition, offset = report.partition(), report.offset()
    assert partition is not None and offset is not None
    return Written(partition, offset, report.timestamp()[1])


def _reach(producer: Producer, topic: str, reasons: ConnectionReasons) -> None:
    """Wait until a broker describes the topic. Raises KafkaCallFailed, KafkaException."""
    deadline, patience = time.monotonic() + _REACH_SECONDS, 0.25
    while True:
        try:
            producer.list_topics(topic, min(patience, max(0.01, deadline - time.monotonic())))
        except KafkaException as error:
            inner = kafka_error(error)
            if inner is None or inner.code() not in _NO_ANSWER:
                raise
        else:
            reasons.forget()
            return
        producer.poll(0)
        if reasons.all_down or time.monotonic() > deadline:
            raise KafkaCallFailed(reasons.last or f"no answer within {_REACH_SECONDS:g} s")
        patience *= 2


def _produce(
    producer: Producer, topic: str, message: NewMessage, reports: list[tuple[KafkaError | None, Message]]
) -> None:
    producer.produce(
        topic,
        message.value,
        message.key,
        -1 if message.partition is None else message.partition,
        on_delivery=lambda failure, report: reports.append((failure, report)),
        timestamp=message.timestamp_ms or 0,
        headers=list(message.headers),
    )


def _failed(error: KafkaException | ValueError) -> Exception:
    reason = refusal(error)
    if reason is not None:
        return MessageRefused(reason)
    inner = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
    return KafkaCallFailed(sentence(error), None if inner is None else inner.code())
