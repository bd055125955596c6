"""A log in memory that is scanned page by page as `read_messages` scans one, for tests of what a page keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Message

from backend.kafka.search.message_reading import EndedBy, Page, PageEnded, Passing, Select, Selected
from backend.kafka.search.record_search import LogRange

BATCH = 3


def message(
    partition: int, offset: int, value: bytes | None = b"{}", key: bytes | None = None, *headers: tuple[str, bytes]
) -> Message:
    """Return a consumed message; its timestamp is its offset."""
    return Message(
        topic="t",
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        headers=list(headers),
        timestamp=(1, offset),
    )


class ScannedLog:
    """Partitions with their messages, which begin at offset 0."""

    def __init__(self, *partitions: Sequence[Message]) -> None:
        self.partitions = dict(enumerate(partitions))
        self.ranges = {number: LogRange(0, len(log)) for number, log in self.partitions.items()}

    def first(self, *, backward: bool) -> Mapping[int, int]:
        """Return the positions of the first page."""
        return {number: each.high if backward else each.low for number, each in self.ranges.items()}

    def page(
        self,
        positions: Mapping[int, int],
        limit: int,
        select: Select,
        *,
        backward: bool,
        passing: Passing | None = None,
    ) -> Page:
        """Scan from these positions in order of timestamps, until the limit or the end."""
        moved, found, scanned = dict(positions), list[Selected](), 0
        waiting = self._in_order(positions, backward=backward)
        told: EndedBy | None = None
        while waiting and len(found) < limit and told is None:
            batch, waiting = waiting[:BATCH], waiting[BATCH:]
            scanned += len(batch)
            try:
                selected = select(list(batch if passing is None else passing(batch)))
            except PageEnded as ended:
                selected, told = ended.found, ended.ended_by
            room = limit - len(found)
            found += selected[:room]
            last = found[-1].message if len(selected) > room else None
            for each in batch:
                offset = each.offset()
                moved[each.partition()] = offset if backward else offset + 1
                if each is last:
                    waiting = batch
                    break
        ended_by = told or (EndedBy.LIMIT if waiting else EndedBy.END)
        after = None if ended_by is EndedBy.END else moved
        return Page(found, after, backward, scanned, 0, ended_by, self.ranges, positions)

    def _in_order(self, positions: Mapping[int, int], *, backward: bool) -> list[Message]:
        parts = (
            log[: positions[number]] if backward else log[positions[number] :]
            for number, log in self.partitions.items()
        )
        merged = sorted(
            (each for part in parts for each in part), key=lambda each: (each.offset(), each.partition())
        )
        return merged[::-1] if backward else merged
