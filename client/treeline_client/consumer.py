"""A consumer that follows discovery from cluster to cluster, with the methods of confluent-kafka's Consumer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from treeline_client import configuration
from treeline_client.client_state import CONSUMER
from treeline_client.deadlines import Deadline
from treeline_client.follower import Follower
from treeline_client.groups import GroupMetadata
from treeline_client.location import Location
from treeline_client.metrics import Metrics
from treeline_client.progress import read_in
from treeline_client.reader import Listener, Subscription
from treeline_client.topics import at_offset, logical_metadata

log = logging.getLogger("treeline_client")

_SLICE_SECONDS = 0.05
"""Interval at which a waiting call checks for a move; a switch waits for the slowest consumer."""
_MOST_MESSAGES = 1_000_000


class SwitchingConsumer:
    """Consumes from the active cluster of an environment, under logical names of topics and group.

    As with confluent-kafka's Consumer, one thread at a time may use it. That thread closes it on the old cluster
    and opens it on the new one, from within `poll()` and `consume()`, so that rebalance listeners run where they
    always do. Messages carry their generation; commits of an earlier generation are refused (StaleGeneration).
    """

    def __init__(self, conf: Mapping[str, Any], /, **more: Any) -> None:
        """`conf` holds librdkafka's keys except `bootstrap.servers`, and those of Treeline (README).

        Raises ConfigurationRefused, DiscoveryRefused, DiscoveryUnavailable, and KafkaException if librdkafka
        refuses the configuration.
        """
        read = configuration.read({**conf, **more})
        self._follower = Follower(read, CONSUMER)
        self._location = Location(read, self._follower, self)
        self._follower.start(self._location)

    def subscribe(
        self,
        topics: list[str],
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Join the group for these topics, on this and every later cluster; listeners get logical partitions.

        Raises ValueError for a pattern (`^…`), since formats cannot translate one.
        """
        for topic in topics:
            if topic.startswith("^"):
                raise ValueError(f"{topic}: patterns are not supported; subscribe to topics by name")
        self._location.subscribe(Subscription(tuple(topics), on_assign, on_revoke, on_lost))

    def unsubscribe(self) -> None:
        """Leave the group."""
        self._location.subscribe(None)

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions; on a later cluster, the same from the group's progress there."""
        self._location.assign(list(partitions))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions in addition."""
        self._location.assign_more(list(partitions))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stop reading these partitions."""
        self._location.assign_fewer(list(partitions))

    def unassign(self) -> None:
        """Stop reading all partitions."""
        self._location.assign(None)

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions; none while the consumer is between clusters."""
        reader = self._location.reader
        return reader.logical(reader.consumer.assignment()) if reader else []

    def poll(self, timeout: float | None = -1) -> Message | None:
        """Return the next message, or None after `timeout` seconds (None or negative: never)."""
        reader = self._location.settled()
        if reader is not None:  # the usual path, kept short
            message = reader.consumer.poll(0)
            if message is not None:
                reader.commit_in_time()
                return reader.give(message)
        deadline = Deadline(timeout)
        while True:
            reader = self._location.follow()
            if reader is None:
                self._location.wait(deadline.left(_SLICE_SECONDS))
            else:
                message = reader.consumer.poll(deadline.left(_SLICE_SECONDS))
                if message is not None:
                    return reader.give(message)
            if deadline.over():
                return None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return up to so many messages of one generation, waiting up to `timeout` seconds for them."""
        if not 0 <= num_messages <= _MOST_MESSAGES:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        deadline = Deadline(timeout)
        found: list[Message] = []
        while len(found) < num_messages:
            if found and self._location.settled() is None:
                break  # return these first; the next call moves
            reader = self._location.follow()
            if reader is None:
                self._location.wait(deadline.left(_SLICE_SECONDS))
            else:
                got = reader.consumer.consume(num_messages - len(found), deadline.left(_SLICE_SECONDS))
                found += [reader.give(message) for message in got]
            if deadline.over():
                break
        return found

    def follow(self) -> bool:
        """Carry out a pending move without reading; return whether the consumer stayed open.

        For an application that cannot poll because it waits for a held producer, in `begin_transaction()` or
        `flush()`, while the switch waits for this consumer to close. If the consumer did not stay open, drop the
        messages that it returned before: they are read again, here or by the group elsewhere.
        """
        before = self._location.reader
        return self._location.follow() is before is not None

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
        generation: int | None = None,
    ) -> list[TopicPartition] | None:
        """Commit a message, offsets, or the stored offsets.

        `generation` is the generation in which `offsets` were read; without it they must be offsets of messages
        that this consumer returned in its present one. Raises StaleGeneration; then nothing is committed.
        """
        if message is not None and offsets is not None:
            raise ValueError("commit either message or offsets, not both")
        reader = self._location.to_commit()
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
        """Store offsets for a later commit, for `enable.auto.offset.store = false`. Raises as `commit` does."""
        if (message is None) == (offsets is None):
            raise ValueError("store either message or offsets")
        reader = self._location.to_commit()
        wanted = [self._after(message)] if message is not None else offsets or []
        if message is None:
            self._check_offsets(wanted, generation)
        reader.consumer.store_offsets(offsets=reader.technical(wanted))
        reader.progress.store(wanted)

    def committed(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """Return the group's commits on the active cluster."""
        deadline = Deadline(timeout)
        reader = self._location.wait_open(deadline)
        return reader.logical(reader.consumer.committed(reader.technical(partitions), deadline.left()))

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the next offset to read, for these partitions."""
        reader = self._location.opened()
        return reader.logical(reader.consumer.position(reader.technical(partitions)))

    def seek(self, partition: TopicPartition) -> None:
        """Continue reading at this offset of the present cluster."""
        reader = self._location.opened()
        reader.consumer.seek(reader.technical([partition])[0])

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Pause these partitions until `resume()`; kept across a move for partitions taken by `assign()`."""
        reader = self._location.opened()
        reader.consumer.pause(reader.technical(partitions))
        self._location.paused(partitions, True)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Resume reading these partitions."""
        reader = self._location.opened()
        reader.consumer.resume(reader.technical(partitions))
        self._location.paused(partitions, False)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """Return the first offset and the end of a partition on the active cluster."""
        deadline = Deadline(timeout)
        reader = self._location.wait_open(deadline)
        technical = reader.technical([partition])[0]
        return reader.consumer.get_watermark_offsets(technical, deadline.left(), cached)

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """Return offsets by timestamps (in the partitions' offsets, milliseconds) on the active cluster."""
        deadline = Deadline(timeout)
        reader = self._location.wait_open(deadline)
        return reader.logical(reader.consumer.offsets_for_times(reader.technical(partitions), deadline.left()))

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Return the active cluster's metadata for topics of this environment, under their logical names."""
        deadline = Deadline(timeout)
        reader = self._location.wait_open(deadline)
        technical = reader.technical_name(topic) if topic else None
        return logical_metadata(reader.consumer.list_topics(technical, deadline.left()), reader.logical_name)

    def consumer_group_metadata(self) -> GroupMetadata:
        """Return the metadata for `SwitchingProducer.send_offsets_to_transaction()`.

        Raises StaleGeneration between clusters.
        """
        reader = self._location.to_commit()
        return GroupMetadata(reader.generation, reader.answer.cluster, reader.consumer.consumer_group_metadata())

    def memberid(self) -> str:
        """Return this member's id in the group; empty without a group."""
        reader = self._location.reader
        return (reader.consumer.memberid() or "") if reader else ""

    def generation(self) -> int:
        """Return the generation that this consumer reads in, or read in last."""
        return self._location.generation

    def cluster(self) -> str:
        """Return the name of the cluster that this consumer reads from, or read from last."""
        return self._location.cluster

    def metrics(self) -> Metrics:
        """Return the metrics of this consumer."""
        phase = self._follower.state.phase.value
        figures = Metrics(generation=self.generation(), cluster=self.cluster(), phase=phase)
        return self._follower.counters.onto(figures)

    def close(self) -> None:
        """Leave the group with a last commit, and unregister from discovery."""
        self._location.close()
        self._follower.stop()

    def __enter__(self) -> SwitchingConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _after(self, message: Message) -> TopicPartition:
        """Return the offset after a message of the present generation. Raises StaleGeneration for any other."""
        read = read_in(message)
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            raise ValueError("the message has no topic, partition or offset")
        after = at_offset(topic, partition, offset + 1, None, message.leader_epoch())
        if read is None:
            self._check_offsets([after], None)
        elif not self._location.is_present(read[0]):
            raise self._location.stale(f"read on {read[1]} in generation {read[0]}")
        return after

    def _check_offsets(self, offsets: list[TopicPartition], generation: int | None) -> None:
        if generation is not None:
            if not self._location.is_present(generation):
                raise self._location.stale(f"read in generation {generation}")
            return
        reader = self._location.to_commit()
        for partition in offsets:
            if not reader.progress.covers(partition):
                raise self._location.stale(
                    f"offset {partition.offset} of {partition.topic} [{partition.partition}] was not read in this"
                    " generation"
                )
