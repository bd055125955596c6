"""One cluster's schemas topic in memory, kept up with by a thread.

Reads are answered from here, whether the cluster answers or not, once its log was read to the end. A topic that
was made anew, or whose log was cut off, is read from its beginning; what was known answers until that is done.
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
"""Between two looks whether the topic is still the one that is read, and whether its cluster answers."""
RETRY_SECONDS = 1.0
_READ_SECONDS = 0.5
_MOST_ANSWERS_BYTES = 16 * 1024 * 1024


class Mirror:
    """Threads and the event loop share it; `start` and `stop` belong to its owner."""

    def __init__(self, endpoint: Endpoint, topic: str, *, ids_only: bool = False) -> None:
        """`ids_only`: texts of schemas are not kept, only what tells them apart."""
        self.endpoint = endpoint
        self._ids_only = ids_only
        self.lock = CatalogLock()
        """For whoever reads the catalog, or parses its schemas."""
        self.catalog = Catalog()
        self.parser = Parser()
        self.ready = False
        """Whether the catalog is that of a log that was read to its end once."""
        self.reason: str | None = None
        """Why the cluster cannot be asked now; None: it answered at the last look, or was not asked yet."""
        self.unreadable_records = 0
        """Of the log as it was read: others' that no registry could read, and ids given a second time."""
        self.topic: SchemasTopic | None = None
        """None as long as no client could be made."""
        self.on_news: Callable[[], None] = lambda: None
        """Called by the thread each time that the catalog has changed; must not wait."""
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
        """Tell the thread to end; `join` waits for it."""
        self._stopping.set()
        self._look_now.set()

    def join(self) -> None:
        """Wait for the thread's end."""
        self._thread.join()
        if self.topic is not None:
            self.topic.close()

    @property
    def ended(self) -> bool:
        """Whether `join` would not wait."""
        return not self._thread.is_alive()

    # --- for readers

    def answer(self, question: bytes) -> bytes | None:
        """An answer that was given since the catalog changed last."""
        return self._answers.get(question)

    def keep_answer(self, question: bytes, answer: bytes) -> None:
        """Keep what was made of the catalog; under the lock, so that a change cannot come in between."""
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
        """Wait until what the topic has now is in the catalog. Raises KafkaCallFailed, ClusterUnreachable."""
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
                # A fault of ours must not end the thread: nothing would be read any more, without a word.
                logger.exception("schemas cannot be read", cluster=self.endpoint.name)
                self.reason = f"{type(error).__name__}, see the log of the control plane"
                self._stopping.wait(LOOK_SECONDS)

    def _tell(self, error: Exception) -> None:
        if self.reason is None:
            logger.warning("schemas are not read", cluster=self.endpoint.name, reason=str(error))
        self.reason = str(error)

    def _follow(self) -> None:
        """Read on until something is different."""
        if self.topic is None:
            self.topic = SchemasTopic(self.endpoint, self._name)
        self._look_now.clear()
        facts = self.topic.look()
        self.reason = None
        if facts is None:
            # Nobody has written a schema there yet; one that was there and is not goes on being answered.
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
                # The log may not be the one that was read: from the beginning.
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
        """Whether to read on as before: the topic is the one that is read, as far as its cluster says.

        While it says nothing the reader stays, since it hears first when the cluster is back; then there is a new
        one, since not every client comes back from everything. Raises AnotherCluster.
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
        with self.lock.changing():
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
                catalog.other_keys.note(record.key or b"", said)
                if not catalog.apply(said, copied=copied, at_ms=record.timestamp_ms):
                    unreadable.append((record.offset, "its id was given to another schema before"))
            self._forget_answers()
        if unreadable:
            self.unreadable_records += len(unreadable)
            offset, reason = unreadable[0]
            logger.warning(
                "records of the schemas topic that do not count",
                cluster=self.endpoint.name,
                topic=self._name,
                records=len(unreadable),
                first_offset=offset,
                reason=reason,
            )

    def _publish(self, catalog: Catalog, topic_id: str | None, reached: int) -> None:
        with self.lock.changing():
            if self.catalog is not catalog:
                self.catalog = catalog
                self._forget_answers()
        # Before those who wait for their own record go on, so that it is no news to them afterwards.
        self.on_news()
        with self._news:
            self._topic_id, self._reached, self.ready = topic_id, reached, True
            self._news.notify_all()


def _digest(content: Content) -> Content:
    return Content(text=hashlib.sha256(content.text.encode(errors="surrogatepass")).hexdigest())
