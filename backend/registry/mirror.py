"""One cluster's schemas topic in memory, kept up to date by a thread.

Reads are answered from here, whether the cluster answers or not, once its log was read to the end. A topic that
was re-created, or whose log was cut off, is read from its beginning; until then the former catalog answers.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from backend.domain.base.errors import ClusterUnreachable
from backend.domain.distribution.edges import Endpoint
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.schemas.schemas_topic import AnotherCluster, LogRecord, SchemasReader, SchemasTopic
from backend.registry.catalog import Catalog
from backend.registry.parsing import Parser
from backend.registry.records import COPIED_HEADER, Content, SchemaVersion, Unreadable, decode
from backend.registry.sharing import CatalogLock

logger = structlog.get_logger("registry")

LOOK_SECONDS = 5.0
"""Seconds between two polls that check the topic's id, and whether its cluster answers."""
RETRY_SECONDS = 1.0
_READ_SECONDS = 0.5
_MOST_ANSWERS_BYTES = 16 * 1024 * 1024


class Mirror:
    """Mirror of one cluster; threads and the event loop share it, `start` and `stop` belong to its owner."""

    def __init__(self, endpoint: Endpoint, topic: str, *, ids_only: bool = False) -> None:
        """Build the mirror. `ids_only`: schemas' texts are not kept, only digests that tell them apart."""
        self.endpoint = endpoint
        self._ids_only = ids_only
        self.lock = CatalogLock()
        """Lock for reading the catalog, and for parsing its schemas."""
        self.catalog = Catalog()
        self.parser = Parser()
        self.ready = False
        """True if the catalog is that of a log that was read to its end once."""
        self.reason: str | None = None
        """Reason why the cluster does not answer; None if it answered the last poll, or was not polled yet."""
        self.unreadable_records = 0
        """Records of the log that no registry could read, and ids assigned a second time."""
        self.topic: SchemasTopic | None = None
        """None as long as no client could be made."""
        self.on_news: Callable[[], None] = lambda: None
        """Callback of the thread after each change of the catalog; must not wait."""
        self._name = topic
        self._answers: dict[bytes, bytes] = {}
        self._answers_bytes = 0
        self._news = threading.Condition()
        self._topic_id: str | None = None
        self._reached = 0
        self._stopping = threading.Event()
        self._look_now = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"registry-{endpoint.name}", daemon=True)

    def start(self) -> None:
        """Begin to read; the cluster may be away."""
        self._thread.start()

    def stop(self) -> None:
        """Signal the thread to end; `join` waits for it."""
        self._stopping.set()
        self._look_now.set()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()
        if self.topic is not None:
            self.topic.close()

    @property
    def ended(self) -> bool:
        """Tell whether the thread has ended, so that `join` would not wait."""
        return not self._thread.is_alive()

    # --- for readers

    def answer(self, question: bytes) -> bytes | None:
        """Return a response that was cached since the catalog's last change."""
        return self._answers.get(question)

    def keep_answer(self, question: bytes, answer: bytes) -> None:
        """Cache a response made from the catalog; under the lock, so that no change can come in between."""
        self._answers_bytes += len(question) + len(answer)
        if self._answers_bytes > _MOST_ANSWERS_BYTES:
            self._forget_answers()
        else:
            self._answers[question] = answer

    def _forget_answers(self) -> None:
        self._answers, self._answers_bytes = {}, 0

    def wait_for(self, topic_id: str, offset: int, seconds: float) -> bool:
        """Wait until all records of this topic before an offset are in the catalog."""
        with self._news:
            if self._topic_id != topic_id:
                self._look_now.set()
            return self._news.wait_for(
                lambda: self.ready and self._topic_id == topic_id and self._reached >= offset, seconds
            )

    def read_on(self, seconds: float) -> None:
        """Wait until the topic's present records are in the catalog.

        Raises KafkaCallFailed, ClusterUnreachable.
        """
        if self.topic is None or self.reason is not None:
            return
        found = self.topic.present_end()
        if found is not None:
            self.wait_for(*found, seconds)

    # --- the thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (KafkaCallFailed, ClusterUnreachable) as error:
                self._tell(error)
                self._stopping.wait(RETRY_SECONDS)
            except Exception as error:
                # A bug must not end the thread: nothing would be read any more, unnoticed.
                logger.exception("schemas cannot be read", cluster=self.endpoint.name)
                self.reason = f"{type(error).__name__}, see the log of the control plane"
                self._stopping.wait(LOOK_SECONDS)

    def _tell(self, error: Exception) -> None:
        if self.reason is None:
            logger.warning("schemas are not read", cluster=self.endpoint.name, reason=str(error))
        self.reason = str(error)

    def _follow(self) -> None:
        """Read on until the topic or the cluster changes."""
        if self.topic is None:
            self.topic = SchemasTopic(self.endpoint, self._name)
        self._look_now.clear()
        facts = self.topic.look()
        self.reason = None
        if facts is None:
            # No schema was written there yet; the catalog of a topic that disappeared still answers.
            if not self.ready:
                self._publish(self.catalog, None, 0)
            self._look_now.wait(LOOK_SECONDS)
            return
        goes_on = self.ready and facts.topic_id == self._topic_id
        catalog, position = (self.catalog, self._reached) if goes_on else (Catalog(), 0)
        if not goes_on:
            self.unreadable_records = 0
        reader = SchemasReader(self.endpoint, self._name, position)
        try:
            self._read(reader, self.topic, facts.topic_id, catalog)
        finally:
            reader.close()

    def _read(self, reader: SchemasReader, topic: SchemasTopic, topic_id: str, catalog: Catalog) -> None:
        look_at = time.monotonic() + LOOK_SECONDS
        while not self._stopping.is_set():
            before = reader.reached
            try:
                records = reader.read(_READ_SECONDS)
            except KafkaCallFailed:
                # The log may be another one: read it from the beginning.
                self._topic_id = None
                raise
            if records:
                self._apply(catalog, records)
            if reader.caught_up and (reader.reached != before or self.catalog is not catalog):
                self._publish(catalog, topic_id, reader.reached)
            if self._look_now.is_set() or time.monotonic() > look_at:
                self._look_now.clear()
                if not self._is_still(topic, topic_id):
                    return
                look_at = time.monotonic() + (RETRY_SECONDS if self.reason else LOOK_SECONDS)

    def _is_still(self, topic: SchemasTopic, topic_id: str) -> bool:
        """Tell whether to read on: the topic still has the id that is read, as far as its cluster answers.

        While the cluster does not answer the reader stays, since it notices first when the cluster is back; then a
        new reader is made, since not every client recovers from everything. Raises AnotherCluster.
        """
        try:
            facts = topic.look()
        except AnotherCluster:
            raise
        except KafkaCallFailed as error:
            self._tell(error)
            return True
        was_away, self.reason = self.reason is not None, None
        return not was_away and facts is not None and facts.topic_id == topic_id

    def _apply(self, catalog: Catalog, records: Sequence[LogRecord]) -> None:
        unreadable: list[tuple[int, str]] = []
        with self.lock.writing():
            for record in records:
                try:
                    said = decode(record.key, record.value)
                except Unreadable as error:
                    unreadable.append((record.offset, str(error)))
                    continue
                if self._ids_only and isinstance(said, SchemaVersion):
                    said = replace(said, content=_digest(said.content))
                copied = COPIED_HEADER in record.headers
                if said is None:
                    continue
                catalog.key_spellings.note(record.key or b"", said)
                if not catalog.apply(said, copied=copied, at_ms=record.timestamp_ms):
                    unreadable.append((record.offset, "its id belonged to another schema before"))
            self._forget_answers()
        if unreadable:
            self.unreadable_records += len(unreadable)
            offset, reason = unreadable[0]
            logger.warning(
                "records of the schemas topic ignored",
                cluster=self.endpoint.name,
                topic=self._name,
                records=len(unreadable),
                first_offset=offset,
                reason=reason,
            )

    def _publish(self, catalog: Catalog, topic_id: str | None, reached: int) -> None:
        with self.lock.writing():
            if self.catalog is not catalog:
                self.catalog = catalog
                self._forget_answers()
        # Before waiting writers continue, so that their own records are not reported to them as changes.
        self.on_news()
        with self._news:
            self._topic_id, self._reached, self.ready = topic_id, reached, True
            self._news.notify_all()


def _digest(content: Content) -> Content:
    return Content(text=hashlib.sha256(content.text.encode(errors="surrogatepass")).hexdigest())
