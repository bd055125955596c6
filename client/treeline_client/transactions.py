"""Transactions of a producer that may be moved: one that is open at a switch is aborted, and the application told.

All calls of transactions are serialised, so that the thread that follows discovery never aborts under a call: a
commit that is under way is let finish. Only an emergency does not wait, since the cluster may never answer.
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
    """Of the application's transaction."""

    NONE = "none"
    OPEN = "open"
    ABORTED = "aborted"
    """By a switch; the application has not yet called `abort_transaction()`."""


class Transactions:
    """The transactions of one producer."""

    def __init__(self, sender: Sender) -> None:
        self.initialised = False
        """The application has called `init_transactions`, which is repeated on each cluster."""
        self._sender = sender
        self._calls = threading.RLock()
        self._state = State.NONE
        self._refused = False  # a record of the open transaction was: the rest of it must not be committed
        self._handle: Handle

    def check(self, direct: bool) -> None:
        """Raise unless a record may be sent now; the sender's lock is held."""
        if self._state is State.ABORTED or (self._state is State.OPEN and not direct):
            self._refused = True
            raise self._aborted()
        if not direct:
            raise KafkaException(KafkaError(KafkaError._STATE, "no transaction was begun"))

    def init(self, timeout: float) -> None:
        """`init_transactions`, once a hold that is under way has ended."""
        deadline = Deadline(timeout)
        self._sender.wait_until_direct(deadline)
        with self._calls:
            handle = self._sender.handle
            handle.producer.init_transactions(deadline.left())
            handle.initialised = self.initialised = True

    def begin(self, timeout: float) -> None:
        """`begin_transaction`, once the client may send. Raises KafkaException with _TIMED_OUT."""
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
        """`commit_transaction`."""
        with self._calls:
            self._check_open()
            producer = self._producer()
            self._finish(producer.commit_transaction, timeout)

    def abort(self, timeout: float) -> None:
        """`abort_transaction`; done already if a switch did it."""
        with self._calls:
            if self._state is not State.ABORTED:
                with contextlib.suppress(TransactionAbortedBySwitch):
                    self._finish(self._producer().abort_transaction, timeout)
            self._state, self._refused = State.NONE, False

    def send_offsets(self, positions: list[TopicPartition], group: object, timeout: float) -> None:
        """`send_offsets_to_transaction`. Raises StaleGeneration if the consumer is in another generation."""
        with self._calls:
            self._check_open()
            if isinstance(group, GroupMetadata):
                if group.generation != self._handle.generation:
                    self._refused = True
                    raise StaleGeneration(
                        f"the consumer is on {group.cluster} in generation {group.generation}, the producer on"
                        f" {self._handle.destination.cluster} in generation {self._handle.generation}: abort, and"
                        " go on with what the consumer reads next"
                    )
                group = group.metadata
            technical = renamed(positions, self._handle.technical)
            self._producer().send_offsets_to_transaction(technical, group, timeout)

    def end_for_switch(self) -> bool:
        """Abort what is open, as soon as no call is under way; whether nothing is open. The follower's thread."""
        if self._state is not State.OPEN:
            return True
        if not self._calls.acquire(timeout=0.1):
            return False
        try:
            if self._state is State.OPEN:
                self._refused = True  # should the abort take a second try, nothing commits in between
                try:
                    self._producer().abort_transaction(_ABORT_SECONDS)
                except KafkaException as error:
                    log.warning("aborting a transaction for a switch: %s", error)
                    if error.args[0].retriable():
                        return False
                    # What is left of it ends by its time-out. Calls for it are refused: none can commit it.
                self._state = State.ABORTED
            return True
        finally:
            self._calls.release()

    def lost(self) -> None:
        """An emergency: the transaction ends by its time-out, on the cluster that is gone."""
        if self._state is State.OPEN:
            self._state = State.ABORTED

    def _producer(self) -> Producer:
        return (self._handle if self._state is State.OPEN else self._sender.handle).producer

    def _check_open(self) -> None:
        if self._state is State.ABORTED or self._refused:
            raise self._aborted()

    def _finish(self, call: Callable[[float], None], timeout: float) -> None:
        """End the transaction by a call that may be repeated after a time-out, looking up now and then."""
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
        more = "; it was being committed there, and may have been" if outcome_unknown else ""
        cluster = self._handle.destination.cluster
        return TransactionAbortedBySwitch(
            f"the transaction was open on {cluster} when clients were told to leave it{more}", outcome_unknown
        )
