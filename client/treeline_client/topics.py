"""Topics' metadata and partitions under their logical and technical names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

Naming = Callable[[str], str | None]


class AnsweredPartition(TopicPartition):
    """A partition with what a broker said of it; librdkafka's own lets nobody write that."""

    error: KafkaError | None = None


def logical_metadata(found: Any, logical: Naming) -> Any:
    """A cluster's metadata, of this environment's topics only and with their logical names."""
    kept = {}
    for technical, topic in found.topics.items():
        name = logical(technical)
        if name is not None:
            topic.topic = name
            kept[name] = topic
    found.topics = kept
    return found


def renamed(partitions: Iterable[TopicPartition], name: Naming) -> list[TopicPartition]:
    """Partitions under other names, for librdkafka; a topic without one keeps its own."""
    return [
        at_offset(name(one.topic) or one.topic, one.partition, one.offset, one.metadata, one.leader_epoch)
        for one in partitions
    ]


def answered(partitions: list[TopicPartition], name: Naming) -> list[TopicPartition]:
    """Partitions under other names, as an application gets them: with their errors."""
    return [_with_error(*both) for both in zip(renamed(partitions, name), partitions, strict=True)]


def at_offset(
    topic: str, partition: int, offset: int, metadata: str | None = None, leader_epoch: int | None = None
) -> TopicPartition:
    """A partition for librdkafka, whose binding takes no None for what is left out, and no class but its own."""
    return TopicPartition(topic, partition, offset, **_given(metadata, leader_epoch))


def _with_error(partition: TopicPartition, before: TopicPartition) -> TopicPartition:
    if before.error is None:
        return partition
    more = _given(partition.metadata, partition.leader_epoch)
    made = AnsweredPartition(partition.topic, partition.partition, partition.offset, **more)
    made.error = before.error
    return made


def _given(metadata: str | None, leader_epoch: int | None) -> dict[str, Any]:
    more: dict[str, Any] = {} if metadata is None else {"metadata": metadata}
    if leader_epoch is not None and leader_epoch >= 0:
        more["leader_epoch"] = leader_epoch
    return more
