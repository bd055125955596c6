"""Addresses of brokers, and the address that clients of each zone get for each broker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import structlog

from backend.domain.zones.zone_map import assign_mains
from backend.kafka.base.brokers import BrokerSeen, brokers_of
from backend.kafka.wire.endpoints import Address
from workers.zone_router.router_file import RouterFile

_POLL_SECONDS = 10.0
_RETRY_SECONDS = 1.0
"""Seconds until the next attempt after a failed one."""
_TIMEOUT_SECONDS = 3.0

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Broker:
    """A broker of the cluster's metadata."""

    address: Address
    zone: str | None
    """The broker's rack; None if it has none, or if it is not known yet."""


class Directory:
    """A node's view of one cluster, from the cluster's metadata and from responses that pass through."""

    def __init__(self, file: RouterFile, cluster: str) -> None:
        self._cluster, self._described = cluster, file.clusters[cluster]
        self._nodes = {name: node for name, node in file.nodes.items() if cluster in node.listeners}
        self._zones = list(file.zones)
        self._brokers: dict[int, Broker] = {}
        self._advertised: dict[str, dict[int, Address]] = {}
        self._assigned: dict[str, dict[int, str]] = {}
        self._unreachable: frozenset[str] = frozenset()
        self.has_metadata = asyncio.Event()
        """Set once the cluster's metadata was read for the first time."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        return self._brokers

    def advertised(self, zone: str, broker: int) -> Address | None:
        """Return the address of a broker for clients of the zone; None if no node of the zone listens for it."""
        if zone not in self._advertised:
            self._advertised[zone] = self._map(zone)
        return self._advertised[zone].get(broker)

    def brokers_served(self, node: str) -> list[int]:
        """Return the brokers that a node serves in its zone."""
        described = self._nodes.get(node)
        if described is None:
            return []
        return sorted(broker for broker, name in self._proxies(described.zone).items() if name == node)

    def exclude(self, nodes: Collection[str]) -> None:
        """Exclude exactly these nodes from the addresses given to clients.

        A zone without other nodes falls back to the brokers' own addresses: availability comes before cost.
        """
        if (known := frozenset(nodes) & self._nodes.keys()) != self._unreachable:
            self._unreachable = known
            self._advertised, self._assigned = {}, {}

    def learn(self, seen: Mapping[int, Address]) -> None:
        """Learn brokers from a response; new brokers and changed addresses are stored."""
        brokers = dict(self._brokers)
        for broker, address in seen.items():
            known = brokers.get(broker)
            if broker >= 0 and (known is None or known.address != address):
                brokers[broker] = Broker(address, known.zone if known else None)
        self._set(brokers)

    def zone_at(self, address: Address) -> str | None:
        """Return the zone of the broker with this address, if known."""
        return next((each.zone for each in self._brokers.values() if each.address == address), None)

    def addresses(self, broker: int | None, zone: str) -> list[Address]:
        """Return the addresses to try for a broker, or for bootstrap (None), own zone first."""
        if broker is not None:
            return [self._brokers[broker].address] if broker in self._brokers else []
        if not self._brokers:
            return self._described.addresses()
        shuffled = random.sample(list(self._brokers.values()), len(self._brokers))
        return [each.address for each in sorted(shuffled, key=lambda each: each.zone != zone)]

    async def poll(self) -> None:
        """Poll the cluster's metadata until cancelled."""
        failed = False
        while True:
            try:
                seen = await asyncio.to_thread(self._read_brokers)
            except Exception as error:  # noqa: BLE001 - retried, also for a secret that does not exist yet
                if not failed:
                    _LOG.warning("zone_router.cluster_silent", cluster=self._cluster, why=str(error))
                failed = True
            else:
                failed = False
                self._set({each.id: Broker(Address(each.host, each.port), each.rack) for each in seen})
                self.has_metadata.set()
            await asyncio.sleep(_RETRY_SECONDS if failed else _POLL_SECONDS)

    def _read_brokers(self) -> list[BrokerSeen]:
        return brokers_of(self._described.bootstrap_servers, self._described.properties, _TIMEOUT_SECONDS)

    def _set(self, brokers: dict[int, Broker]) -> None:
        if brokers != self._brokers:
            self._brokers, self._advertised, self._assigned = brokers, {}, {}

    def _proxies(self, zone: str) -> dict[int, str]:
        """Return the node of the zone that serves each broker."""
        if zone not in self._assigned:
            nodes = [
                name for name, node in self._nodes.items() if node.zone == zone and name not in self._unreachable
            ]
            named = assign_mains(map(str, self._brokers), nodes)
            self._assigned[zone] = {
                int(main): name for main, name in named.items() if self._port(name, int(main)) is not None
            }
        return self._assigned[zone]

    def _port(self, node: str, broker: int) -> int | None:
        return self._nodes[node].listeners[self._cluster].brokers.get(broker)

    def _map(self, zone: str) -> dict[int, Address]:
        return {
            broker: Address(self._nodes[name].host, port)
            for broker, name in self._proxies(zone).items()
            if (port := self._port(name, broker)) is not None
        }
