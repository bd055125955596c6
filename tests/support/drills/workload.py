"""Numbered records, produced at a steady rate with acks=all; and all records that the partition has of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from backend.kafka.wire.batches import batches
from tests.support.drills.clock import Clock
from tests.support.kafka.topics import DEADLINE_SECONDS, read_all

PRODUCER: dict[str, object] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    # Far beyond any schedule: records in flight at a fault are retried until they arrive.
    "delivery.timeout.ms": 1000 * DEADLINE_SECONDS,
    # A paused broker answers nothing, and one without enough replicas waits for them: retry soon.
    "request.timeout.ms": 2000,
    "socket.timeout.ms": 3000,
    "retry.backoff.max.ms": 200,
    # It learns of a new leader by this, or otherwise up to two seconds after the old one is gone.
    "topic.metadata.refresh.interval.ms": 200,
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
}


@dataclass(frozen=True)
class Sent:
    """A record as the producer knows it, with times in milliseconds since the drill began."""

    number: int
    handed_in_ms: float
    acknowledged_ms: float | None
    offset: int | None
    """Offset as acknowledged. None as well if Kafka only reported that it had the record already."""
    error: str | None


@dataclass(frozen=True)
class Logged:
    """A record as it is in the partition, with the fields by which a broker recognizes a retry."""

    offset: int
    number: int
    producer_id: int
    producer_epoch: int
    sequence: int
    """The record's number among those that the producer sent to the partition in this epoch; the first has 0."""


class Workload:
    """A producer that has its id and its connection to the leader before the drill starts.

    A new producer takes a second for both, and a fault at that time would affect nothing in flight.
    """

    def __init__(self, servers: str, topic: str) -> None:
        """Connect; return once record 0 is acknowledged."""
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": servers, **PRODUCER})
        first: list[Message] = []
        self._producer.produce(topic, value="0", on_delivery=lambda error, message: first.append(message))
        assert self._producer.flush(DEADLINE_SECONDS) == 0, "the first record is never acknowledged"
        assert first[0].error() is None, first[0].error()
        self._first = Sent(0, 0.0, 0.0, first[0].offset(), None)

    def run(self, clock: Clock, seconds: float, a_second: int) -> list[Sent]:
        """Produce records 1, 2, 3 ... for a time, then wait for the missing acknowledgements; return all records.

        Record 0 is among them, with time 0; a record without acknowledgement and error is one without any answer.
        """
        handed_in: list[float] = []
        answers: dict[int, tuple[float, int | None, KafkaError | None]] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            number = int(message.value())
            assert number not in answers, f"{number} is answered twice"
            answers[number] = clock.now(), message.offset(), error

        while (now := clock.now()) < 1000 * seconds:
            due = 1000 * len(handed_in) / a_second
            if now < due:
                self._producer.poll((due - now) / 1000)
                continue
            handed_in.append(now)
            self._producer.produce(self._topic, value=str(len(handed_in)), on_delivery=delivered)
        self._producer.flush(DEADLINE_SECONDS)
        sent = [_sent(number, at, answers.get(number)) for number, at in enumerate(handed_in, start=1)]
        return [self._first, *sent]


def _sent(number: int, handed_in: float, answer: tuple[float, int | None, KafkaError | None] | None) -> Sent:
    if answer is None:
        return Sent(number, handed_in, None, None, None)
    at, offset, error = answer
    if error is not None:
        return Sent(number, handed_in, None, None, error.name())
    return Sent(number, handed_in, at, offset, None)


def read_log(servers: str, topic: str, segments: Path) -> list[Logged]:
    """Return everything in the partition, in its order.

    Consumers are not told who wrote a record: `segments` is the folder in which a broker in sync keeps the
    partition.
    """
    headers = [header for path in sorted(segments.glob("*.log")) for header in batches(path.read_bytes())]
    wrote = {offset: header for header in headers for offset in range(header.base_offset, header.next_offset)}
    found = []
    for message in read_all(servers, topic):
        offset = message.offset()
        header = wrote[offset]
        sequence = header.base_sequence + offset - header.base_offset
        found.append(Logged(offset, int(message.value()), header.producer_id, header.producer_epoch, sequence))
    return found
