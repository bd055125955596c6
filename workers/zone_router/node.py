"""A node of the zone router, built from its file: a proxy, a main, or both in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from backend.kafka.wire.endpoints import Address
from workers.zone_router.control import Control, Epochs
from workers.zone_router.directory import Directory
from workers.zone_router.main.confirmer import Confirmer, ConfirmLimits
from workers.zone_router.main.main_node import MainNode
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.channel import Limits
from workers.zone_router.proxy.gateway import Gateway
from workers.zone_router.proxy.object_cache import ObjectCache
from workers.zone_router.proxy.relay import FETCH_BYTES
from workers.zone_router.proxy.routes import Routes
from workers.zone_router.proxy.zone_readers import ZoneReaders
from workers.zone_router.router_file import Channel, MainSection, RouterFile
from workers.zone_router.traffic import NodeCollector, Traffic

_DRAIN_SECONDS = 2.0
_METADATA_SECONDS = 3.0
_FIRST_ANSWER_SECONDS = 3.0
"""Seconds that a main waits for the fence before it listens; Routes refused until then would be rewritten in vain.
"""


class RouterNode:
    """Components of one process."""

    def __init__(self, file: RouterFile, name: str, traffic: Traffic) -> None:
        """Build the components. Raises RouterFileInvalid, StorageFailed."""
        self._file, self._name, self._described, self._traffic = file, name, file.node(name), traffic
        main = self._described.main
        clusters = {*self._described.listeners, *([main.cluster] if main else [])}
        self._directories = {cluster: Directory(file, cluster) for cluster in clusters}
        self._storage = ObjectStorage(file.channel.url, file.channel.options) if file.channel else None
        self._stored = self._make_object_cache()
        self._routes = self._make_routes(file.channel)
        self._zone_readers = self._make_zone_readers()
        self._confirmer = self._make_confirmer()
        self._gateway = Gateway(
            self._described,
            file.zone_rule(),
            self._directories,
            traffic,
            dict.fromkeys(self._open_clusters(), self._routes) if self._routes else {},
            dict.fromkeys(self._open_clusters(), self._zone_readers) if self._zone_readers else {},
        )
        self._main = self._make_main()
        self._control = self._make_control()
        confirmer, stored = self._confirmer, self._stored
        traffic.registry.register(
            NodeCollector(
                lambda: confirmer.batches() if confirmer else {},
                lambda: confirmer.written() if confirmer else {},
                lambda: stored.cached() if stored else {},
            )
        )

    async def run(self, ended: asyncio.Event, ready: asyncio.Event) -> None:
        """Serve until `ended` is set.

        Raises ChannelFenced, WalFenced, StorageFailed, and OSError for a port that is in use.
        """
        tasks = [asyncio.create_task(directory.poll()) for directory in self._directories.values()]
        waiting = asyncio.create_task(ended.wait())
        try:
            if self._control:
                tasks.append(asyncio.create_task(self._control.run()))
            if self._main and self._described.main:
                if self._control:
                    await self._control.first_answer(_FIRST_ANSWER_SECONDS)
                await self._main.open(self._described.bound_to, self._described.main.port)
            await self._wait_for_metadata()
            await self._gateway.open()
            if self._routes:
                # Last: it fences an older process of this node, which a process without its ports must not do.
                tasks.append(asyncio.create_task(self._routes.run()))
            if self._confirmer:
                tasks.append(asyncio.create_task(self._confirmer.run()))
            ready.set()
            done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
            await self._close()
            for task in done - {waiting}:
                task.result()  # a background task only ends by raising
        finally:
            for each in (waiting, *tasks):
                each.cancel()
            await asyncio.gather(waiting, *tasks, return_exceptions=True)

    async def _wait_for_metadata(self) -> None:
        """Wait for brokers' zones. Earlier clients would be sent to leaders in other zones."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_METADATA_SECONDS):
                await asyncio.gather(*(each.has_metadata.wait() for each in self._directories.values()))

    async def _close(self) -> None:
        await self._gateway.close()
        if self._zone_readers:
            await self._zone_readers.close()
        if self._routes:
            await self._routes.close(_DRAIN_SECONDS)
        if self._main:
            await self._main.close()

    def _open_clusters(self) -> list[str]:
        """Return the clusters without authentication, for which mains can act on behalf of clients."""
        return [
            name
            for name in self._described.listeners
            if self._file.clusters[name].properties.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"
        ]

    def _make_routes(self, channel: Channel | None) -> Routes | None:
        described = self._described
        if channel is None or self._storage is None or described.id is None or not described.listeners:
            return None
        limits = Limits(
            window_seconds=channel.window_ms / 1_000,
            bulk_bytes=channel.bulk_bytes,
            held_bytes=channel.held_bytes,
        )
        return Routes(
            described.id,
            self._storage,
            self._file.mains(),
            limits,
            self._traffic,
            bypasses_home_zone=channel.same_zone == "direct",
            kept=self._stored.keep if self._stored else None,
        )

    def _make_object_cache(self) -> ObjectCache | None:
        reads = self._file.reads
        if reads is None or self._storage is None:
            return None
        return ObjectCache(self._storage, reads.cache_bytes, reads.block_cache_bytes)

    def _make_zone_readers(self) -> ZoneReaders | None:
        described = self._described
        if self._stored is None or self._storage is None or described.id is None or not described.listeners:
            return None
        return ZoneReaders(
            described.id, self._storage, self._stored, self._file.mains(), self._traffic, FETCH_BYTES
        )

    def _make_confirmer(self) -> Confirmer | None:
        main, reads = self._described.main, self._file.reads
        if main is None or reads is None or self._storage is None:
            return None
        limits = ConfirmLimits(
            wal_window_seconds=reads.wal_window_ms / 1_000,
            block_bytes=reads.block_bytes,
            commit_seconds=reads.commit_ms / 1_000,
            keep_seconds=reads.keep_minutes * 60,
            all_history=reads.history == "all",
        )
        return Confirmer(
            (main.cluster, main.broker), self._address_of(main), self._storage, limits, self._oldest_route_epoch
        )

    def _oldest_route_epoch(self) -> int | None:
        return self._main.oldest_epoch() if self._main else None

    def _address_of(self, main: MainSection) -> Callable[[], Address | None]:
        directory, broker = self._directories[main.cluster], main.broker

        def address() -> Address | None:
            known = directory.brokers.get(broker)
            return known.address if known else None

        return address

    def _make_main(self) -> MainNode | None:
        main = self._described.main
        if main is None or self._storage is None:
            return None
        reads = self._file.reads
        return MainNode(
            (main.cluster, main.broker),
            self._address_of(main),
            self._storage,
            self._confirmer,
            waits_for_wal=reads is not None and reads.acks == "confirmwal",
        )

    def _make_control(self) -> Control | None:
        control = self._file.control
        if control is None:
            return None
        if self._main:
            self._main.knows_fence = False
        return Control(control.url, control.token, self._report, self._apply_epochs)

    def _report(self) -> dict[str, Any]:
        """Return the report to the control plane; `backend.api.zones.route_epochs` documents its fields."""
        main = self._described.main if self._main else None
        serves = {"proxy": self._described.listeners, "main": main}
        standing = {cluster: each.brokers_served(self._name) for cluster, each in self._directories.items()}
        return {
            "node": self._name,
            "zone": self._described.zone,
            "serves": [name for name, is_one in serves.items() if is_one],
            "cluster": main.cluster if main else None,
            "broker": main.broker if main else None,
            "reported_epoch": self._reported_epoch(),
            "open_streams": self._main.open_streams() if self._main else 0,
            "stands_for": {cluster: brokers for cluster, brokers in standing.items() if brokers},
            "bootstrap_servers": self._described.bootstrap_servers(),
            "traffic": [
                {"plane": plane, "from_zone": from_zone, "to_zone": to_zone, "bytes": size}
                for plane, from_zone, to_zone, size in self._traffic.hops()
            ],
            "cold_reads": dict(zip(("reads", "bytes"), self._traffic.cold_reads(), strict=True)),
            "cache": {
                "bytes": self._stored.tail.bytes + self._stored.blocks.bytes if self._stored else 0,
                "most_bytes": reads.cache_bytes + reads.block_cache_bytes if (reads := self._file.reads) else 0,
            },
        }

    def _reported_epoch(self) -> int | None:
        """Return the epoch up to which this main no longer needs the channel; None if it cannot tell."""
        if self._main is None or self._confirmer:
            return self._confirmer.reported_epoch if self._confirmer else None
        # Without reads, answered data is not needed any more, so blocks are not required.
        oldest = self._main.oldest_epoch()
        return self._main.fenced if oldest is None else max(0, min(self._main.fenced, oldest - 1))

    def _apply_epochs(self, epochs: Epochs) -> None:
        """Apply epochs from the control plane.

        They never fall, even if the control plane was restored from a backup.
        """
        if self._routes:
            self._routes.now(epochs.current, epochs.committed)
        if self._main:
            self._main.fenced, self._main.knows_fence = max(self._main.fenced, epochs.fenced), True
        if self._confirmer:
            self._confirmer.fence(epochs.fenced)
        for directory in self._directories.values():
            directory.exclude(epochs.dead - {self._name})
