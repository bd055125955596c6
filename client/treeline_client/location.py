"""Location of a consumer, and where discovery wants it; the application's thread moves it from one to the other.

The follower's thread only sets the wanted location. The application's thread closes and opens the consumer, from
`poll()` and `consume()`, since rebalance listeners run there and librdkafka's consumer belongs to one thread at a
time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Condition
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from treeline_client.answers import Answer
from treeline_client.client_state import Leave, Move, Order, Phase, Resume, Settle, Stay, Way
from treeline_client.configuration import Configuration
from treeline_client.deadlines import Deadline
from treeline_client.errors import ClientClosed, StaleGeneration
from treeline_client.follower import Follower
from treeline_client.reader import Reader, Subscription

_SLICE_SECONDS = 0.1


@dataclass(frozen=True)
class Wanted:
    """Location that discovery wants for the consumer."""

    answer: Answer
    open: bool
    gently: bool
    """True to close with a last commit; False if the old cluster may be down."""
    since: float
    """Wall-clock time, for messages only."""
    stays: frozenset[int] = frozenset()
    """Generations in which an open reader stays open, and enters the new one."""


class Location:
    """Location of one consumer. `carry_out`, `work` and `is_settled` are called by the follower's thread."""

    def __init__(self, configuration: Configuration, follower: Follower, owner: Any) -> None:
        self.reader: Reader | None = None
        """Open consumer; None between clusters."""
        self._configuration = configuration
        self._follower = follower
        self._owner = owner
        self._changed = Condition()
        state = follower.state
        self._wanted = Wanted(state.answer, state.phase is Phase.ACTIVE, True, time.time())
        self._here: Wanted | None = None  # the wanted location where the open reader is
        self._at = state.answer
        self._subscription: Subscription | None = None
        self._assigned: list[TopicPartition] | None = None
        self._paused: set[tuple[str, int]] = set()
        self._closed = False
        self._moving = False  # while True, a rebalance listener that calls back must not move again
        self._closed_at: float | None = None
        self._opening = False
        if self._wanted.open:
            self._open(self._wanted, again=False)

    @property
    def generation(self) -> int:
        """Return the generation of the present, or else the last, cluster."""
        return self._at.generation

    @property
    def cluster(self) -> str:
        """Return the name of the present, or else the last, cluster."""
        return self._at.cluster

    def carry_out(self, order: Order) -> None:
        """Set the location that an order wants."""
        before, stays = self._wanted.answer, self._wanted.stays
        if isinstance(order, Settle):
            wanted = Wanted(before, False, True, time.time(), stays)
        elif isinstance(order, Stay):
            wanted = Wanted(order.answer, not order.answer.hold, True, time.time(), stays | {before.generation})
        elif isinstance(order, Move):
            wanted = Wanted(order.answer, not order.hold, order.way is Way.HELD, time.time())
        else:
            assert isinstance(order, Resume | Leave)
            wanted = Wanted(before, True, True, time.time(), stays)
        with self._changed:
            self._wanted = wanted
            self._changed.notify_all()

    def work(self) -> bool:
        """Return False: the follower's thread has nothing to do."""
        return False

    def is_settled(self) -> bool:
        """Return whether the consumer is closed, as wanted."""
        with self._changed:
            return not self._wanted.open and self.reader is None and not self._opening

    def still_in(self) -> int | None:
        """Return the generation of the open reader, if discovery has moved its clients on."""
        reader, wanted = self.reader, self._wanted
        if reader is None or reader.generation in (wanted.answer.generation, *wanted.stays):
            return None
        return reader.generation

    def settled(self) -> Reader | None:
        """Return the reader, if the consumer is open where it is wanted."""
        return self.reader if self._here is self._wanted else None

    def follow(self) -> Reader | None:
        """Move the consumer to the wanted location; return its reader there, or None between clusters."""
        if self._closed:
            raise ClientClosed("the consumer is closed")
        wanted = self._wanted
        if self._moving:
            return self.reader
        self._stay(wanted)
        if self.reader is not None and (not wanted.open or self._at.generation != wanted.answer.generation):
            # A reader whose clients have moved on has nothing to commit here any more.
            still = self._at.generation in (wanted.answer.generation, *wanted.stays)
            self._leave(wanted.gently and still, moving=True)
        if self.reader is None and wanted.open:
            self._open(wanted, again=True)
        if self._wanted is not wanted:
            return None  # the wanted location has changed: move again before anything is read
        if self.reader is not None:
            if wanted.open:
                self._here = wanted
            self.reader.commit_in_time()
        return self.reader

    def _stay(self, wanted: Wanted) -> None:
        """Let an open reader stay after an aborted switch; its messages may still be committed."""
        if self.reader is not None and self.reader.generation in wanted.stays:
            self.reader.stay(wanted.answer)
            self._at = wanted.answer

    def is_present(self, generation: int) -> bool:
        """Return whether messages of a generation may be committed now."""
        present = self._wanted.answer.generation
        reader = self.reader
        if reader is not None and reader.generation == present:
            return generation in reader.generations
        return generation == present

    def wait(self, seconds: float) -> None:
        """Wait, between clusters, until the wanted location changes."""
        with self._changed:
            if not self._wanted.open and seconds > 0:
                self._changed.wait(seconds)

    def opened(self) -> Reader:
        """Return the open reader, on any cluster. Raises StaleGeneration between clusters."""
        if self.reader is None:
            self.follow()
        if self.reader is None:
            raise self._stale("the consumer is between clusters")
        return self.reader

    def wait_open(self, deadline: Deadline) -> Reader:
        """Return the open reader, once there is one. Raises KafkaException with _TIMED_OUT."""
        while self.reader is None:
            if self.follow() is None:
                if deadline.over():
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "clients are being moved", False, True))
                self.wait(deadline.left(_SLICE_SECONDS))
        return self.reader

    def to_commit(self) -> Reader:
        """Return the reader for a commit. Raises StaleGeneration between clusters and once a move is known."""
        if self._closed:
            raise ClientClosed("the consumer is closed")
        self._stay(self._wanted)
        reader = self.reader
        if reader is None or reader.generation != self._wanted.answer.generation:
            raise self.stale(f"read on {self._at.cluster} in generation {self._at.generation}")
        return reader

    def stale(self, what: str) -> StaleGeneration:
        """Count and return the error that refuses a commit."""
        self._follower.counters.stale_commits_refused += 1
        return self._stale(what)

    def _stale(self, what: str) -> StaleGeneration:
        wanted = self._wanted
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wanted.since))
        state = "are on" if wanted.open else "hold on"
        return StaleGeneration(
            f"{what}; clients {state} {wanted.answer.cluster} in generation {wanted.answer.generation} since"
            f" {since}. Nothing was committed; the group resumes there from its translated progress"
        )

    def subscribe(self, subscription: Subscription | None) -> None:
        """Subscribe, here and on every later cluster; None unsubscribes."""
        self._subscription, self._assigned = subscription, None
        self._paused.clear()
        if self.reader is not None:
            self.reader.commit_stored()
            if subscription is None:
                self.reader.consumer.unsubscribe()
            else:
                self.reader.subscribe(subscription)

    def assign(self, partitions: list[TopicPartition] | None) -> None:
        """Assign partitions, here and on every later cluster; None unassigns all."""
        if self._subscription is None:  # otherwise a listener assigns, for the present rebalance only
            self._assigned = partitions
        if self.reader is not None:
            if not self._moving:
                self.reader.commit_stored()
            if partitions is None:
                self.reader.consumer.unassign()
            else:
                technical = self.reader.technical(partitions)
                self.reader.consumer.assign(technical)
                self.reader.begin(technical)

    def assign_more(self, partitions: list[TopicPartition]) -> None:
        """Assign further partitions."""
        if self._subscription is None:
            self._assigned = [*_without(self._assigned or [], partitions), *partitions]
        if self.reader is not None:
            technical = self.reader.technical(partitions)
            self.reader.consumer.incremental_assign(technical)
            self.reader.begin(technical)

    def assign_fewer(self, partitions: list[TopicPartition]) -> None:
        """Unassign partitions."""
        if self._subscription is None:
            self._assigned = _without(self._assigned or [], partitions)
        if self.reader is not None:
            self.reader.commit_stored()
            self.reader.consumer.incremental_unassign(self.reader.technical(partitions))
            self.reader.progress.forget(partitions)

    def paused(self, partitions: Sequence[TopicPartition], now: bool) -> None:
        """Remember which partitions are paused."""
        places = {(partition.topic, partition.partition) for partition in partitions}
        self._paused = self._paused | places if now else self._paused - places

    def close(self) -> None:
        """Close the consumer for good."""
        if self._closed:
            return
        if self.reader is not None:
            self._leave(self._wanted.gently or self._at.generation == self._wanted.answer.generation)
        self._closed = True

    def _leave(self, gently: bool, moving: bool = False) -> None:
        self._moving = True
        try:
            reader = self.reader
            assert reader is not None
            if not gently:
                reader.abandon(self._subscription)
            elif not reader.close(moving):
                return  # retried with the next poll; until then, the consumer is not reported as closed
        finally:
            self._moving = False
        self.reader = self._here = None
        self._closed_at = time.monotonic()
        self._follower.wake()

    def _open(self, wanted: Wanted, again: bool) -> None:
        with self._changed:
            if self._wanted is not wanted:
                return
            # While it is being opened, the consumer must not be reported as closed.
            self._opening = True
        try:
            reader = Reader(self._configuration, wanted.answer, self._owner)
            if self._subscription is not None:
                reader.subscribe(self._subscription)
            elif self._assigned is not None:
                paused = [TopicPartition(topic, partition) for topic, partition in self._paused]
                reader.assign_again(self._assigned, paused)
            self.reader, self._at = reader, wanted.answer
        finally:
            self._opening = False
            self._follower.wake()
        if again and self._closed_at is not None:
            waited = (time.monotonic() - self._closed_at) * 1000
            self._follower.counters.last_unavailable_ms = waited


def _without(partitions: list[TopicPartition], others: list[TopicPartition]) -> list[TopicPartition]:
    left_out = {(other.topic, other.partition) for other in others}
    return [one for one in partitions if (one.topic, one.partition) not in left_out]
