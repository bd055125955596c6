"""What a consumer was given in its present generation: what may be committed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import Message, TopicPartition

from treeline_client.names import Topic
from treeline_client.topics import at_offset

_NONE = -1


class _Given:
    """One partition: what the application was given of it, and what is to be committed."""

    __slots__ = ("after", "committed", "first", "partition", "stored", "topic")

    def __init__(self, topic: Topic, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.first = self.after = self.stored = self.committed = _NONE


class Progress:
    """Per partition: the first offset given, the one after the last, and what is stored.

    One for each generation; a partition that is taken away is forgotten. What every message passes through is
    `give`: one look into a dictionary, since it is what a consumer's speed depends on.
    """

    def __init__(self, auto_store: bool, topic: Callable[[str], Topic]) -> None:
        """`topic` makes a technical name the application's, with its generation."""
        self._auto_store = auto_store
        self._topic = topic
        self._technical: dict[tuple[str | None, int | None], _Given] = {}
        self._logical: dict[tuple[str, int], _Given] = {}

    def give(self, message: Message) -> Message:
        """Make a message the application's: its topic is the logical one, and knows this generation."""
        place = (message.topic(), message.partition())
        given = self._technical.get(place) or self._new(*place)
        if given is None:
            return message
        message.set_topic(given.topic)  # type: ignore[attr-defined]
        if message.error() is None:
            offset = message.offset() or 0
            if given.first == _NONE or offset < given.first:
                given.first = offset
            if offset >= given.after:
                given.after = offset + 1
            if self._auto_store:
                given.stored = offset + 1
        return message

    def covers(self, partition: TopicPartition) -> bool:
        """Whether an offset to commit lies in what was given: the first message's to the one after the last's."""
        given = self._logical.get((partition.topic, partition.partition))
        return given is not None and given.first != _NONE and given.first <= partition.offset <= given.after

    def store(self, partitions: Iterable[TopicPartition]) -> None:
        """The application stores offsets, to be committed later."""
        for one in partitions:
            given = self._logical.get((one.topic, one.partition))
            if given is not None:
                given.stored = one.offset

    def to_commit(self) -> list[TopicPartition]:
        """What is stored and not yet committed."""
        return [
            at_offset(str(given.topic), given.partition, given.stored)
            for given in self._logical.values()
            if given.stored not in (_NONE, given.committed)
        ]

    def commit(self, partitions: Iterable[TopicPartition]) -> None:
        """These were handed to the cluster to be committed."""
        for one in partitions:
            given = self._logical.get((one.topic, one.partition))
            if given is not None:
                given.committed = one.offset

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are another consumer's now."""
        gone = {(one.topic, one.partition) for one in partitions}
        self._logical = {place: given for place, given in self._logical.items() if place not in gone}
        self._technical = {
            place: given for place, given in self._technical.items() if (given.topic, given.partition) not in gone
        }

    def _new(self, technical: str | None, partition: int | None) -> _Given | None:
        if technical is None:
            return None
        given = _Given(self._topic(technical), _NONE if partition is None else partition)
        self._technical[technical, partition] = self._logical[str(given.topic), given.partition] = given
        return given


def read_in(message: Message) -> tuple[int, str] | None:
    """The generation in which a message was read, and its cluster; None if no consumer of this package gave it."""
    topic = message.topic()
    return (topic.generation, topic.cluster) if isinstance(topic, Topic) else None
