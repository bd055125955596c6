"""Listeners of a node: for every cluster a bootstrap port, and a port for each broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from backend.domain.zones.zone_map import Zones
from workers.zone_router.directory import Directory
from workers.zone_router.proxy.inflight_budget import MOST_INFLIGHT_BYTES, InflightBudget
from workers.zone_router.proxy.listener_place import ListenerPlace
from workers.zone_router.proxy.relay import Client
from workers.zone_router.proxy.routes import Routes
from workers.zone_router.proxy.zone_readers import ZoneReaders
from workers.zone_router.router_file import Node
from workers.zone_router.traffic import Traffic

_STUCK_SECONDS = 60.0
_LEAST_BYTES_PER_SECOND = 100_000
"""Slowest accepted rate: a request may take a minute, and a second more for each 100 kB."""
_IDLE_SECONDS = 600.0
"""Seconds after which a connection without any request is closed, as with Kafka's connections.max.idle.ms."""
_SWEEP_SECONDS = 5.0
_DRAIN_SECONDS = 3.0

_LOG = structlog.get_logger(__name__)


class Gateway:
    """Server for clients."""

    def __init__(
        self,
        node: Node,
        zones: Zones,
        directories: Mapping[str, Directory],
        traffic: Traffic,
        routes: Mapping[str, Routes],
        readings: Mapping[str, ZoneReaders],
        most_inflight_bytes: int = MOST_INFLIGHT_BYTES,
    ) -> None:
        """Set up the server.

        `directories` has all clusters with listeners; `routes` those whose produced data goes through mains;
        `readings` those that are read in the zone. `most_inflight_bytes` bounds the incomplete requests of all
        clients.
        """
        self._node, self._traffic, self._zones = node, traffic, zones
        self._directories, self._routes, self._zone_readers = directories, routes, readings
        self._clients: set[Client] = set()
        self._inflight = InflightBudget(most_inflight_bytes)
        self._servers: list[asyncio.Server] = []
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start to listen. Raises OSError if a port is in use."""
        self._sweeping = asyncio.create_task(self._sweep())
        for cluster, listeners in self._node.listeners.items():
            await self._listen(cluster, None, listeners.bootstrap)
            for broker, port in listeners.brokers.items():
                await self._listen(cluster, broker, port)
        _LOG.info("zone_router.listens", zone=self._node.zone, listeners=len(self._servers))

    async def close(self) -> None:
        """Stop accepting clients, wait some seconds for outstanding responses, and close all connections."""
        for server in self._servers:
            server.close()
        for client in self._clients:
            client.drain()
        deadline = asyncio.get_running_loop().time() + _DRAIN_SECONDS
        while any(client.awaits for client in self._clients) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for client in list(self._clients):
            client.close()
        if self._sweeping:
            self._sweeping.cancel()

    async def _listen(self, cluster: str, broker: int | None, port: int) -> None:
        place = ListenerPlace(
            cluster,
            broker,
            self._directories[cluster],
            self._zones,
            self._traffic,
            self._routes.get(cluster),
            self._zone_readers.get(cluster),
        )
        made: Callable[[], Client] = lambda: Client(place, self._clients, self._inflight)  # noqa: E731
        self._servers.append(await asyncio.get_running_loop().create_server(made, self._node.bound_to, port))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = asyncio.get_running_loop().time()
            for client in list(self._clients):
                held, begun_at = client.frames.held_bytes, client.frames.begun_at
                if begun_at is not None and client.is_read_from:
                    if now - begun_at > _STUCK_SECONDS + held / _LEAST_BYTES_PER_SECOND:
                        client.end("stuck", "the rest of a request did not arrive in time")
                elif not client.has_sent_request and now - client.connected_at > _IDLE_SECONDS:
                    client.end("idle", f"no request within {_IDLE_SECONDS:.0f} s")
