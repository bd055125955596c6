"""Where a page ends early: before messages that were read, but could not be decided or decoded in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backend.kafka.base.message_headers import Message
from backend.kafka.search.message_reading import Page, Selected


class PageCut:
    """The nearest message of each partition that is left to the next page, with all that follow it."""

    def __init__(self, *, backward: bool) -> None:
        self._backward = backward
        self._left: dict[int, int] = {}
        """Partition -> offset: the lowest that is left, or the highest if pages go backward."""

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is left."""
        return not self._left

    def leave(self, messages: Iterable[Message]) -> None:
        """Leave these messages to the next page."""
        nearest = max if self._backward else min
        for message in messages:
            partition, offset = place_of(message)
            self._left[partition] = nearest(offset, self._left.get(partition, offset))

    def kept(self, found: Iterable[Selected]) -> list[Selected]:
        """Return the messages that stay on this page."""
        return [each for each in found if self._is_kept(*place_of(each.message))]

    def _is_kept(self, partition: int, offset: int) -> bool:
        left = self._left.get(partition)
        return left is None or (offset > left if self._backward else offset < left)

    def positions(self, page: Page) -> Mapping[int, int] | None:
        """Return where the next page begins in each partition; None if there is none."""
        if self.is_empty:
            return page.after
        ends = {partition: there.low if self._backward else there.high for partition, there in page.ranges.items()}
        found = dict(ends if page.after is None else page.after)
        for partition, left in self._left.items():
            # A backward page goes on below its position, so this one includes what is left.
            found[partition] = max(found[partition], left + 1) if self._backward else min(found[partition], left)
        return found


def place_of(message: Message) -> tuple[int, int]:
    """Return partition and offset of a consumed message."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    return partition, offset
