"""Transactions of a producer that can be moved: a switch aborts the open one and the application is told.

All transaction calls are serialised, so that the follower's thread never aborts during a call: a running commit
finishes first. Only an emergency does not wait, since the cluster may never answer.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from treeline_client.deadlines import Deadline
from treeline_client.errors import StaleGeneration, TransactionAbortedBySwitch
from treeline_client.groups import GroupMetadata
from treeline_client.handle import Handle
from treeline_client.topics import renamed

if TYPE_CHECKING:
    from treeline_client.sender import Sender

log = logging.getLogger("treeline_client")

_SLICE_SECONDS = 1.0
_ABORT_SECONDS = 5.0


class State(Enum):
    """State of the application's transaction."""

    NONE = "none"
    OPEN = "open"
    ABORTED = "aborted"
    """Aborted by a switch; the application has not called `abort_transaction()` yet."""


class Transactions:
    """The transactions of one producer."""

    def __init__(self, sender: Sender) -> None:
        self.initialised = False
        """True once the application has called `init_transactions`, which is repeated on each cluster."""
        self._sender = sender
        self._calls = threading.RLock()
        self._state = State.NONE
        self._refused = False  # a record of the open transaction was refused, so the rest must not be committed
        self._handle: Handle

    def check(self, direct: bool) -> None:
        """Raise unless a record may be sent now; called with the sender's lock held."""
        if self._state is State.ABORTED or (self._state is State.OPEN and not direct):
            self._refused = True
            raise self._aborted()
        if not direct:
            raise KafkaException(KafkaError(KafkaError._STATE, "no transaction is open"))

    def init(self, timeout: float) -> None:
        """Run `init_transactions` after a hold has ended."""
        deadline = Deadline(timeout)
        self._sender.wait_until_direct(deadline)
        with self._calls:
            handle = self._sender.handle
            handle.producer.init_transactions(deadline.left())
            handle.initialised = self.initialised = True

    def begin(self, timeout: float) -> None:
        """Run `begin_transaction` once the client may send. Raises KafkaException with _TIMED_OUT."""
        deadline = Deadline(timeout)
        while True:
            self._sender.wait_until_direct(deadline)
            with self._calls, self._sender.lock:
                if not self._sender.direct:
                    continue
                if self._state is State.ABORTED:
                    raise self._aborted()
                self._handle = self._sender.handle
                self._handle.producer.begin_transaction()
                self._state, self._refused = State.OPEN, False
                return

    def commit(self, timeout: float) -> None:
        """Run `commit_transaction`."""
        with self._calls:
            self._check_open()
            producer = self._producer()
            self._finish(producer.commit_transaction, timeout)

    def abort(self, timeout: float) -> None:
        """Run `abort_transaction`; do nothing if a switch has aborted the transaction."""
        with self._calls:
            if self._state is not State.ABORTED:
                with contextlib.suppress(TransactionAbortedBySwitch):
                    self._finish(self._producer().abort_transaction, timeout)
            self._state, self._refused = State.NONE, False

    def send_offsets(self, positions: list[TopicPartition], group: object, timeout: float) -> None:
        """Run `send_offsets_to_transaction`. Raises StaleGeneration if the consumer is in another generation."""
        with self._calls:
            self._check_open()
            if isinstance(group, GroupMetadata):
                if group.generation != self._handle.generation:
                    self._refused = True
                    raise StaleGeneration(
                        f"the consumer is on {group.cluster} in generation {group.generation}, the producer on"
                        f" {self._handle.destination.cluster} in generation {self._handle.generation}; abort, then"
                        " continue with what the consumer reads next"
                    )
                group = group.metadata
            technical = renamed(positions, self._handle.technical)
            self._producer().send_offsets_to_transaction(technical, group, timeout)

    def end_for_switch(self) -> bool:
        """Abort an open transaction unless a call is running; return whether none is open. Follower's thread."""
        if self._state is not State.OPEN:
            return True
        if not self._calls.acquire(timeout=0.1):
            return False
        try:
            if self._state is State.OPEN:
                self._refused = True  # nothing may commit between two attempts to abort
                try:
                    self._producer().abort_transaction(_ABORT_SECONDS)
                except KafkaException as error:
                    log.warning("aborting a transaction for a switch: %s", error)
                    if error.args[0].retriable():
                        return False
                # The broker aborts the rest by its timeout. Calls for it are refused, so none can commit it.
                self._state = State.ABORTED
            return True
        finally:
            self._calls.release()

    def lost(self) -> None:
        """Treat the open transaction as aborted: in an emergency its timeout ends it on the old cluster."""
        if self._state is State.OPEN:
            self._state = State.ABORTED

    def _producer(self) -> Producer:
        return (self._handle if self._state is State.OPEN else self._sender.handle).producer

    def _check_open(self) -> None:
        if self._state is State.ABORTED or self._refused:
            raise self._aborted()

    def _finish(self, call: Callable[[float], None], timeout: float) -> None:
        """End the transaction by a call that can be repeated after a timeout; check for a switch in between."""
        deadline = Deadline(timeout)
        while True:
            try:
                call(deadline.left(_SLICE_SECONDS))
                self._state = State.NONE
                return
            except KafkaException as error:
                if self._state is State.ABORTED:  # by an emergency, meanwhile
                    raise self._aborted(outcome_unknown=True) from error
                timed_out = error.args[0].code() == KafkaError._TIMED_OUT and error.args[0].retriable()
                if not timed_out or deadline.over():
                    raise
                time.sleep(0)

    def _aborted(self, outcome_unknown: bool = False) -> TransactionAbortedBySwitch:
        more = "; its commit was running and may have succeeded" if outcome_unknown else ""
        cluster = self._handle.destination.cluster
        return TransactionAbortedBySwitch(
            f"the transaction was open on {cluster} when clients were told to leave it{more}", outcome_unknown
        )
