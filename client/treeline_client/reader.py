"""A consumer of librdkafka on one cluster, in one generation, under logical names."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, TopicPartition

from treeline_client.answers import Answer
from treeline_client.configuration import Configuration
from treeline_client.names import Format, Topic
from treeline_client.progress import Progress
from treeline_client.start_offsets import StartOffsets
from treeline_client.topics import answered, at_offset, renamed

log = logging.getLogger("treeline_client")

Listener = Callable[[Any, list[TopicPartition]], None]


@dataclass(frozen=True)
class Subscription:
    """Arguments of `subscribe()`: logical topics and rebalance listeners."""

    topics: tuple[str, ...]
    on_assign: Listener | None = None
    on_revoke: Listener | None = None
    on_lost: Listener | None = None


class Reader:
    """Consumer on one cluster. Used by the application's thread only."""

    def __init__(self, configuration: Configuration, answer: Answer, owner: Any) -> None:
        """`owner`: the consumer that rebalance listeners receive. Raises KafkaException."""
        self.answer = answer
        self.generation = answer.generation
        self.generations = {answer.generation}
        """Generations since it was opened; messages of all of them may be committed."""
        kafka = dict(configuration.kafka)
        self._auto_commit = _true(kafka.get("enable.auto.commit", True))
        # librdkafka's own commits carry no metadata and overwrite those that do; so commits are made here.
        kafka["enable.auto.commit"] = False
        self._every_s = int(kafka.get("auto.commit.interval.ms", 5000)) / 1000
        self._commit_at = time.monotonic() + self._every_s
        self.progress = Progress(_true(kafka.get("enable.auto.offset.store", True)), self._topic)
        self.give = self.progress.give
        """Prepare a message for the application."""
        self._owner = owner
        self._silent = False  # once true, this reader's listeners are not called any more
        self._topics = Format(answer.destination.topic_format, "topic", configuration.names)
        groups = Format(answer.destination.group_format, "group", configuration.names)
        kafka["bootstrap.servers"] = answer.destination.bootstrap_servers
        if "group.id" in kafka:
            kafka["group.id"] = groups.technical(str(kafka["group.id"]))
        self._on_commit = kafka.get("on_commit")
        kafka["on_commit"] = self._answered
        self.consumer = Consumer(kafka)
        self._start_offsets = StartOffsets(self.consumer, kafka.get("auto.offset.reset"))

    def stay(self, answer: Answer) -> None:
        """Enter a later generation of the same cluster."""
        self.answer, self.generation = answer, answer.generation
        self.generations.add(answer.generation)
        self.progress.renew_topics()

    def technical_name(self, topic: str) -> str:
        """Return a topic's technical name on this cluster."""
        return self._topics.technical(topic)

    def logical_name(self, technical: str) -> str | None:
        """Return a topic's logical name; None if the topic is not of this environment."""
        return self._topics.logical(technical)

    def technical(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the application's partitions under technical names."""
        return renamed(partitions, self._topics.technical)

    def logical(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the cluster's partitions under logical names."""
        return answered(partitions, self._topics.logical)

    def subscribe(self, wanted: Subscription) -> None:
        """Join the group for these topics."""

        def assigned(_: Any, partitions: list[TopicPartition]) -> None:
            self.begin(partitions)
            if wanted.on_assign is not None and not self._silent:
                wanted.on_assign(self._owner, self.logical(partitions))

        def revoked(_: Any, partitions: list[TopicPartition]) -> None:
            self._taken_away(wanted.on_revoke, self.logical(partitions), commit=True)

        def lost(_: Any, partitions: list[TopicPartition]) -> None:
            self._taken_away(wanted.on_lost or wanted.on_revoke, self.logical(partitions))

        technical = [self._topics.technical(topic) for topic in wanted.topics]
        self.consumer.subscribe(technical, on_assign=assigned, on_revoke=revoked, on_lost=lost)

    def assign_again(self, partitions: Sequence[TopicPartition], paused: Sequence[TopicPartition]) -> None:
        """Assign the same partitions as on another cluster, from the group's committed offsets here."""
        again = [TopicPartition(p.topic, p.partition, OFFSET_STORED) for p in partitions]
        self.consumer.assign(self.technical(again))
        if paused:
            self.consumer.pause(self.technical(paused))
        self.begin(self.technical(again))

    def begin(self, technical: Sequence[TopicPartition]) -> None:
        """Record, with `enable.auto.commit`, where this consumer starts to read newly assigned partitions."""
        if self._auto_commit and not self._silent:
            self._start_offsets.assigned(technical)

    def commit(self, offsets: Sequence[TopicPartition], asynchronous: bool) -> list[TopicPartition] | None:
        """Commit offsets, with the generation as metadata where the application gives none."""
        name = self._topics.technical
        mark = f"treeline-client:1;gen={self.generation}"
        technical = [
            at_offset(name(o.topic), o.partition, o.offset, o.metadata or mark, o.leader_epoch) for o in offsets
        ]
        if asynchronous:
            self.consumer.commit(offsets=technical, asynchronous=True)
            self.progress.ask(offsets)
            return None
        committed = self.logical(self.consumer.commit(offsets=technical, asynchronous=False))
        self.progress.ask([one for one in committed if one.error is None])
        self.progress.answer(committed)
        return committed

    def commit_in_time(self) -> None:
        """Commit stored offsets every `auto.commit.interval.ms`; called with every poll."""
        now = time.monotonic()
        if now >= self._commit_at:
            self._commit_at = now + self._every_s
            self._commit(self.progress.to_send() if self._auto_commit else [], asynchronous=True)

    def commit_stored(self) -> bool:
        """Commit stored offsets before partitions are given back; return whether all commits are acknowledged.

        With `enable.auto.commit`, stored offsets are committed. Offsets sent earlier without a known answer are
        committed again, the application's own commits included: their answer may never have arrived.
        """
        stored = self._commit(self.progress.to_commit() if self._auto_commit else [], asynchronous=False)
        return self._commit(self.progress.to_repeat(), asynchronous=False) and stored

    def close(self, moving: bool = False) -> bool:
        """Close with a last commit. The revocation listener may still commit by hand.

        A consumer that closes to be moved (`moving`) also commits its start offsets of partitions without a
        commit. It stays open (False) until the cluster acknowledges them; otherwise records would be re-read
        elsewhere.
        """
        acknowledged = self.commit_stored()
        if moving and self._auto_commit:
            acknowledged = self._commit_start_offsets() and acknowledged
        if moving and not acknowledged:
            return False
        self.consumer.close()
        return True

    def abandon(self, subscription: Subscription | None) -> None:
        """Close without waiting for the cluster, which may be down; partitions count as lost."""
        if subscription is not None:
            try:
                lost = self.logical(self.consumer.assignment())
            except (KafkaException, RuntimeError):
                lost = []
            if lost:
                self._taken_away(subscription.on_lost or subscription.on_revoke, lost)
        self._silent = True
        threading.Thread(target=_close, args=(self.consumer,), name="treeline close", daemon=True).start()

    def _topic(self, technical: str) -> Topic:
        return Topic(self._topics.logical(technical) or technical, self.generation, self.answer.cluster)

    def _taken_away(
        self, listener: Listener | None, partitions: list[TopicPartition], commit: bool = False
    ) -> None:
        if listener is not None and not self._silent:
            listener(self._owner, partitions)
        if commit and not self._silent:
            self.commit_stored()
        self.progress.forget(partitions)

    def _commit(self, offsets: Sequence[TopicPartition], asynchronous: bool) -> bool:
        """Commit; return whether the cluster has acknowledged all, or the callback will report it."""
        if not offsets:
            return True
        try:
            answered = self.commit(offsets, asynchronous)
        except KafkaException as error:
            self._not_committed(error)
            return False
        return all(one.error is None for one in answered or ())

    def _commit_start_offsets(self) -> bool:
        try:
            technical = self._start_offsets.to_commit(lambda one: self.progress.first(self.logical([one])[0]))
        except KafkaException as error:
            self._not_committed(error)
            return False
        return self._commit(self.logical(technical), asynchronous=False)

    def _answered(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Handle the answer, or the timeout, of an asynchronous commit."""
        answer = self.logical(partitions)
        self.progress.answer(answer, failed=error is not None)
        if self._on_commit is not None:
            self._on_commit(error, answer)
        elif error is not None:
            self._not_committed(error)

    def _not_committed(self, error: KafkaError | KafkaException) -> None:
        log.warning("commit on %s failed: %s", self.answer.cluster, error)


def _close(consumer: Consumer) -> None:
    try:
        consumer.close()
    except (KafkaException, RuntimeError) as error:
        log.debug("closing an abandoned consumer: %s", error)


def _true(value: Any) -> bool:
    return value is True or str(value).lower() in ("true", "t", "1")
