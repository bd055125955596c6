"""Where a consumer is, and where discovery wants it: the application's thread brings the one to the other.

The follower's thread only says what is wanted. Closing and opening are the application's thread's, from `poll()`
and `consume()`, since rebalance listeners run there and librdkafka's consumer belongs to one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Condition
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from treeline_client.answers import Answer
from treeline_client.configuration import Configuration
from treeline_client.deadlines import Deadline
from treeline_client.errors import ClientClosed, StaleGeneration
from treeline_client.follower import Follower
from treeline_client.reader import Reader, Subscription
from treeline_client.standing import Leave, Move, Order, Phase, Resume, Settle, Stay, Way

_SLICE_SECONDS = 0.1


@dataclass(frozen=True)
class Wanted:
    """Where the consumer is to be."""

    answer: Answer
    open: bool
    gently: bool
    """Whether to close with a last commit first; else the cluster to leave may be gone."""
    since: float
    """Wall clock, for messages to people only."""
    stays: frozenset[int] = frozenset()
    """A reader that is open in one of these generations stays, and is in the new one."""


class Place:
    """One consumer's place. `carry_out`, `work` and `is_settled` are called by the follower's thread."""

    def __init__(self, configuration: Configuration, follower: Follower, owner: Any) -> None:
        self.reader: Reader | None = None
        """The open consumer; None between clusters."""
        self._configuration = configuration
        self._follower = follower
        self._owner = owner
        self._changed = Condition()
        standing = follower.standing
        self._wanted = Wanted(standing.answer, standing.phase is Phase.ACTIVE, True, time.time())
        self._here: Wanted | None = None  # the wish that the open reader fulfils
        self._at = standing.answer
        self._subscription: Subscription | None = None
        self._assigned: list[TopicPartition] | None = None
        self._paused: set[tuple[str, int]] = set()
        self._closed = False
        self._moving = False  # a rebalance listener that calls back must not move again
        self._closed_at: float | None = None
        self._opening = False
        if self._wanted.open:
            self._open(self._wanted, again=False)

    @property
    def generation(self) -> int:
        """Of the cluster where it is, or was last."""
        return self._at.generation

    @property
    def cluster(self) -> str:
        """Where it is, or was last."""
        return self._at.cluster

    def carry_out(self, order: Order) -> None:
        """Say what is wanted from now on."""
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
        """Nothing is done in the follower's thread."""
        return False

    def is_settled(self) -> bool:
        """Whether the consumer is closed, as wanted."""
        with self._changed:
            return not self._wanted.open and self.reader is None and not self._opening

    def still_in(self) -> int | None:
        """The generation of the open reader, if its clients have moved on."""
        reader, wanted = self.reader, self._wanted
        if reader is None or reader.generation in (wanted.answer.generation, *wanted.stays):
            return None
        return reader.generation

    def settled(self) -> Reader | None:
        """The reader, if the consumer is open where it is wanted."""
        return self.reader if self._here is self._wanted else None

    def follow(self) -> Reader | None:
        """Go where discovery wants the consumer; its reader there, or None between clusters."""
        if self._closed:
            raise ClientClosed("the consumer is closed")
        wanted = self._wanted
        if self._moving:
            return self.reader
        self._stay(wanted)
        if self.reader is not None and (not wanted.open or self._at.generation != wanted.answer.generation):
            # Whose clients have moved on has nothing to commit here any more.
            still = self._at.generation in (wanted.answer.generation, *wanted.stays)
            self._leave(wanted.gently and still, moving=True)
        if self.reader is None and wanted.open:
            self._open(wanted, again=True)
        if self._wanted is not wanted:
            return None  # something else is wanted by now: nothing is read before that is seen to
        if self.reader is not None:
            if wanted.open:
                self._here = wanted
            self.reader.commit_in_time()
        return self.reader

    def _stay(self, wanted: Wanted) -> None:
        """What was read before a switch was taken back may still be committed: the group was nowhere else."""
        if self.reader is not None and self.reader.generation in wanted.stays:
            self.reader.stay(wanted.answer)
            self._at = wanted.answer

    def is_present(self, generation: int) -> bool:
        """Whether what was read in a generation may be committed now."""
        present = self._wanted.answer.generation
        reader = self.reader
        if reader is not None and reader.generation == present:
            return generation in reader.generations
        return generation == present

    def wait(self, seconds: float) -> None:
        """Wait, between clusters, until something else is wanted."""
        with self._changed:
            if not self._wanted.open and seconds > 0:
                self._changed.wait(seconds)

    def opened(self) -> Reader:
        """The open reader, on whatever cluster. Raises StaleGeneration between clusters."""
        if self.reader is None:
            self.follow()
        if self.reader is None:
            raise self._stale("the consumer is between clusters")
        return self.reader

    def wait_open(self, deadline: Deadline) -> Reader:
        """The open reader, once there is one. Raises KafkaException with _TIMED_OUT."""
        while self.reader is None:
            if self.follow() is None:
                if deadline.over():
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "clients are being moved", False, True))
                self.wait(deadline.left(_SLICE_SECONDS))
        return self.reader

    def to_commit(self) -> Reader:
        """The reader, for a commit. Raises StaleGeneration between clusters, and where a move was heard of."""
        if self._closed:
            raise ClientClosed("the consumer is closed")
        self._stay(self._wanted)
        reader = self.reader
        if reader is None or reader.generation != self._wanted.answer.generation:
            raise self.stale(f"of {self._at.cluster} in generation {self._at.generation}")
        return reader

    def stale(self, what: str) -> StaleGeneration:
        """The error that refuses a commit, counted."""
        self._follower.counters.stale_commits_refused += 1
        return self._stale(what)

    def _stale(self, what: str) -> StaleGeneration:
        wanted = self._wanted
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wanted.since))
        state = "are on" if wanted.open else "are kept still on"
        return StaleGeneration(
            f"{what}; clients {state} {wanted.answer.cluster} in generation {wanted.answer.generation} since"
            f" {since}: not committed, the group goes on there by itself"
        )

    def subscribe(self, subscription: Subscription | None) -> None:
        """Subscribe, here and wherever the consumer goes; None ends it."""
        self._subscription, self._assigned = subscription, None
        self._paused.clear()
        if self.reader is not None:
            self.reader.commit_stored()
            if subscription is None:
                self.reader.consumer.unsubscribe()
            else:
                self.reader.subscribe(subscription)

    def assign(self, partitions: list[TopicPartition] | None) -> None:
        """Take partitions, here and wherever the consumer goes; None gives all back."""
        if self._subscription is None:  # else it is a listener's, of the present rebalance only
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
        """Take further partitions."""
        if self._subscription is None:
            self._assigned = [*_without(self._assigned or [], partitions), *partitions]
        if self.reader is not None:
            technical = self.reader.technical(partitions)
            self.reader.consumer.incremental_assign(technical)
            self.reader.begin(technical)

    def assign_fewer(self, partitions: list[TopicPartition]) -> None:
        """Give partitions back."""
        if self._subscription is None:
            self._assigned = _without(self._assigned or [], partitions)
        if self.reader is not None:
            self.reader.commit_stored()
            self.reader.consumer.incremental_unassign(self.reader.technical(partitions))
            self.reader.progress.forget(partitions)

    def paused(self, partitions: Sequence[TopicPartition], now: bool) -> None:
        """Remember what is paused."""
        places = {(partition.topic, partition.partition) for partition in partitions}
        self._paused = self._paused | places if now else self._paused - places

    def close(self) -> None:
        """Close for good."""
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
                return  # tried again with the next poll; until then discovery is not told that it has closed
        finally:
            self._moving = False
        self.reader = self._here = None
        self._closed_at = time.monotonic()
        self._follower.wake()

    def _open(self, wanted: Wanted, again: bool) -> None:
        with self._changed:
            if self._wanted is not wanted:
                return
            # Nobody is told that the consumer is closed while it is being opened.
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
