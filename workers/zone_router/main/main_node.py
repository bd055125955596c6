"""`zr-main`: a broker's own node. Proxies tell it where requests stand; it reads them from object storage, gives
them to its broker as they are, each stream in its order, and sends the broker's answers back.

Source: the zone router's document, "Write": node N1.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from backend.kafka.wire.endpoints import Address
from workers.zone_router.formats.bulk import ChannelOffset, Main
from workers.zone_router.main.appended import Handed
from workers.zone_router.main.carrying import Proxy
from workers.zone_router.main.confirming import Confirming
from workers.zone_router.object_storage import ObjectStorage


class MainNode:
    """Listens for proxies."""

    def __init__(
        self,
        main: Main,
        broker: Callable[[], Address | None],
        storage: ObjectStorage,
        confirming: Confirming | None = None,
        *,
        waits_for_wal: bool = False,
    ) -> None:
        """`broker`: where it is now, if that is known. With `waits_for_wal`, what is appended is acknowledged when
        the confirm WAL has it.
        """
        self.main, self.broker, self.storage = main, broker, storage
        self.confirming, self._waits_for_wal = confirming, waits_for_wal
        self.epochs: Counter[int] = Counter()
        """Of Routes that were told and are not done."""
        self.fenced, self.knows_fence = 0, True
        """Epochs up to this one are refused; while it is not known, all: what they tell of may be gone."""
        self._proxies: set[Proxy] = set()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> None:
        """Raises OSError if another program has the port."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Proxy(self, self._proxies), host, port
        )

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for proxy in list(self._proxies):
            proxy.close()

    def oldest_epoch(self) -> int | None:
        """Of Routes that are not done."""
        return min((epoch for epoch, count in self.epochs.items() if count > 0), default=None)

    def open_streams(self) -> int:
        return sum(len(each.streams) for each in self._proxies)

    def handed(self, at: ChannelOffset, message: memoryview) -> Handed | None:
        """A request is on its way to the broker."""
        if self.confirming is None:
            return None
        handed = self.confirming.appended.give(at, message, asyncio.get_running_loop().time())
        if not all(self.confirming.knows(each.name) for each in handed.given):
            self.confirming.look()
        return handed

    def answered(self, handed: Handed | None, answer: memoryview, then: Callable[[], None]) -> None:
        """The broker has answered it; `then` is called when the client may be."""
        if self.confirming is None or handed is None:
            then()
            return
        self.confirming.answered(handed, answer)
        if self._waits_for_wal:
            self.confirming.when_all_are_stored(handed, then)
        else:
            then()
