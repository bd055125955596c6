"""librdkafka's producer on one cluster, and what becomes of its records when that cluster is left."""

from __future__ import annotations

import logging
import threading
import time

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from treeline_client.answers import Answer, Destination
from treeline_client.configuration import Configuration
from treeline_client.errors import OutcomeUnknown
from treeline_client.names import Format
from treeline_client.records import Record, Reports

log = logging.getLogger("treeline_client")

_WARM_SECONDS = 5.0
_PURGE_SECONDS = 5.0
_NOT_SENT = KafkaError._PURGE_QUEUE
_ON_ITS_WAY = KafkaError._PURGE_INFLIGHT


class Handle:
    """A producer on one cluster."""

    def __init__(self, configuration: Configuration, destination: Destination, reports: Reports) -> None:
        """Raises KafkaException if librdkafka refuses the configuration."""
        self.destination = destination
        self.generation = -1  # until it is moved to
        self.reports = reports
        self.leaving = False
        """While true, records that librdkafka gives back without having sent them are kept."""
        self.initialised = False
        """Its transactional id is the cluster's."""
        self.kept: list[Record] = []
        """Records that were never sent, and those to be sent again, in order."""
        self.unknown = 0
        """Records that were on their way when it was left."""
        self._resend = configuration.resend_unknown
        self._format = Format(destination.topic_format, "topic", configuration.names)
        self._names: dict[str, str] = {}
        settings = {**configuration.kafka, "bootstrap.servers": destination.bootstrap_servers}
        settings.setdefault("enable.idempotence", True)
        self.transactional = bool(settings.get("transactional.id"))
        self.producer = Producer(settings)
        self._produce = self.producer.produce
        self._warming: threading.Thread | None = None

    @property
    def topics(self) -> list[str]:
        """Logical names of all that was sent to."""
        return list(self._names)

    def technical(self, topic: str) -> str:
        """What this cluster calls a topic."""
        name = self._names.get(topic)
        if name is None:
            name = self._names[topic] = self._format.technical(topic)
        return name

    def logical(self, technical: str) -> str | None:
        """What the application calls a topic; None if it is not of this environment."""
        return self._format.logical(technical)

    def send(self, record: Record) -> None:
        """Hand a record to librdkafka. Raises what `Producer.produce` raises."""
        record.handle = self
        topic = record.topic
        name = self._names.get(topic) or self.technical(topic)
        report = record.reported
        if record.headers is None:
            self._produce(name, record.value, record.key, record.partition, report, None, record.timestamp)
        else:
            self._produce(
                name, record.value, record.key, record.partition, report, None, record.timestamp, record.headers
            )

    def warm(self, topics: list[str], transactional: bool) -> None:
        """Connect and learn where the topics are, in a thread of its own, so that a move costs nothing."""

        def run() -> None:
            try:
                for topic in topics:
                    self.producer.list_topics(self.technical(topic), _WARM_SECONDS)
                if transactional:
                    self.producer.init_transactions(_WARM_SECONDS)
                    self.initialised = True
            except KafkaException as error:
                log.info("could not prepare for %s: %s", self.destination.cluster, error)

        self._warming = threading.Thread(target=run, name="treeline warm-up", daemon=True)
        self._warming.start()

    def ready(self) -> bool:
        """Whether nothing is being prepared any more."""
        return self._warming is None or not self._warming.is_alive()

    def give_up(self) -> None:
        """Stop sending here, at once: take back what was never sent, and tell of what was on its way."""
        self.leaving = True
        self.producer.purge(True, True, True)
        end = time.monotonic() + _PURGE_SECONDS
        while len(self.producer) and time.monotonic() < end:
            self.producer.poll(0.05)

    def keeps(self, record: Record, error: KafkaError, message: Message) -> bool:
        """Whether what becomes of a record that comes back with an error is decided here, not by librdkafka."""
        code = error.code()
        if code not in (_NOT_SENT, _ON_ITS_WAY) or self.transactional:
            return False
        if code == _ON_ITS_WAY:
            self.unknown += 1
            if not self._resend:
                self.reports.keep(record, OutcomeUnknown(self.destination.cluster), message)
                return True
        self.kept.append(record)
        return True

    def at(self, answer: Answer) -> Handle:
        """The same handle, now in this answer's generation."""
        self.generation = answer.generation
        return self

    def retire(self) -> None:
        """Let go of it, in a thread of its own: librdkafka may wait for a cluster that is gone.

        Not closed: a thread of the application may be in its `poll()`, and then lets go of it last.
        """
        held = [self.producer, self._produce]
        del self.producer, self._produce
        threading.Thread(target=held.clear, name="treeline retire", daemon=True).start()
