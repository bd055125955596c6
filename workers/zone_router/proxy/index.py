"""Index of the storage locations of a partition's batches, built from a main's WAL and blocks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from workers.zone_router.formats.block import Followed
from workers.zone_router.formats.wal import UNKNOWN_BEGINNING, Aborted, Begins, Begun

_MOST_PLACES = 50_000
"""Most locations per partition; the oldest are dropped and then read from the leader."""


class Stretch(NamedTuple):
    """Adjacent batches in an object: one as its producer sent it, or several as in the log."""

    base_offset: int
    """First offset; up to `next_offset` the log has nothing else."""
    next_offset: int
    name: str
    start: int
    size: int
    leader_epoch: int
    """Leader epoch to set in a batch as sent by its producer; -1 for batches as in the log."""
    placed_at: int
    """Base offset to set in such a batch."""
    is_of_block: bool


class _Cut(NamedTuple):
    """Offset at which following restarted, and the WAL object that says so."""

    sequence: int
    offset: int


@dataclass
class Index:
    """Index of one partition by one main: the part of the log that its broker had when it last led."""

    stretches: list[Stretch] = field(default_factory=list)
    """Stretches in order of offsets, without overlaps; there may be gaps."""
    _nexts: list[int] = field(default_factory=list)
    _aborted: dict[tuple[int, int], Aborted] = field(default_factory=dict)
    """Aborted transactions by producer and first offset, in the order in which they ended."""
    _cuts: list[_Cut] = field(default_factory=list)
    """Cuts that blocks do not reflect yet; a later one in the WAL has a higher offset."""
    last_epoch: int = -1
    """Epoch of the last known batch; -1 if unknown."""
    begins: Begins = UNKNOWN_BEGINNING
    decided: int = 0
    """Offset before which the outcome of all transactions is known."""
    wanted_at: float = float("-inf")
    """Time of a client's last request."""

    @classmethod
    def anew(cls, sequence: int) -> Index:
        """Return an empty index for a partition whose earlier records were invalidated by this WAL object.

        Older blocks are invalid for it, too.
        """
        return cls(_cuts=[_Cut(sequence, 0)])

    @property
    def end(self) -> int:
        """Return the offset after the last known batch."""
        return self.stretches[-1].next_offset if self.stretches else 0

    @property
    def is_needed(self) -> bool:
        """Return whether anything is known."""
        return bool(self.stretches or self._cuts)

    def append(self, stretch: Stretch, epoch: int) -> None:
        """Append batches; earlier known batches from their offset on are no longer in the log."""
        self.cut(stretch.base_offset)
        self.stretches.append(stretch)
        self._nexts.append(stretch.next_offset)
        self.last_epoch = epoch
        if len(self.stretches) > _MOST_PLACES:
            del self.stretches[: _MOST_PLACES // 10], self._nexts[: _MOST_PLACES // 10]

    def committed(
        self, stretches: Sequence[Stretch], aborted: Sequence[Aborted], followed: Followed | None, wal_end: int
    ) -> None:
        """Replace batches of the WAL before `wal_end` by their locations in a block.

        Parts that were truncated since, according to WAL objects already read, are ignored.
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
        """Forget cuts of WAL objects before `wal_end`, which blocks now reflect."""
        self._cuts = [each for each in self._cuts if each.sequence >= wal_end]

    def replace(self, those: Sequence[Stretch]) -> None:
        """Replace locations by those in a block."""
        first, end = those[0].base_offset, those[-1].next_offset
        behind = [each for each in self.stretches if each.next_offset > end]
        self.cut(first)
        if behind and behind[0].base_offset < end:
            behind[0] = behind[0]._replace(base_offset=end)
        for each in (*those, *behind):
            self.stretches.append(each)
            self._nexts.append(each.next_offset)

    def forget(self, name: str) -> None:
        """Forget a deleted object and everything older."""
        last = max((at for at, each in enumerate(self.stretches) if each.name == name), default=-1)
        del self.stretches[: last + 1], self._nexts[: last + 1]
        first = self.stretches[0].base_offset if self.stretches else float("inf")
        self._aborted = {key: each for key, each in self._aborted.items() if each.last_offset >= first}

    def begin(self, begun: Begun, sequence: int) -> None:
        """Truncate at a Begun record; `sequence` is the WAL object that has it.

        Batches from its offset on, and outcomes of transactions there, are no longer in the log.
        """
        offset = begun.offset
        self.was_cut(offset)
        self._cuts = [each for each in self._cuts if each.offset < offset] + [_Cut(sequence, offset)]
        self.begins = begun.begins

    def was_cut(self, offset: int) -> None:
        """Truncate at an offset, where nothing else is known."""
        if self.stretches and self.stretches[-1].next_offset > offset:
            self.decided = 0  # transactions whose markers are gone may have begun anywhere
            self.last_epoch = -1
        self.cut(offset)
        self._aborted = {key: each for key, each in self._aborted.items() if each.last_offset < offset}
        self.decided = min(self.decided, offset)

    def note(self, aborted: Aborted) -> None:
        """Add an aborted transaction; WAL and block may both report it."""
        self._aborted.setdefault((aborted.producer_id, aborted.first_offset), aborted)

    def at(self, offset: int) -> int:
        """Return the index of the stretch with an offset, or of the next one; their number if there is none."""
        return bisect_right(self._nexts, offset)

    def has(self, offset: int) -> bool:
        """Return whether the content at an offset is known, even if it is empty."""
        at = self.at(offset)
        return at < len(self.stretches) and self.stretches[at].base_offset <= offset

    def ended(self, offset: int, upper: int) -> list[tuple[int, int]]:
        """Return aborted transactions with records from `offset` to before `upper`: producer and first offset."""
        return [
            (each.producer_id, each.first_offset)
            for each in self._aborted.values()
            if each.last_offset >= offset and each.first_offset < upper
        ]

    def cut(self, offset: int) -> None:
        """Truncate at an offset."""
        while self.stretches and self.stretches[-1].next_offset > offset:
            last = self.stretches.pop()
            self._nexts.pop()
            # A single batch across the offset is removed whole, which leaves a gap.
            if last.base_offset < offset and last.is_of_block:
                self.stretches.append(last._replace(next_offset=offset))
                self._nexts.append(offset)
                break


def _before(stretches: Sequence[Stretch], end: int | None) -> Sequence[Stretch]:
    """Return the stretches before an offset, or all if None."""
    if end is None:
        return stretches
    return [each._replace(next_offset=min(each.next_offset, end)) for each in stretches if each.base_offset < end]
