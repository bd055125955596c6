"""`zr-main`: the node beside a broker; it forwards stored requests to the broker and returns the responses.

Proxies announce the positions of requests. The main reads them from object storage and gives them to its broker
unchanged, each stream in its order. Source: the zone router's document, "Write": node N1.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from backend.kafka.wire.endpoints import Address
from workers.zone_router.formats.bulk import ChannelOffset, Main
from workers.zone_router.main.confirmer import Confirmer
from workers.zone_router.main.forwarded_batches import ForwardedRequest
from workers.zone_router.main.proxy_connection import ProxyConnection
from workers.zone_router.object_storage import ObjectStorage


class MainNode:
    """Server for proxies."""

    def __init__(
        self,
        main: Main,
        broker: Callable[[], Address | None],
        storage: ObjectStorage,
        confirmer: Confirmer | None = None,
        *,
        waits_for_wal: bool = False,
    ) -> None:
        """Set up the server.

        `broker` returns the broker's current address, if known. With `waits_for_wal`, produced data is
        acknowledged only when the confirm WAL has it.
        """
        self.main, self.broker, self.storage = main, broker, storage
        self.confirmer, self._waits_for_wal = confirmer, waits_for_wal
        self.epochs: Counter[int] = Counter()
        """Number of unfinished Routes by epoch."""
        self.fenced, self.knows_fence = 0, True
        """Epoch up to which Routes are refused. While the fence is unknown, all are refused, as their data may be
        deleted."""
        self._proxies: set[ProxyConnection] = set()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> None:
        """Start to listen. Raises OSError if the port is in use."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: ProxyConnection(self, self._proxies), host, port
        )

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for proxy in list(self._proxies):
            proxy.close()

    def oldest_epoch(self) -> int | None:
        """Return the epoch of the oldest unfinished Route."""
        return min((epoch for epoch, count in self.epochs.items() if count > 0), default=None)

    def open_streams(self) -> int:
        return sum(len(each.streams) for each in self._proxies)

    def forwarded(self, at: ChannelOffset, message: memoryview) -> ForwardedRequest | None:
        """Register a request that is about to be forwarded to the broker."""
        if self.confirmer is None:
            return None
        forwarded = self.confirmer.forwarded_batches.register(at, message, asyncio.get_running_loop().time())
        if not all(self.confirmer.knows(each.name) for each in forwarded.batches):
            self.confirmer.poll()
        return forwarded

    def answered(self, forwarded: ForwardedRequest | None, answer: memoryview, then: Callable[[], None]) -> None:
        """Apply the broker's response; call `then` when the client may get it."""
        if self.confirmer is None or forwarded is None:
            then()
            return
        self.confirmer.answered(forwarded, answer)
        if self._waits_for_wal:
            self.confirmer.when_all_are_stored(forwarded, then)
        else:
            then()
