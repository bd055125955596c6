"""Fetches answered in the zone equal the leader's responses: offsets, and outcomes of transactions."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.zones.test_confirmer import PARTITION, PRODUCER, aborted, followed, sent
from tests.unit.zones.test_led_before import COMMITTED, Mains
from workers.zone_router.formats.bulk import ChannelOffset
from workers.zone_router.formats.wal import Aborted, Link


def test_who_wants_what_is_committed_reads_up_to_what_is_open(tmp_path: Path):
    async def test() -> None:
        mains = Mains(tmp_path)
        await mains.led(1, 1, 0, 6, stable=4, is_leader=True)
        assert await mains.offsets(1, 0, COMMITTED) == [0, 1, 2, 3]
        assert await mains.offsets(1, 4, COMMITTED) == []
        assert await mains.offsets(1, 0) == [0, 1, 2, 3, 4, 5]

    asyncio.run(test())


def test_who_begins_in_the_midst_of_an_aborted_transaction_is_told_of_it(tmp_path: Path):
    async def test() -> None:
        mains = Mains(tmp_path)
        ended = [followed(aborted(6, epoch=1)).record, Aborted(PARTITION, PRODUCER, 1, 6)]
        behind = [followed(sent(7, epoch=1)).record]
        await mains.led(1, 1, 0, 6, more=[*ended, *behind], is_leader=True)
        for offset, told in ((3, [(PRODUCER, 1)]), (6, [(PRODUCER, 1)]), (7, [])):
            found = await mains.read(1, offset, COMMITTED)
            assert found is not None and found.aborted == told, offset

    asyncio.run(test())


def test_a_batch_as_its_producer_sent_it_is_read_as_the_leader_wrote_it(tmp_path: Path):
    """Offsets before the batch have no record any more: a fetch from them finds it, at its own offset."""

    async def test() -> None:
        mains = Mains(tmp_path)
        produced = sent(0)
        at = ChannelOffset(9, 1, 3, 7, len(produced))
        await mains.storage.put_new(at.name, b"a head." + produced)
        await mains.led(1, 4, 0, 2, more=[Link(PARTITION, 4, 0, at, 5, 5, gap=3)], is_leader=True)
        for offset in (2, 5):
            found = await mains.read(1, offset)
            assert found is not None and b"".join(found.records) == sent(5, epoch=4)

    asyncio.run(test())
