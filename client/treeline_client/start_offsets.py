"""Start offsets of partitions without a commit, so that a group starts there on the next cluster, too.

With `auto.offset.reset = latest` such a partition is read from its end at the time of the assignment. On the next
cluster that would be the end there, behind records that were produced before the group joined.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, TopicPartition

log = logging.getLogger("treeline_client")

_SECONDS = 2.0
"""Time limit of a request for offsets; rebalances and closing wait for it."""
_LATEST = ("latest", "largest", "end")  # librdkafka has three names for it, and no other default


class StartOffsets:
    """Start offsets of one consumer on one cluster, under technical names."""

    def __init__(self, consumer: Consumer, reset: Any) -> None:
        """`reset`: the application's `auto.offset.reset`; None: librdkafka's default."""
        self._consumer = consumer
        self._latest = reset is None or str(reset).lower() in _LATEST
        self._begins: dict[tuple[str, int], int] = {}

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Record the ends of partitions as they are assigned: later records are the consumer's to read.

        For partitions assigned with OFFSET_BEGINNING, record their beginnings.
        """
        asked = [
            TopicPartition(p.topic, p.partition, p.offset if p.offset == OFFSET_BEGINNING else OFFSET_END)
            for p in partitions
        ]
        if not asked or not self._latest:
            return
        try:
            found = self._consumer.offsets_for_times(asked, _SECONDS)
        except KafkaException as error:
            log.debug("the start offsets of a group are unknown: %s", error)
            return
        self._begins.update({(p.topic, p.partition): p.offset for p in found if p.error is None and p.offset >= 0})

    def to_commit(self, first: Callable[[TopicPartition], int | None]) -> list[TopicPartition]:
        """Return the assigned partitions without a commit, at the offset where the consumer starts there.

        Partitions that the group would read from the beginning anyway are left out. `first` returns the first
        offset given to the application, -1 if none was; None leaves the partition out. Raises KafkaException if
        the cluster does not return the committed offsets, since no commit may be overwritten.
        """
        given = {(one.topic, one.partition): (one, first(one)) for one in self._consumer.assignment()}
        unread = [one for one, begun in given.values() if begun is not None]
        if not unread:
            return []
        committed = self._consumer.committed(_bare(unread), _SECONDS)
        without = [one for one in committed if one.error is None and one.offset < 0]
        if not without:
            return []
        positions = {(p.topic, p.partition): p.offset for p in self._consumer.position(_bare(without))}
        places = [(one.topic, one.partition) for one in without]
        self.assigned(given[place][0] for place in places if place not in self._begins)
        found = []
        for place in places:
            assigned, begun = given[place]
            known = (begun, positions.get(place), assigned.offset, self._begins.get(place))
            offset = next((offset for offset in known if offset is not None and offset >= 0), None)
            if offset is not None:
                found.append(TopicPartition(*place, offset))
        return found


def _bare(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(one.topic, one.partition) for one in partitions]
