"""What a consumer was given in its present generation: what may be committed, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Message, TopicPartition

from treeline_client.names import Topic

_Place = tuple[str, int]


class Progress:
    """Per partition, by logical name: the first offset given, the one after the last, and what is stored.

    One for each generation; a partition that is taken away is forgotten.
    """

    def __init__(self, auto_store: bool) -> None:
        self._auto_store = auto_store
        self._given: dict[_Place, tuple[int, int]] = {}
        self._stored: dict[_Place, int] = {}
        self._committed: dict[_Place, int] = {}

    def give(self, topic: str, partition: int, offset: int) -> None:
        """A message goes to the application."""
        place = (topic, partition)
        after = offset + 1
        known = self._given.get(place)
        if known is None:
            self._given[place] = (offset, after)
        else:
            first, last = known
            self._given[place] = (min(first, offset), max(last, after))
        if self._auto_store:
            self._stored[place] = after

    def covers(self, partition: TopicPartition) -> bool:
        """Whether an offset to commit lies in what was given: the first message's to the one after the last's."""
        first, after = self._given.get((partition.topic, partition.partition), (0, -1))
        return first <= partition.offset <= after

    def store(self, partitions: Iterable[TopicPartition]) -> None:
        """The application stores offsets, to be committed later."""
        for partition in partitions:
            self._stored[partition.topic, partition.partition] = partition.offset

    def to_commit(self) -> list[TopicPartition]:
        """What is stored and not yet committed."""
        return [
            TopicPartition(topic, partition, offset)
            for (topic, partition), offset in self._stored.items()
            if self._committed.get((topic, partition)) != offset
        ]

    def commit(self, partitions: Iterable[TopicPartition]) -> None:
        """These were handed to the cluster to be committed."""
        for partition in partitions:
            self._committed[partition.topic, partition.partition] = partition.offset

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are another consumer's now."""
        for partition in partitions:
            place = (partition.topic, partition.partition)
            self._given.pop(place, None)
            self._stored.pop(place, None)
            self._committed.pop(place, None)


def read_in(message: Message) -> tuple[int, str] | None:
    """The generation in which a message was read, and its cluster; None if no consumer of this package gave it."""
    topic = message.topic()
    return (topic.generation, topic.cluster) if isinstance(topic, Topic) else None
