"""Replicas of mains in a node, created when a client first needs records of the main's broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from workers.zone_router.formats.bulk import Main
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.object_cache import ObjectCache
from workers.zone_router.proxy.replica import Replica
from workers.zone_router.proxy.zone_reader import ZoneReader
from workers.zone_router.router_file import MainAt
from workers.zone_router.traffic import Traffic


class ZoneReaders:
    """Readers and replicas by main; used by one event loop."""

    def __init__(
        self,
        node: int,
        storage: ObjectStorage,
        stored: ObjectCache,
        mains: Mapping[Main, MainAt],
        traffic: Traffic,
        most_bytes: int,
    ) -> None:
        """Set up; a response has at most `most_bytes`, except for a single larger batch."""
        self._node, self._storage, self._stored = node, storage, stored
        self._mains, self._traffic, self._most_bytes = mains, traffic, most_bytes
        self._zone_readers: dict[Main, ZoneReader] = {}
        self._replicas: dict[Main, Replica] = {}
        self._running: set[asyncio.Task[None]] = set()

    def of(self, main: Main) -> ZoneReader | None:
        """Return the reader for a broker; None if the file has no main for it."""
        if main not in self._mains:
            return None
        if main not in self._zone_readers:
            replica = self._replica(main)
            self._zone_readers[main] = ZoneReader(
                replica, lambda: self._others(main), self._stored, self._most_bytes
            )
        return self._zone_readers[main]

    def _others(self, main: Main) -> list[Replica]:
        return [self._replica(each) for each in self._mains if each[0] == main[0] and each != main]

    def _replica(self, main: Main) -> Replica:
        found = self._replicas.get(main)
        if found is None:
            found = self._replicas[main] = Replica(
                self._node, main, self._mains[main], self._storage, self._stored, self._traffic
            )
            self._running.add(asyncio.get_running_loop().create_task(found.run()))
        return found

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
