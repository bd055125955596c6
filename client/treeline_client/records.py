"""One record between the application's `produce()` and its delivery report."""

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
    """What is needed to send a record again, should its cluster be left before it was sent.

    It lives as long as librdkafka holds its delivery callback, which is its own method: nothing is looked up.
    """

    __slots__ = (
        "callback", "handle", "headers", "key", "number", "partition", "queued_at", "timestamp", "topic", "value",
    )  # fmt: skip

    handle: Handle
    """The one that it was handed to."""
    number: int
    """Its place among all that were handed to it."""
    queued_at: float
    """Monotonic; while it is kept back."""

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
        """librdkafka's delivery report."""
        handle = self.handle
        if error is not None and handle.failed(self, error, message):
            return
        if handle.reports.kept_back:
            handle.reports.keep(self, error, message)
        elif self.callback is not None:
            message.set_topic(self.topic)  # type: ignore[attr-defined]
            self.callback(error, message)

    def failed(self, error: KafkaError) -> Message:
        """A delivery report's message, for a record that was not handed to librdkafka."""
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
        """Bytes that count against the bound of what is kept back."""
        return (len(self.value) if self.value else 0) + (len(self.key) if self.key else 0)


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


class Reports:
    """Delivery reports that came in while this package served the handle: the application's `poll()` serves them.

    librdkafka promises that callbacks run in `poll()` and `flush()` only, and applications count on it.
    """

    def __init__(self, changed: Condition) -> None:
        self.kept_back = False
        """While true every report waits here, in order, whoever's poll it came in."""
        self._changed = changed
        self._waiting: deque[tuple[Record, KafkaError | None, Message]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, record: Record, error: KafkaError | None, message: Message) -> None:
        """Keep a report for the application's next poll; those that nobody asked for are dropped."""
        if record.callback is not None:
            message.set_topic(record.topic)  # type: ignore[attr-defined]
            message.set_error(error)
            self._waiting.append((record, error, message))
            with self._changed:
                self._changed.notify_all()

    def serve(self) -> int:
        """Run the callbacks of what waits, in the caller's thread; how many."""
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
