"""Where a group begins on partitions that it has no commit for, so that it begins there on the next cluster too.

With `auto.offset.reset = latest` such a partition is read from its end at the time of the assignment. On the next
cluster that would be its end there, behind what producers have written before the group has joined.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, TopicPartition

log = logging.getLogger("treeline_client")

_SECONDS = 2.0
"""How long the cluster may take for an answer: rebalances and closing wait for it."""
_LATEST = ("latest", "largest", "end")  # librdkafka has three names for it, and no other default


class Beginnings:
    """Of one consumer on one cluster, under the cluster's own names."""

    def __init__(self, consumer: Consumer, reset: Any) -> None:
        """`reset` is what the application gave as `auto.offset.reset`; None: librdkafka's default."""
        self._consumer = consumer
        self._latest = reset is None or str(reset).lower() in _LATEST
        self._begins: dict[tuple[str, int], int] = {}

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Remember where partitions end as they are assigned: what is written from now on is the consumer's.

        Of those assigned with OFFSET_BEGINNING it is where they begin.
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
            log.debug("where a group begins is not known: %s", error)
            return
        self._begins.update({(p.topic, p.partition): p.offset for p in found if p.error is None and p.offset >= 0})

    def to_commit(self, first: Callable[[TopicPartition], int | None]) -> list[TopicPartition]:
        """Assigned partitions without a commit, and where the consumer begins there; none that the group would
        read from the start anyway.

        `first` says which offset the application was given first, -1 if none; None leaves the partition out.
        Raises KafkaException if the cluster doesn't say what is committed: nothing must take its place.
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
