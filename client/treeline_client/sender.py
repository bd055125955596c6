"""Sends a producer's records to the active cluster, or queues them while clients are moved.

One lock orders everything: records are handed to librdkafka or queued under it, and nowhere else. So once `direct`
is False under the lock and librdkafka holds no records, nothing can be in flight any more.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from threading import Condition, Lock

from confluent_kafka import KafkaError, KafkaException, Producer

from treeline_client.client_state import Leave, Move, Order, Phase, Resume, Settle, Stay, Way
from treeline_client.configuration import Configuration
from treeline_client.deadlines import Deadline
from treeline_client.errors import ClientClosed
from treeline_client.follower import Follower
from treeline_client.handle import Handle
from treeline_client.records import Record, Reports
from treeline_client.transactions import Transactions

log = logging.getLogger("treeline_client")

_SLICE_SECONDS = 0.1
_LATE_FLUSH_SECONDS = 10.0
_DRAIN_RECORDS = 500
"""Batch of records handed over under the lock at once; threads that produce wait for it."""


class Sender:
    """Records of one producer. The follower's thread moves it (the methods of `Follows`)."""

    def __init__(self, configuration: Configuration, follower: Follower) -> None:
        self.lock = Lock()
        self.changed = Condition()
        """Notified when reports wait or sending resumes."""
        self.reports = Reports(self.changed)
        self._configuration = configuration
        self._follower = follower
        kafka = configuration.kafka
        self._most_records = int(kafka.get("queue.buffering.max.messages", 100_000)) or float("inf")
        self._most_bytes = int(kafka.get("queue.buffering.max.kbytes", 1_048_576)) * 1024
        timeout = kafka.get("delivery.timeout.ms", kafka.get("message.timeout.ms", 300_000))
        self._most_seconds = int(timeout) / 1000 or float("inf")
        self._queue: deque[Record] = deque()
        self._queued_bytes = 0
        state = follower.state
        self.handle = Handle(configuration, state.answer.destination, self.reports).at(state.answer)
        self.direct = state.phase is Phase.ACTIVE
        """True while records go straight to librdkafka; written under the lock."""
        self.transactions = Transactions(self) if self.handle.transactional else None
        self._still = not self.direct
        self._paused_at = time.monotonic()
        self._closed = False
        self._next: Handle | None = None
        self._given_up: Handle | None = None
        self._moving: Move | None = None
        self._give_up_at: float | None = None
        self._task: Callable[[], bool] | None = None
        self.reports.kept_back = not self.direct

    def send(self, record: Record) -> None:
        """Hand a record over or queue it. Raises BufferError when the queue has reached librdkafka's limits."""
        with self.lock:
            if self._closed:
                raise ClientClosed("the producer is closed")
            if self.transactions is not None:
                self.transactions.check(self.direct)
            if self.direct:
                handle = record.handle = self.handle
                record.number = handle.given = handle.given + 1
                topic = record.topic
                # The usual path of every record, so without further calls.
                handle.produce(
                    handle.names.get(topic) or handle.technical(topic), record.value, record.key, record.partition,
                    record.reported, None, record.timestamp, record.headers,
                )  # fmt: skip
                return
            if not isinstance(record.topic, str):
                raise TypeError("topic must be a string")
            size = record.size
            waiting = len(self._queue) + len(self.handle.producer)
            if waiting >= self._most_records or self._queued_bytes + size > self._most_bytes:
                raise BufferError("Local: Queue full")
            if not record.timestamp:
                record.timestamp = int(time.time() * 1000)  # the time of production, not of sending
            record.queued_at = time.monotonic()
            self._queue.append(record)
            self._queued_bytes += size

    def __len__(self) -> int:
        """Return the number of records without a served report."""
        with self.lock:
            if self._closed:
                return 0
            return len(self._queue) + len(self.handle.producer) + len(self.reports)

    @property
    def queued(self) -> int:
        """Return the number of queued records."""
        return len(self._queue)

    def poll(self, seconds: float) -> int:
        """Serve callbacks, waiting up to so many seconds for one; return how many."""
        served = self.reports.serve()
        producer = self._producer()
        if not self.reports.kept_back:
            return served + int(producer.poll(0 if served else seconds)) + self.reports.serve()
        producer.poll(0)  # librdkafka's other events count as outstanding until they are served
        if not served and seconds > 0:
            with self.changed:
                if self.reports.kept_back and not self.reports:
                    self.changed.wait(seconds)
            served = self.reports.serve()
        return served

    def flush(self, seconds: float) -> None:
        """Serve callbacks and have librdkafka send at once, for up to so many seconds."""
        if self.reports.kept_back:
            self.poll(seconds)
            return
        self._producer().flush(seconds)
        self.reports.serve()

    def purge(self, in_queue: bool, in_flight: bool, blocking: bool) -> None:
        """Purge on behalf of the application; every dropped record is reported."""
        with self.lock:
            dropped = list(self._queue) if in_queue else []
            if in_queue:
                self._queue.clear()
                self._queued_bytes = 0
            producer = self.handle.producer
        for record in dropped:
            self._fail(record, KafkaError(KafkaError._PURGE_QUEUE))
        producer.purge(in_queue, in_flight, blocking)

    def wait_until_direct(self, deadline: Deadline) -> None:
        """Wait for a hold or a move to end. Raises KafkaException with _TIMED_OUT."""
        began = time.monotonic()
        if self.direct:
            return
        with self.changed:
            while not self.direct:
                if deadline.over():
                    raise KafkaException(
                        KafkaError(KafkaError._TIMED_OUT, "clients are being moved", False, True, False)
                    )
                self.changed.wait(deadline.left(_SLICE_SECONDS))
        self._waited(began)

    def carry_out(self, order: Order) -> None:
        """Begin an order of discovery."""
        if isinstance(order, Stay):
            if self._moving is not None:
                self._moving = replace(self._moving, answer=order.answer)
            else:
                self.handle.at(order.answer)
            order = Settle(order.answer.next) if order.answer.hold else Resume(ran_out=False)
        if self._moving is not None and isinstance(order, Settle | Resume):
            # On the way to another cluster, where nothing was sent yet: arrive there, and hold or resume there.
            self._moving = replace(self._moving, hold=isinstance(order, Settle))
            self._task = self._open
        elif isinstance(order, Settle):
            self._pause()
            self._task = self._flush
            if order.next is not None and order.next != self.handle.destination:
                self._next = Handle(self._configuration, order.next, self.reports)
                initialised = self.transactions is not None and self.transactions.initialised
                self._next.warm(self.handle.topics, initialised)
        elif isinstance(order, Leave):
            self._pause()
            self._give_up_at = time.monotonic() + _LATE_FLUSH_SECONDS
            self._task = self._flush
        elif isinstance(order, Move):
            self._pause()
            self._moving = order
            self._task = self._open
        else:
            self._still = False
            if self._next is not None:
                self._next.retire()
            self._next = None
            self._task = self._drain

    def work(self) -> bool:
        """Continue the current task; return whether there is more to do."""
        more = self._task() if self._task is not None else False
        if self.reports.kept_back:
            self.handle.producer.poll(0)
        if self._queue:
            self._drop_too_old()
        return more

    def is_settled(self) -> bool:
        """Return whether nothing is in flight, and nothing will be."""
        return self._still

    def still_in(self) -> int | None:
        """Return the generation of the cluster that the producer is leaving; None outside a move."""
        return self.handle.generation if self._moving is not None else None

    def close(self) -> None:
        """Release librdkafka's producer. Calls of other threads are refused from now on."""
        with self.lock:
            self._closed, self.direct = True, False
            self.handle.retire()

    def _producer(self) -> Producer:
        with self.lock:
            if self._closed:
                raise ClientClosed("the producer is closed")
            return self.handle.producer

    def _pause(self) -> None:
        self.reports.kept_back = True
        with self.lock:
            if self.direct:
                self._paused_at = time.monotonic()
                self._follower.counters.last_unavailable_ms = 0.0
            self.direct = False
            self._still = False
            self._give_up_at = None

    def _flush(self) -> bool:
        late = self._give_up_at is not None and time.monotonic() >= self._give_up_at
        if self.transactions is not None and not self.transactions.end_for_switch():
            if not late:
                return True
            self.transactions.lost()
        left = self.handle.producer.flush(_SLICE_SECONDS)
        if left and not late:
            return True
        if left:
            self._reclaim_unsent()
        self._task = None
        self._still = True
        return False

    def _reclaim_unsent(self) -> None:
        """Leave a cluster without waiting for it; records that were never sent go to the front of the queue."""
        records, unknown = self.handle.give_up()
        with self.lock:
            for record in reversed(records):
                record.queued_at = self._paused_at
                self._queue.appendleft(record)
                self._queued_bytes += record.size
        self._given_up = self.handle
        self._follower.counters.unknown_outcomes += unknown
        if unknown:
            log.warning("%d records may or may not have reached %s", unknown, self.handle.destination.cluster)

    def _open(self) -> bool:
        """Move to the new cluster; repeated while librdkafka or the transactional id is not ready."""
        assert self._moving is not None
        answer = self._moving.answer
        if self._given_up is not self.handle and self._moving.way is Way.EMERGENCY:
            if self.transactions is not None:
                self.transactions.lost()
            self._reclaim_unsent()
        if self._next is None or not self._next.leads_to(answer.destination):
            if self._next is not None:
                self._next.retire()
            self._next = Handle(self._configuration, answer.destination, self.reports)
        if not self._next.ready():
            time.sleep(0.01)
            return True
        if self.transactions is not None and self.transactions.initialised and not self._next.initialised:
            try:
                self._next.producer.init_transactions(1.0)
            except KafkaException as error:
                log.info("transactions on %s: %s", answer.cluster, error)
                return True
            self._next.initialised = True
        hold = self._moving.hold
        with self.lock:
            before, self.handle = self.handle, self._next.at(answer)
        before.retire()
        self._next = self._given_up = self._moving = None
        self._task = self._flush if hold else self._drain
        return True

    def _drain(self) -> bool:
        """Hand queued records over, in order; then let records go straight."""
        full = False
        failed: list[tuple[Record, KafkaError]] = []
        with self.lock:
            for _ in range(min(_DRAIN_RECORDS, len(self._queue))):
                record = self._queue[0]
                try:
                    self.handle.send(record)
                except BufferError:
                    full = True
                    break
                except KafkaException as error:
                    failed.append((record, error.args[0]))
                except (TypeError, ValueError) as error:
                    failed.append((record, KafkaError(KafkaError._INVALID_ARG, str(error))))
                self._waited(record.queued_at)
                self._queue.popleft()
                self._queued_bytes -= record.size
            done = not self._queue
            if done:
                self.direct = True
        for record, why in failed:
            self._fail(record, why)
        if full:
            self.handle.producer.poll(_SLICE_SECONDS)
        if done:
            self._task = None
            self.reports.kept_back = False
            with self.changed:
                self.changed.notify_all()
        return not done

    def _drop_too_old(self) -> None:
        """Report records that waited longer than librdkafka would have retried."""
        end = time.monotonic() - self._most_seconds
        late = []
        with self.lock:
            while self._queue and self._queue[0].queued_at < end:
                late.append(self._queue.popleft())
                self._queued_bytes -= late[-1].size
        for record in late:
            self._fail(record, KafkaError(KafkaError._MSG_TIMED_OUT))

    def _fail(self, record: Record, error: KafkaError) -> None:
        self.reports.keep(record, error, record.failed(error))

    def _waited(self, since: float) -> None:
        """Record the longest wait of this move."""
        counters = self._follower.counters
        counters.last_unavailable_ms = max(counters.last_unavailable_ms, (time.monotonic() - since) * 1000)
