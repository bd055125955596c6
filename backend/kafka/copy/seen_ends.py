"""Ends of the source's logs that a task has seen beyond its positions.

Once a topic is deleted, the end of its log cannot be read. Ends noted here are reported as certain losses, so an
end counts only if the topic still has the planned id after the end was read: the name alone may be that of a
re-created topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from backend.domain.distribution.edges import EdgePlan, StreamOnEdge
from backend.domain.distribution.former_topic import SeenEnd
from backend.kafka.base.errors import CopyFailed
from backend.kafka.base.liveness import Alive
from backend.kafka.copy.clients import open_admin
from backend.kafka.copy.record_loop import Progress
from backend.kafka.copy.source import Place, Source
from backend.kafka.copy.topic_ids import TopicIds

_MOST_CHECKED_STREAMS = 250
_ASK_SECONDS = 5.0

End = tuple[StreamOnEdge, int, int, int]
"""(Stream, partition, position, end of the log)."""


class SeenEnds:
    """Seen ends of one task, across its sessions; used by its thread. Only partitions with records left to copy.

    A single offset beyond a position does not count: it may be a transaction's control record.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], SeenEnd] = {}

    def of(self, stream: str, partition: int) -> SeenEnd | None:
        """Return the last seen end, if the position has not reached it since."""
        return self._ends.get((stream, partition))

    def note(self, ends: Iterable[End]) -> None:
        """Note ends of topics that are known to have had the planned ids when the ends were read."""
        for row, partition, position, end in ends:
            if end > position + 1:
                self._ends[row.stream, partition] = (row.incarnations[partition][-1][1], end)
            else:
                self._ends.pop((row.stream, partition), None)

    def note_checked(self, plan: EdgePlan, topic_ids: TopicIds, ends: Iterable[End]) -> None:
        """Note ends after checking topic ids, for a limited number of streams, those without an end first."""
        news = [
            (row, partition, position, end)
            for row, partition, position, end in ends
            if end > position + 1 and self.of(row.stream, partition) != (row.incarnations[partition][-1][1], end)
        ]
        streams = {row.stream: row for row, *_ in news}
        noted = {stream for stream, _ in self._ends}
        checked = sorted(streams, key=lambda name: name in noted)[:_MOST_CHECKED_STREAMS]
        try:
            # The target is checked when records are copied to it.
            topic_ids.check(plan, [replace(streams[name], target_topic_id=None) for name in checked])
        except (KafkaException, CopyFailed):
            return  # nobody answers, or it is another topic: what was noted before stands
        self.note(each for each in news if each[0].stream in checked)

    def drop_reached(self, positions: Iterable[tuple[Place, Progress]]) -> None:
        """Forget ends that were reached without a record: only control records followed the last one."""
        for (_, partition), progress in positions if self._ends else ():
            key = (progress.stream, partition)
            if key in self._ends and (progress.source.position or 0) >= self._ends[key][1]:
                del self._ends[key]


class AskedEnds:
    """Reader of ends while a session reads nothing: what was fetched earlier has outdated ends."""

    def __init__(self, plan: EdgePlan, topic_ids: TopicIds, seen: SeenEnds) -> None:
        self._plan, self._topic_ids, self._seen = plan, topic_ids, seen
        self._admin: AdminClient | None = None
        self._asked_at = 0.0

    def ask_if_due(self, source: Source, ends: Callable[[], Iterable[End]], alive: Alive) -> None:
        """Read the ends every few seconds; `ends` returns them once `source` knows them."""
        if time.monotonic() - self._asked_at <= _ASK_SECONDS:
            return
        self._asked_at = time.monotonic()
        alive()
        if self._admin is None:
            self._admin = open_admin(self._plan.source)
        source.ask_ends(self._admin, _ASK_SECONDS)
        alive()
        self._seen.note_checked(self._plan, self._topic_ids, ends())
