"""Metadata and partitions of topics, under logical and technical names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

Naming = Callable[[str], str | None]


class AnsweredPartition(TopicPartition):
    """A partition with a broker's error, which librdkafka's own class does not allow to be set."""

    error: KafkaError | None = None


def logical_metadata(found: Any, logical: Naming) -> Any:
    """Return a cluster's metadata for topics of this environment only, under their logical names."""
    kept = {}
    for technical, topic in found.topics.items():
        name = logical(technical)
        if name is not None:
            topic.topic = name
            kept[name] = topic
    found.topics = kept
    return found


def renamed(partitions: Iterable[TopicPartition], name: Naming) -> list[TopicPartition]:
    """Return partitions under other names, for librdkafka; a topic without another name keeps its own."""
    return [
        at_offset(name(one.topic) or one.topic, one.partition, one.offset, one.metadata, one.leader_epoch)
        for one in partitions
    ]


def answered(partitions: list[TopicPartition], name: Naming) -> list[TopicPartition]:
    """Return partitions under other names with their errors, for the application."""
    return [_with_error(*both) for both in zip(renamed(partitions, name), partitions, strict=True)]


def at_offset(
    topic: str, partition: int, offset: int, metadata: str | None = None, leader_epoch: int | None = None
) -> TopicPartition:
    """Return a partition for librdkafka, whose binding accepts neither None for omitted values nor subclasses."""
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
