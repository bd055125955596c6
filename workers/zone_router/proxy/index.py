"""Where the batches of a partition are, as a proxy knows it from a main's WAL and blocks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from workers.zone_router.formats.block import Followed
from workers.zone_router.formats.wal import UNKNOWN_BEGINNING, Aborted, Begins, Begun

_MOST_PLACES = 50_000
"""Of one partition; the oldest are forgotten, and read from the leader."""


class Stretch(NamedTuple):
    """Batches that stand together in an object: one as its producer sent it, or some as they are in the log."""

    base_offset: int
    """From here on it is all that the log has, up to `next_offset`."""
    next_offset: int
    name: str
    start: int
    size: int
    leader_epoch: int
    """To be put into a batch that is as its producer sent it; -1 for those that are as in the log."""
    placed_at: int
    """The offset that such a batch has."""
    is_of_block: bool


class _Cut(NamedTuple):
    """Where following began anew, and the object of the WAL that tells of it."""

    sequence: int
    offset: int


@dataclass
class Index:
    """Of one partition, by one main: a piece of what its broker's log had when it was the leader last."""

    stretches: list[Stretch] = field(default_factory=list)
    """In the order of offsets, without overlaps; there may be gaps."""
    _nexts: list[int] = field(default_factory=list)
    _aborted: dict[tuple[int, int], Aborted] = field(default_factory=dict)
    """By producer and first offset; in the order in which they ended."""
    _cuts: list[_Cut] = field(default_factory=list)
    """Those that blocks do not tell of yet; farther in the WAL is farther in the log."""
    last_epoch: int = -1
    """Of the last batch that is known; -1 if that is not."""
    begins: Begins = UNKNOWN_BEGINNING
    decided: int = 0
    """Before this offset it is known of all transactions how they ended."""
    wanted_at: float = float("-inf")
    """When a client asked for it last."""

    @classmethod
    def anew(cls, sequence: int) -> Index:
        """Of a partition of which nothing that was known before is of use, as this object of the WAL has told; nor
        what blocks have of it that were written before.
        """
        return cls(_cuts=[_Cut(sequence, 0)])

    @property
    def end(self) -> int:
        """Of what is known."""
        return self.stretches[-1].next_offset if self.stretches else 0

    @property
    def is_needed(self) -> bool:
        """Whether there is anything that is known."""
        return bool(self.stretches or self._cuts)

    def append(self, stretch: Stretch, epoch: int) -> None:
        """What comes behind all that is known; if something was known there, that is not in the log any more."""
        self.cut(stretch.base_offset)
        self.stretches.append(stretch)
        self._nexts.append(stretch.next_offset)
        self.last_epoch = epoch
        if len(self.stretches) > _MOST_PLACES:
            del self.stretches[: _MOST_PLACES // 10], self._nexts[: _MOST_PLACES // 10]

    def committed(
        self, stretches: Sequence[Stretch], aborted: Sequence[Aborted], followed: Followed | None, wal_end: int
    ) -> None:
        """A block has these batches, which the WAL had before `wal_end`; some of them may have been cut off since,
        as those objects of the WAL tell that were read already.
        """
        self.passed(wal_end)
        end = min((each.offset for each in self._cuts), default=None)
        if there := _before(stretches, end):
            self.replace(there)
        for each in aborted:
            if end is None or each.last_offset < end:
                self.note(each)
        if followed and end is None:
            self.begins = followed.begins
            self.decided = max(self.decided, followed.decided)
            if self.end <= followed.position:
                self.last_epoch = followed.last_epoch

    def passed(self, wal_end: int) -> None:
        """Blocks have all of the WAL before `wal_end`."""
        self._cuts = [each for each in self._cuts if each.sequence >= wal_end]

    def replace(self, those: Sequence[Stretch]) -> None:
        """The same batches stand somewhere else now: in a block."""
        first, end = those[0].base_offset, those[-1].next_offset
        behind = [each for each in self.stretches if each.next_offset > end]
        self.cut(first)
        if behind and behind[0].base_offset < end:
            behind[0] = behind[0]._replace(base_offset=end)
        for each in (*those, *behind):
            self.stretches.append(each)
            self._nexts.append(each.next_offset)

    def forget(self, name: str) -> None:
        """An object that is there no more, with all that is older."""
        last = max((at for at, each in enumerate(self.stretches) if each.name == name), default=-1)
        del self.stretches[: last + 1], self._nexts[: last + 1]
        first = self.stretches[0].base_offset if self.stretches else float("inf")
        self._aborted = {key: each for key, each in self._aborted.items() if each.last_offset >= first}

    def begin(self, begun: Begun, sequence: int) -> None:
        """What was known from here on is not in the log any more, nor how transactions have ended there.
        `sequence`: of the WAL's object that tells of it.
        """
        offset = begun.offset
        self.was_cut(offset)
        self._cuts = [each for each in self._cuts if each.offset < offset] + [_Cut(sequence, offset)]
        self.begins = begun.begins

    def was_cut(self, offset: int) -> None:
        """As `begin`, where nobody tells more."""
        if self.stretches and self.stretches[-1].next_offset > offset:
            self.decided = 0  # transactions whose markers are gone may have begun anywhere
            self.last_epoch = -1
        self.cut(offset)
        self._aborted = {key: each for key, each in self._aborted.items() if each.last_offset < offset}
        self.decided = min(self.decided, offset)

    def note(self, aborted: Aborted) -> None:
        """Told twice, perhaps: by the WAL, and by a block."""
        self._aborted.setdefault((aborted.producer_id, aborted.first_offset), aborted)

    def at(self, offset: int) -> int:
        """Which of the stretches has an offset, or is the first behind it; their number if there is none."""
        return bisect_right(self._nexts, offset)

    def has(self, offset: int) -> bool:
        """Whether what stands at an offset, or that nothing does, is known."""
        at = self.at(offset)
        return at < len(self.stretches) and self.stretches[at].base_offset <= offset

    def ended(self, offset: int, upper: int) -> list[tuple[int, int]]:
        """Aborted transactions with records from `offset` to before `upper`: producers and first offsets."""
        return [
            (each.producer_id, each.first_offset)
            for each in self._aborted.values()
            if each.last_offset >= offset and each.first_offset < upper
        ]

    def cut(self, offset: int) -> None:
        """Nothing from this offset on."""
        while self.stretches and self.stretches[-1].next_offset > offset:
            last = self.stretches.pop()
            self._nexts.pop()
            # One batch alone begins behind it, or is cut off: what is before is a gap.
            if last.base_offset < offset and last.is_of_block:
                self.stretches.append(last._replace(next_offset=offset))
                self._nexts.append(offset)
                break


def _before(stretches: Sequence[Stretch], end: int | None) -> Sequence[Stretch]:
    """All of it, or what is before an offset."""
    if end is None:
        return stretches
    return [each._replace(next_offset=min(each.next_offset, end)) for each in stretches if each.base_offset < end]
