"""A node's listeners: for every cluster one to begin with, and one for each broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from workers.zone_router.directory import Directory
from workers.zone_router.document import Node, RouterFile
from workers.zone_router.relay import Client, Place
from workers.zone_router.traffic import Traffic

_STUCK_SECONDS = 60.0
"""A request whose rest does not come for so long will not come: its sender is gone, or is no client of Kafka."""
_SWEEP_SECONDS = 5.0
_DRAIN_SECONDS = 5.0

_LOG = structlog.get_logger(__name__)


class Gateway:
    """Accepts clients until it is closed."""

    def __init__(self, file: RouterFile, node: Node, traffic: Traffic) -> None:
        self._node, self._traffic, self._zones = node, traffic, file.zone_rule()
        self._directories = {cluster: Directory(file, cluster) for cluster in node.listeners}
        self._clients: set[Client] = set()
        self._servers: list[asyncio.Server] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Begin to listen, and to look at the clusters. Raises OSError if another program has a port."""
        self._tasks = [asyncio.create_task(directory.keep()) for directory in self._directories.values()]
        self._tasks.append(asyncio.create_task(self._sweep()))
        for cluster, listeners in self._node.listeners.items():
            await self._listen(cluster, None, listeners.bootstrap)
            for broker, port in listeners.brokers.items():
                await self._listen(cluster, broker, port)
        _LOG.info("zone_router.listens", zone=self._node.zone, listeners=len(self._servers))

    async def close(self) -> None:
        """Take no more clients, let those that wait have their answers, for some seconds, and end them."""
        for server in self._servers:
            server.close()
        for client in self._clients:
            client.pause()
        deadline = asyncio.get_running_loop().time() + _DRAIN_SECONDS
        while any(client.awaits for client in self._clients) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for client in list(self._clients):
            client.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, cluster: str, broker: int | None, port: int) -> None:
        place = Place(cluster, broker, self._directories[cluster], self._zones, self._traffic)
        made: Callable[[], Client] = lambda: Client(place, self._clients)  # noqa: E731
        self._servers.append(await asyncio.get_running_loop().create_server(made, self._node.bound_to, port))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            late = asyncio.get_running_loop().time() - _STUCK_SECONDS
            for client in list(self._clients):
                since = client.is_stuck_since
                if since is not None and since < late:
                    client.end("stuck", f"the rest of a request did not come within {_STUCK_SECONDS:.0f} s")
