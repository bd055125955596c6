"""A consumer that follows discovery from cluster to cluster, with the methods of confluent-kafka's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from treeline_client import configuration
from treeline_client.deadlines import Deadline
from treeline_client.follower import Follower
from treeline_client.groups import GroupMetadata
from treeline_client.metrics import Metrics
from treeline_client.place import Place
from treeline_client.progress import read_in
from treeline_client.reader import Listener, Subscription
from treeline_client.standing import CONSUMER
from treeline_client.topics import at_offset, logical_metadata

log = logging.getLogger("treeline_client")

_SLICE_SECONDS = 0.05
"""So long nobody looks whether the consumer is to be elsewhere; a switch waits for the slowest of all."""
_MOST_MESSAGES = 1_000_000


class SwitchingConsumer:
    """Consumes from the active cluster of an environment, under logical names of topics and group.

    As with confluent-kafka's, one thread at a time may use it. That thread closes it on the cluster to leave and
    opens it on the new one, from within `poll()` and `consume()`, so that rebalance listeners run where they
    always do. What is read carries its generation; offsets of an earlier one are refused (StaleGeneration).
    """

    def __init__(self, conf: Mapping[str, Any], /, **more: Any) -> None:
        """`conf` holds librdkafka's keys but `bootstrap.servers`, and those of Treeline (README).

        Raises ConfigurationRefused, DiscoveryRefused, DiscoveryUnavailable, and KafkaException for what librdkafka
        refuses.
        """
        read = configuration.read({**conf, **more})
        self._follower = Follower(read, CONSUMER)
        self._place = Place(read, self._follower, self)
        self._follower.start(self._place)

    def subscribe(
        self,
        topics: list[str],
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Join the group for these topics, here and on every further cluster. Listeners get logical partitions.

        Raises ValueError for a pattern (`^…`): formats can't translate one.
        """
        for topic in topics:
            if topic.startswith("^"):
                raise ValueError(f"{topic}: a pattern can't be translated for a cluster; subscribe by names")
        self._place.subscribe(Subscription(tuple(topics), on_assign, on_revoke, on_lost))

    def unsubscribe(self) -> None:
        """Leave the group."""
        self._place.subscribe(None)

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions; on a further cluster, the same from the group's progress there."""
        self._place.assign(list(partitions))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions too."""
        self._place.assign_more(list(partitions))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions no more."""
        self._place.assign_fewer(list(partitions))

    def unassign(self) -> None:
        """Read no partitions."""
        self._place.assign(None)

    def assignment(self) -> list[TopicPartition]:
        """What is read now; nothing while between clusters."""
        reader = self._place.reader
        return reader.logical(reader.consumer.assignment()) if reader else []

    def poll(self, timeout: float | None = -1) -> Message | None:
        """The next message, or None after `timeout` seconds (None or negative: never), also between clusters."""
        reader = self._place.settled()
        if reader is not None:  # the usual way, kept short
            message = reader.consumer.poll(0)
            if message is not None:
                reader.commit_in_time()
                return reader.give(message)
        deadline = Deadline(timeout)
        while True:
            reader = self._place.follow()
            if reader is None:
                self._place.wait(deadline.left(_SLICE_SECONDS))
            else:
                message = reader.consumer.poll(deadline.left(_SLICE_SECONDS))
                if message is not None:
                    return reader.give(message)
            if deadline.over():
                return None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Up to so many messages, waiting up to `timeout` seconds for them. All are of one generation."""
        if not 0 <= num_messages <= _MOST_MESSAGES:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        deadline = Deadline(timeout)
        found: list[Message] = []
        while len(found) < num_messages:
            if found and self._place.settled() is None:
                break  # given first; the next call moves
            reader = self._place.follow()
            if reader is None:
                self._place.wait(deadline.left(_SLICE_SECONDS))
            else:
                got = reader.consumer.consume(num_messages - len(found), deadline.left(_SLICE_SECONDS))
                found += [reader.give(message) for message in got]
            if deadline.over():
                break
        return found

    def follow(self) -> bool:
        """Carry out a move that waits for this thread, and read nothing.

        For an application that can't poll since it waits for a producer that is held, in `begin_transaction()` or
        `flush()`: the switch in turn waits for this consumer to close. Whether the consumer stayed open: if not,
        what it gave before will be given again, here or by the group elsewhere; drop it.
        """
        before = self._place.reader
        return self._place.follow() is before is not None

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
        generation: int | None = None,
    ) -> list[TopicPartition] | None:
        """Commit a message, offsets, or what is stored.

        `generation` says in which generation `offsets` were read; without it they must lie within what this
        consumer gave in its present one. Raises StaleGeneration, and nothing is committed.
        """
        if message is not None and offsets is not None:
            raise ValueError("message and offsets can't both be committed")
        reader = self._place.to_commit()
        if message is not None:
            wanted = [self._after(message)]
        elif offsets is not None:
            self._check_offsets(offsets, generation)
            wanted = offsets
        else:
            wanted = reader.progress.to_commit()
            if not wanted:
                raise KafkaException(KafkaError(KafkaError._NO_OFFSET))
        return reader.commit(wanted, asynchronous)

    def store_offsets(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        generation: int | None = None,
    ) -> None:
        """Store what a later commit takes; for `enable.auto.offset.store = false`. Refuses what `commit` does."""
        if (message is None) == (offsets is None):
            raise ValueError("either message or offsets must be stored")
        reader = self._place.to_commit()
        wanted = [self._after(message)] if message is not None else offsets or []
        if message is None:
            self._check_offsets(wanted, generation)
        reader.consumer.store_offsets(offsets=reader.technical(wanted))
        reader.progress.store(wanted)

    def committed(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """The group's commits on the active cluster."""
        deadline = Deadline(timeout)
        reader = self._place.wait_open(deadline)
        return reader.logical(reader.consumer.committed(reader.technical(partitions), deadline.left()))

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Where it reads next, of these partitions."""
        reader = self._place.opened()
        return reader.logical(reader.consumer.position(reader.technical(partitions)))

    def seek(self, partition: TopicPartition) -> None:
        """Read on at this offset, which is one of the present cluster's."""
        reader = self._place.opened()
        reader.consumer.seek(reader.technical([partition])[0])

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Read these no more until `resume()`; kept across a move for partitions taken by `assign()`."""
        reader = self._place.opened()
        reader.consumer.pause(reader.technical(partitions))
        self._place.paused(partitions, True)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Read these again."""
        reader = self._place.opened()
        reader.consumer.resume(reader.technical(partitions))
        self._place.paused(partitions, False)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """First offset and end of a partition on the active cluster."""
        deadline = Deadline(timeout)
        reader = self._place.wait_open(deadline)
        technical = reader.technical([partition])[0]
        return reader.consumer.get_watermark_offsets(technical, deadline.left(), cached)

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """Offsets by timestamps (the given partitions' offsets, in milliseconds) on the active cluster."""
        deadline = Deadline(timeout)
        reader = self._place.wait_open(deadline)
        return reader.logical(reader.consumer.offsets_for_times(reader.technical(partitions), deadline.left()))

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """The active cluster's metadata, with this environment's topics only, under their logical names."""
        deadline = Deadline(timeout)
        reader = self._place.wait_open(deadline)
        technical = reader.technical_name(topic) if topic else None
        return logical_metadata(reader.consumer.list_topics(technical, deadline.left()), reader.logical_name)

    def consumer_group_metadata(self) -> GroupMetadata:
        """For `SwitchingProducer.send_offsets_to_transaction()`. Raises StaleGeneration between clusters."""
        reader = self._place.to_commit()
        return GroupMetadata(reader.generation, reader.answer.cluster, reader.consumer.consumer_group_metadata())

    def memberid(self) -> str:
        """This member's id in the group; empty while it is in none."""
        reader = self._place.reader
        return (reader.consumer.memberid() or "") if reader else ""

    def generation(self) -> int:
        """The generation that this consumer reads in, or did last."""
        return self._place.generation

    def cluster(self) -> str:
        """Name of the cluster that this consumer reads from, or did last."""
        return self._place.cluster

    def metrics(self) -> Metrics:
        """This consumer's figures."""
        phase = self._follower.standing.phase.value
        figures = Metrics(generation=self.generation(), cluster=self.cluster(), phase=phase)
        return self._follower.counters.onto(figures)

    def close(self) -> None:
        """Leave the group with a last commit, and say goodbye."""
        self._place.close()
        self._follower.stop()

    def __enter__(self) -> SwitchingConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _after(self, message: Message) -> TopicPartition:
        """The offset after a message of the present generation. Raises StaleGeneration for any other."""
        read = read_in(message)
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            raise ValueError("the message has no place in a log")
        after = at_offset(topic, partition, offset + 1, None, message.leader_epoch())
        if read is None:
            self._check_offsets([after], None)
        elif not self._place.is_present(read[0]):
            raise self._place.stale(f"read on {read[1]} in generation {read[0]}")
        return after

    def _check_offsets(self, offsets: list[TopicPartition], generation: int | None) -> None:
        if generation is not None:
            if not self._place.is_present(generation):
                raise self._place.stale(f"read in generation {generation}")
            return
        reader = self._place.to_commit()
        for partition in offsets:
            if not reader.progress.covers(partition):
                raise self._place.stale(
                    f"offset {partition.offset} of {partition.topic} [{partition.partition}] is not of what was"
                    " read in this generation"
                )
