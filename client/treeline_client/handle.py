"""A producer of librdkafka on one cluster, and the fate of its records when that cluster is left."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from treeline_client.answers import Answer, Destination
from treeline_client.configuration import Configuration
from treeline_client.names import Format
from treeline_client.records import Record, Reports
from treeline_client.returned_records import ReturnedRecords

log = logging.getLogger("treeline_client")

_WARM_SECONDS = 5.0
_PURGE_SECONDS = 5.0
_STATISTICS_SECONDS = 3.0
_STATISTICS_EVERY_MS = 1000


class Handle:
    """Producer on one cluster."""

    def __init__(self, configuration: Configuration, destination: Destination, reports: Reports) -> None:
        """Create the producer. Raises KafkaException if librdkafka refuses the configuration."""
        self.destination = destination
        self.generation = -1  # until a move gives it one
        self.reports = reports
        self.initialised = False
        """True once the transactional id is initialised on the cluster."""
        self.given = 0
        """Number of records that were handed to it."""
        self._returned: ReturnedRecords | None = None
        self._failed: Counter[tuple[str | None, int | None]] = Counter()
        self._statistics: str | None = None
        self._resend = configuration.resend_unknown
        self._format = Format(destination.topic_format, "topic", configuration.names)
        self.names: dict[str, str] = {}
        """Technical names of used topics, by logical name."""
        settings = {**configuration.kafka, "bootstrap.servers": destination.bootstrap_servers}
        settings.setdefault("enable.idempotence", True)
        self.transactional = bool(settings.get("transactional.id"))
        # When a cluster is given up, its statistics tell which records may have been sent (returned_records).
        wanted = int(settings.get("statistics.interval.ms", 0)) > 0
        self._told = settings.get("stats_cb") if wanted else None
        if not wanted:
            settings["statistics.interval.ms"] = _STATISTICS_EVERY_MS
        settings["stats_cb"] = self._keep_statistics
        self.producer = Producer(settings)
        self.produce = self.producer.produce
        self._warming: threading.Thread | None = None

    @property
    def topics(self) -> list[str]:
        """Return the logical names of all topics that records were sent to."""
        return list(self.names)

    def technical(self, topic: str) -> str:
        """Return a topic's technical name on this cluster."""
        name = self.names.get(topic)
        if name is None:
            name = self.names[topic] = self._format.technical(topic)
        return name

    def logical(self, technical: str) -> str | None:
        """Return a topic's logical name; None if the topic is not of this environment."""
        return self._format.logical(technical)

    def send(self, record: Record) -> None:
        """Hand a record to librdkafka. Raises what `Producer.produce` raises."""
        record.handle = self
        record.number = self.given = self.given + 1
        self.produce(
            self.technical(record.topic), record.value, record.key, record.partition,
            record.reported, None, record.timestamp, record.headers,
        )  # fmt: skip

    def warm(self, topics: list[str], transactional: bool) -> None:
        """Connect and load the topics' metadata in a thread of its own, so that a move needs no time for it."""

        producer = self.producer  # it may be released meanwhile, if the switch is aborted

        def run() -> None:
            try:
                for topic in topics:
                    producer.list_topics(self.technical(topic), _WARM_SECONDS)
                if transactional:
                    producer.init_transactions(_WARM_SECONDS)
                    self.initialised = True
            except KafkaException as error:
                log.info("could not prepare for %s: %s", self.destination.cluster, error)

        self._warming = threading.Thread(target=run, name="treeline warm-up", daemon=True)
        self._warming.start()

    def ready(self) -> bool:
        """Return whether the warm-up has ended."""
        return self._warming is None or not self._warming.is_alive()

    def give_up(self) -> tuple[list[Record], int]:
        """Stop sending at once; return the records to send elsewhere, in order, and count of unknown outcomes."""
        self._returned = ReturnedRecords()
        self.producer.purge(True, True, True)
        end = time.monotonic() + _PURGE_SECONDS
        while len(self.producer) and time.monotonic() < end:
            self.producer.poll(0.05)
        self.producer.poll(0)  # serve and drop older statistics
        self._statistics = None
        end = time.monotonic() + _STATISTICS_SECONDS
        while self._returned.needs_statistics and self._statistics is None and time.monotonic() < end:
            self.producer.poll(0.05)
        cluster = self.destination.cluster
        return self._returned.sort(self._statistics, self._failed, cluster, self._resend, self.reports.keep)

    def failed(self, record: Record, error: KafkaError, message: Message) -> bool:
        """Handle a failed record; return whether its outcome is decided here, so that it is not reported now."""
        if self._returned is not None and not self.transactional:
            return self._returned.take(record, error.code(), message)
        self._failed[message.topic(), message.partition()] += 1
        return False

    def _keep_statistics(self, text: str) -> None:
        self._statistics = text
        if self._told is not None:
            self._told(text)

    def at(self, answer: Answer) -> Handle:
        """Return this handle after setting its generation to the answer's."""
        self.generation = answer.generation
        return self

    def leads_to(self, destination: Destination) -> bool:
        """Return whether it uses that cluster and its current addresses; older addresses may be unreachable."""
        return self.destination == destination and (
            self.destination.bootstrap_servers == destination.bootstrap_servers
        )

    def retire(self) -> None:
        """Release the producer in a thread of its own, since librdkafka may wait for an unreachable cluster.

        It is not closed: a thread of the application may be in its `poll()`, and then releases it last.
        """
        held = [self.producer, self.produce]
        del self.producer, self.produce
        threading.Thread(target=held.clear, name="treeline retire", daemon=True).start()
