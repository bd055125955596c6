"""Start of following, by the epochs of the leader's log, including unclean elections."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from backend.kafka.wire.batches import Batch
from backend.kafka.wire.offsets import EpochEnd
from tests.unit.zones.test_confirmer import MAIN, PARTITION
from workers.zone_router.formats.block import Followed
from workers.zone_router.formats.wal import Begins, Partition
from workers.zone_router.main.follower import Follower, Led
from workers.zone_router.main.leader import Leader

NO_LEADER = cast(Leader, None)
"""No connection to a leader, as tests supply the history."""


class RecordingSink:
    """Sink that records the follower's calls."""

    def __init__(self, known: Mapping[Partition, Followed]) -> None:
        self.known = dict(known)
        self.led: Led | None = None
        self.is_gone = False

    def took(self, led: Led, found: Sequence[tuple[Batch, memoryview, int]]) -> None: ...
    def left(self, partition: Partition) -> None: ...
    async def room(self) -> None: ...

    def leads(self, led: Led) -> None:
        self.led = led

    def gone(self, partition: Partition) -> None:
        assert self.led is None, "before it is led again"
        self.is_gone = True


class WithHistory(Follower):
    """Follower of a broker whose log has these epochs, each with its first offset."""

    def __init__(self, sink: RecordingSink, epochs: Mapping[int, int], end: int, *, elsewhere: bool) -> None:
        super().__init__(MAIN, lambda: None, sink, all_history=False)
        self._epochs, self._end = epochs, end
        self._has_polled = True
        self._elsewhere = {PARTITION} if elsewhere else set()

    async def _epoch_end(self, leader: Any, partition: Any, name: str, current: int, epoch: int) -> EpochEnd:
        up_to = max((each for each in self._epochs if each <= epoch), default=-1)
        later = min((start for each, start in self._epochs.items() if each > epoch), default=self._end)
        return EpochEnd(name, partition.number, 0, up_to if up_to >= 0 else epoch, later)


def led(
    known: Followed | None, epochs: Mapping[int, int], end: int, epoch: int, *, elsewhere: bool = False
) -> tuple[Led, bool]:
    """Return the state of following in this epoch, and whether earlier records were invalidated."""
    sink = RecordingSink({} if known is None else {PARTITION: known})
    asyncio.run(WithHistory(sink, epochs, end, elsewhere=elsewhere)._lead(NO_LEADER, PARTITION, "orders", epoch))
    assert sink.led is not None
    return sink.led, sink.is_gone


BEGINS = Begins(0, 10)


@pytest.mark.parametrize(
    ("epochs", "epoch"),
    [
        ({1: 0, 2: 100}, 2),
        ({1: 0, 2: 100, 3: 150}, 3),
        ({1: 0, 4: 100}, 4),
        ({1: 0, 4: 130}, 4),
    ],
    ids=["in a row", "another one wrote", "nobody wrote", "it has more of the same epoch"],
)
def test_who_has_followed_before_goes_on_where_it_stood(epochs: dict[int, int], epoch: int) -> None:
    found, is_gone = led(Followed(1, 100, {7: 90}, BEGINS, 1), epochs, 200, epoch)
    assert (found.position, found.open, found.begins, found.last_epoch) == (
        100,
        {7: 90},
        BEGINS,
        1,
    ) and not is_gone


def test_who_led_without_a_record_goes_on_too() -> None:
    """The leader's own epoch has no record in the log."""
    found, is_gone = led(Followed(3, 100, {}, BEGINS, 1), {1: 0, 4: 100, 5: 150}, 150, 5)
    assert (found.position, found.begins) == (100, BEGINS) and not is_gone


@pytest.mark.parametrize(
    "epochs",
    [{1: 0, 2: 50, 3: 200}, {0: 0, 2: 120, 3: 200}, {2: 60, 3: 200}],
    ids=["cut within its epoch", "its epoch is not there", "all of it is gone"],
)
def test_of_a_log_that_was_cut_nothing_that_was_followed_is_of_use(epochs: dict[int, int]) -> None:
    found, is_gone = led(Followed(1, 100, {7: 90}, BEGINS, 1), epochs, 200, 3)
    assert (found.position, found.open, found.begins) == (200, {}, Begins(2, 200)) and is_gone


def test_who_followed_nothing_begins_where_its_epoch_does() -> None:
    found, is_gone = led(Followed(1, 0, {}), {2: 0, 3: 80}, 80, 3)
    assert (found.position, found.begins) == (80, Begins(2, 80)) and not is_gone


def test_what_came_from_another_broker_begins_behind_its_last_record() -> None:
    """The previous epoch need not be the one before: its leader was alone, and its records are lost."""
    found, is_gone = led(None, {3: 0, 5: 10}, 12, 5, elsewhere=True)
    assert (found.position, found.begins) == (10, Begins(3, 10)) and not is_gone
