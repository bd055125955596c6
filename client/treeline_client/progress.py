"""Progress of a consumer in its present generation: the offsets that it may commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import Message, TopicPartition

from treeline_client.names import Topic
from treeline_client.topics import at_offset

_NONE = -1


class _Given:
    """State of one partition: messages returned to the application, and offsets to commit or committed.

    `asked` is the last offset sent to the cluster; while `on_its_way`, no answer has arrived.
    """

    __slots__ = ("after", "asked", "committed", "first", "on_its_way", "partition", "stored", "topic")

    def __init__(self, topic: Topic, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.first = self.after = self.stored = self.committed = _NONE
        self.asked: TopicPartition | None = None
        self.on_its_way = False


class Progress:
    """Offsets by partition: the first one returned, the one after the last, and the stored one.

    There is one object per generation; a revoked partition is forgotten. Every message passes through `give`,
    which needs a single dictionary lookup, since a consumer's throughput depends on it.
    """

    def __init__(self, auto_store: bool, topic: Callable[[str], Topic]) -> None:
        """`topic` makes the application's topic, with its generation, from a technical name."""
        self._auto_store = auto_store
        self._topic = topic
        self._technical: dict[tuple[str | None, int | None], _Given] = {}
        self._logical: dict[tuple[str, int], _Given] = {}

    def renew_topics(self) -> None:
        """Give all topics the present generation."""
        for (technical, _), given in self._technical.items():
            if technical is not None:
                given.topic = self._topic(technical)

    def give(self, message: Message) -> Message:
        """Prepare a message for the application: give it the logical topic, with this generation."""
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
        """Return whether an offset to commit is between the first message returned and the one after the last."""
        given = self._logical.get((partition.topic, partition.partition))
        return given is not None and given.first != _NONE and given.first <= partition.offset <= given.after

    def store(self, partitions: Iterable[TopicPartition]) -> None:
        """Store offsets for a later commit."""
        for one in partitions:
            given = self._logical.get((one.topic, one.partition))
            if given is not None:
                given.stored = one.offset

    def first(self, partition: TopicPartition) -> int | None:
        """Return the first offset returned, -1 if none was; None if an offset is committed or to be committed."""
        given = self._logical.get((partition.topic, partition.partition))
        if given is None:
            return _NONE
        untouched = given.stored == given.committed == _NONE and given.asked is None
        return given.first if untouched else None

    def to_commit(self) -> list[TopicPartition]:
        """Return the stored offsets that are not known to be committed."""
        return [_stored(given) for given in self._logical.values() if given.stored not in (_NONE, given.committed)]

    def to_send(self) -> list[TopicPartition]:
        """Return the stored offsets that are neither committed nor on their way."""
        return [
            _stored(given)
            for given in self._logical.values()
            if given.stored not in (_NONE, given.committed)
            and not (given.on_its_way and given.asked is not None and given.asked.offset == given.stored)
        ]

    def to_repeat(self) -> list[TopicPartition]:
        """Return the offsets that were sent to the cluster and are not known to be committed."""
        return [
            given.asked
            for given in self._logical.values()
            if given.asked is not None and given.asked.offset != given.committed
        ]

    def ask(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that these offsets were sent to the cluster; its answer is still to come."""
        for one in partitions:
            given = self._logical.get((one.topic, one.partition))
            if given is not None:
                given.asked = at_offset(one.topic, one.partition, one.offset, one.metadata, one.leader_epoch)
                given.on_its_way = True

    def answer(self, partitions: Iterable[TopicPartition], failed: bool = False) -> None:
        """Record the cluster's answer: committed, except those with an error, or none if the commit `failed`."""
        for one in partitions:
            given = self._logical.get((one.topic, one.partition))
            if given is None:
                continue
            if given.asked is not None and given.asked.offset == one.offset:
                given.on_its_way = False
            if not failed and one.error is None:
                given.committed = one.offset

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these partitions, since they belong to another consumer now."""
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


def _stored(given: _Given) -> TopicPartition:
    return at_offset(str(given.topic), given.partition, given.stored)


def read_in(message: Message) -> tuple[int, str] | None:
    """Return a message's generation and cluster; None if no consumer of this package returned it."""
    topic = message.topic()
    return (topic.generation, topic.cluster) if isinstance(topic, Topic) else None
