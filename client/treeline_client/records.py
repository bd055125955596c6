"""A record between the application's `produce()` and its delivery report."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, Message

if TYPE_CHECKING:
    from treeline_client.handle import Handle

Callback = Callable[[KafkaError | None, Message], None]


class Record:
    """Data needed to send a record again if its cluster is left before it was sent.

    The record lives as long as librdkafka holds its delivery callback, which is its own method, so that no
    lookup is needed.
    """

    __slots__ = (
        "callback", "handle", "headers", "key", "number", "partition", "queued_at", "timestamp", "topic", "value",
    )  # fmt: skip

    handle: Handle
    """Handle that the record was handed to."""
    number: int
    """Sequence number of the record within its handle."""
    queued_at: float
    """Monotonic time when the record was queued; set only while it is queued."""

    def __init__(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int,
        callback: Callback | None,
        timestamp: int,
        headers: Any,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        self.callback = callback
        self.timestamp = timestamp
        self.headers = headers

    def reported(self, error: KafkaError | None, message: Message) -> None:
        """Handle librdkafka's delivery report."""
        handle = self.handle
        if error is not None and handle.failed(self, error, message):
            return
        if handle.reports.kept_back:
            handle.reports.keep(self, error, message)
        elif self.callback is not None:
            message.set_topic(self.topic)  # type: ignore[attr-defined]
            self.callback(error, message)

    def failed(self, error: KafkaError) -> Message:
        """Return the message of a delivery report, for a record that was not handed to librdkafka."""
        return Message(
            topic=self.topic,
            partition=self.partition,
            key=_bytes(self.key),
            value=_bytes(self.value),
            headers=list(self.headers.items()) if isinstance(self.headers, dict) else self.headers,
            error=error,
        )

    @property
    def size(self) -> int:
        """Return the bytes that count against the limit of the queue."""
        return (len(self.value) if self.value else 0) + (len(self.key) if self.key else 0)


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


class Reports:
    """Delivery reports that arrived while this package served the handle; the application's `poll()` serves them.

    librdkafka guarantees that callbacks run in `poll()` and `flush()` only, and applications rely on it.
    """

    def __init__(self, changed: Condition) -> None:
        self.kept_back = False
        """While True, every report waits here, in order, no matter which poll received it."""
        self._changed = changed
        self._waiting: deque[tuple[Record, KafkaError | None, Message]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, record: Record, error: KafkaError | None, message: Message) -> None:
        """Keep a report for the application's next poll; drop it if the record has no callback."""
        if record.callback is not None:
            message.set_topic(record.topic)  # type: ignore[attr-defined]
            message.set_error(error)
            self._waiting.append((record, error, message))
            with self._changed:
                self._changed.notify_all()

    def serve(self) -> int:
        """Run the callbacks of waiting reports in the caller's thread; return how many."""
        served = 0
        while self._waiting:
            try:
                record, error, message = self._waiting.popleft()
            except IndexError:  # another thread's poll took it
                break
            served += 1
            if record.callback is not None:
                record.callback(error, message)
        return served
