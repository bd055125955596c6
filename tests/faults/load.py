"""Producers that send while faults happen, and record the outcome of every record.

There are two on each cluster: an idempotent one, and a transactional one that aborts every few transactions on
purpose. Each sends at an even rate from its own thread, and starts a new lane after an error that ends a producer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from random import Random
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.faults.history import History, Outcome, Send

TICK_SECONDS = 0.1
ABORTED_SHARE = 0.2
OUTAGE_SECONDS = 30.0
# Longer than any fault: records that a producer gives up are unknown, and unknown records prove less.
PATIENCE_SECONDS = 60.0
FLUSH_SECONDS = 300.0
# The broker reported that it did not take the record; after any other error it may have it all the same.
_REFUSED = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_TIMESTAMP})


class Load:
    """Load on an estate: `with Load(...)` sends until the block ends, then waits for every outcome.

    `rate` is records per second over all clusters; `partitions` may be raised while it runs.
    """

    def __init__(
        self, history: History, servers: Mapping[str, str], topics: Mapping[str, str], partitions: int, rate: float
    ) -> None:
        self.partitions = partitions
        self._lanes = [
            kind(self, history, cluster, servers[cluster], topics[cluster], rate / (2 * len(servers)))
            for cluster in history.sends
            for kind in (_Idempotent, _Transactional)
        ]

    def __enter__(self) -> Load:
        for lane in self._lanes:
            lane.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in self._lanes:
            lane.stopping.set()
        for lane in self._lanes:
            lane.join()
        failed = [lane.failure for lane in self._lanes if lane.failure is not None]
        if failed and error is None:
            raise failed[0]


class _Lane(threading.Thread):
    """One producer on one cluster."""

    def __init__(self, load: Load, history: History, cluster: str, servers: str, topic: str, rate: float) -> None:
        super().__init__(name=f"{type(self).__name__} on {cluster}", daemon=True)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self._load, self._history, self._cluster, self._topic, self._rate = load, history, cluster, topic, rate
        self._servers = servers
        self._rng = Random(f"{history.seed}:{self.name}")
        self._owed, self._ticked = 0.0, time.monotonic()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._lane = self._history.new_lane()
                try:
                    self._send_on()
                except KafkaException:
                    # This producer is of no more use; its records in flight have the outcome that was noted.
                    self.stopping.wait(1.0)
        except BaseException as error:  # noqa: BLE001 - raised again where the load ends
            self.failure = error

    def _send_on(self) -> None:
        raise NotImplementedError

    def _producer(self, **config: object) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                # For ever: a producer that gives up a record starts a new epoch, in which it sends records again
                # that the broker has already.
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 1000,
                "topic.metadata.refresh.interval.ms": 1000,  # new partitions are to be used at once
                "logger": _Silent(),
                **config,
            }
        )

    def _due(self) -> int:
        """Wait a tick; return how many records to send then."""
        self.stopping.wait(TICK_SECONDS)
        now = time.monotonic()
        # Records that an outage kept from being sent are sent afterwards; no outage lasts longer.
        self._owed = min(self._owed + self._rate * (now - self._ticked), self._rate * OUTAGE_SECONDS)
        self._ticked = now
        due = int(self._owed)
        self._owed -= due
        return due

    def _send(self, producer: Producer, delivered: Callable[[KafkaError | None, Message], None] | None) -> Send:
        partition = self._rng.randrange(self._load.partitions)
        send, made = self._history.begin(self._cluster, self._lane, partition)
        report = delivered or _outcome(send)
        when = {} if made.timestamp_ms is None else {"timestamp": made.timestamp_ms}
        while True:
            try:
                producer.produce(
                    self._topic,
                    made.value,
                    made.key,
                    partition,
                    on_delivery=report,
                    headers=[*made.others, *made.ours],
                    **when,
                )
            except BufferError:
                producer.poll(0.1)
            else:
                return send


class _Idempotent(_Lane):
    """A producer that sends and waits for nothing; each delivery report is an outcome."""

    def _send_on(self) -> None:
        producer = self._producer()
        try:
            while not self.stopping.is_set():
                for _ in range(self._due()):
                    self._send(producer, None)
                producer.poll(0)
        finally:
            producer.flush(FLUSH_SECONDS)


class _Transactional(_Lane):
    """A producer with one transaction a tick, whose outcome is that of all its records."""

    def _send_on(self) -> None:
        producer = self._producer(
            **{
                "transactional.id": f"load-{self._history.run}-{self._cluster}",
                "transaction.timeout.ms": int(PATIENCE_SECONDS * 1000),
            }
        )
        producer.init_transactions(PATIENCE_SECONDS)
        while not self.stopping.is_set():
            due = self._due()
            if due:
                self._transaction(producer, due)

    def _transaction(self, producer: Producer, due: int) -> None:
        producer.begin_transaction()
        sends = [self._send(producer, lambda *_: None) for _ in range(due)]
        if self._rng.random() < ABORTED_SHARE:
            _note(sends, Outcome.ABORTED)
            producer.flush(PATIENCE_SECONDS)  # so that there is something on the log that must not be read
            producer.abort_transaction(PATIENCE_SECONDS)
            return
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                producer.commit_transaction(PATIENCE_SECONDS)
            except KafkaException as failed:
                error = failed.args[0]
                if error.txn_requires_abort():
                    _note(sends, Outcome.ABORTED)
                    producer.abort_transaction(PATIENCE_SECONDS)
                    return
                if not error.retriable() or time.monotonic() > deadline:
                    raise
            else:
                _note(sends, Outcome.OK)
                return


def _note(sends: list[Send], outcome: Outcome) -> None:
    for send in sends:
        send.outcome = outcome


def _outcome(send: Send) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is None:
            send.outcome = Outcome.OK
        elif error.code() in _REFUSED:
            send.outcome = Outcome.FAILED

    return delivered


class _Silent:
    """Silent logger: these producers exist for faults, so librdkafka need not report each."""

    def log(self, *_: object) -> None:
        return
