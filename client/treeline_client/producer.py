"""A producer that follows discovery from cluster to cluster, with the methods of confluent-kafka's Producer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from confluent_kafka import TopicPartition

from treeline_client import configuration
from treeline_client.client_state import PRODUCER
from treeline_client.deadlines import Deadline
from treeline_client.errors import ClientClosed
from treeline_client.follower import Follower
from treeline_client.metrics import Metrics
from treeline_client.records import Callback, Record
from treeline_client.sender import Sender
from treeline_client.topics import logical_metadata
from treeline_client.transactions import Transactions

_SLICE_SECONDS = 0.1


class SwitchingProducer:
    """Produces to the active cluster of an environment, under logical topic names.

    While clients are moved, records are queued, in order and up to librdkafka's own limits, and sent on the new
    cluster. Several threads may use it at once; the order of each thread's records is kept. Delivery callbacks run
    in `poll()`, `flush()` and `close()` only; `error_cb`, `stats_cb` and `throttle_cb` may also run in a thread of
    this package while clients are moved.
    """

    def __init__(self, conf: Mapping[str, Any], /, **more: Any) -> None:
        """`conf` holds librdkafka's keys except `bootstrap.servers`, and those of Treeline (README).

        Raises ConfigurationRefused, DiscoveryRefused, DiscoveryUnavailable, and KafkaException if librdkafka
        refuses the configuration.
        """
        read = configuration.read({**conf, **more})
        callback = read.kafka.pop("on_delivery", None)
        self._callback: Callback | None = read.kafka.pop("dr_cb", callback)
        self._follower = Follower(read, PRODUCER)
        self._sender = Sender(read, self._follower)
        self._closed = False
        self._closing = threading.Lock()
        self._follower.start(self._sender)

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Callback | None = None,
        on_delivery: Callback | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Send a record in the background. Returns at once, also while clients are moved.

        `timestamp` is in milliseconds. The callback gets `(error, message)`, with the logical topic. Raises
        BufferError when the queue is full (call `poll()`, then retry), TransactionAbortedBySwitch, and
        KafkaException.
        """
        if self._closed:
            raise ClientClosed("the producer is closed")
        report = on_delivery or callback or self._callback
        self._sender.send(Record(topic, value, key, partition, report, timestamp, headers))

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks; return how many. Wait up to `timeout` seconds (negative: forever) for the first."""
        self._check()
        deadline = Deadline(timeout)
        while True:
            served = self._sender.poll(deadline.left(_SLICE_SECONDS))
            if served or deadline.over():
                return served

    def flush(self, timeout: float = -1) -> int:
        """Wait until all records are delivered, also through a move; return how many are left after `timeout`."""
        self._check()
        deadline = Deadline(timeout)
        while True:
            self._sender.flush(deadline.left(_SLICE_SECONDS))
            left = len(self._sender)
            if not left or deadline.over():
                return left

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Drop all records that are not delivered yet; each record's delivery report says so."""
        self._check()
        self._sender.purge(in_queue, in_flight, blocking)

    def __len__(self) -> int:
        """Return the number of undelivered records and unserved reports."""
        return 0 if self._closed else len(self._sender)

    def __bool__(self) -> bool:
        """Return True, also with an empty queue."""
        return True

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Return the active cluster's metadata for topics of this environment, under their logical names."""
        self._check()
        handle = self._sender.handle
        found = handle.producer.list_topics(handle.technical(topic) if topic else None, timeout)
        return logical_metadata(found, handle.logical)

    def init_transactions(self, timeout: float = -1) -> None:
        """Prepare for transactions, once before the first one; every later cluster is prepared automatically."""
        self._transactions().init(timeout)

    def begin_transaction(self, timeout: float = -1) -> None:
        """Begin a transaction as soon as clients are not being moved.

        Raises KafkaException with _TIMED_OUT if that takes longer than `timeout` seconds.
        """
        self._transactions().begin(timeout)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commit the transaction. Raises TransactionAbortedBySwitch if a switch aborted it."""
        self._transactions().commit(timeout)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort the transaction; do nothing if a switch has aborted it."""
        self._transactions().abort(timeout)

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Commit a consumer's positions with the transaction.

        `positions` have logical topics; `group_metadata` comes from `SwitchingConsumer.consumer_group_metadata()`.
        Raises StaleGeneration if that consumer is in another generation than this transaction.
        """
        self._transactions().send_offsets(positions, group_metadata, timeout)

    def generation(self) -> int:
        """Return the generation that this producer sends in."""
        return self._follower.state.answer.generation

    def cluster(self) -> str:
        """Return the name of the cluster that this producer sends to."""
        return self._follower.state.answer.cluster

    def metrics(self) -> Metrics:
        """Return the metrics of this producer."""
        state = self._follower.state
        figures = Metrics(
            generation=state.answer.generation,
            cluster=state.answer.cluster,
            phase=state.phase.value,
            queued_records=self._sender.queued,
        )
        return self._follower.counters.onto(figures)

    def close(self, timeout: float = -1) -> bool:
        """Deliver remaining records for up to `timeout` seconds and unregister; return whether none is left."""
        with self._closing:
            if self._closed:
                return True
            left = self.flush(timeout)
            self._closed = True
            self._follower.stop()
            self._sender.close()
            return left == 0

    def __enter__(self) -> SwitchingProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise ClientClosed("the producer is closed")

    def _transactions(self) -> Transactions:
        self._check()
        if self._sender.transactions is None:
            raise ValueError("transactions require transactional.id in the configuration")
        return self._sender.transactions
