"""Where brokers are, and which address a client of a zone is told for each of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import structlog

from backend.domain.zones.zone_map import proxies_of_mains
from backend.kafka.base.brokers import BrokerSeen, brokers_of
from backend.kafka.wire.endpoints import Address
from workers.zone_router.document import RouterFile

_LOOK_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 1.0
"""After a cluster that did not answer."""
_ASK_SECONDS = 3.0

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Broker:
    """A broker as the cluster tells of it."""

    address: Address
    zone: str | None
    """Its rack; None if it has none, or it was not told yet."""


class Directory:
    """One node's knowledge of one cluster: read from the cluster, and from the answers that pass through."""

    def __init__(self, file: RouterFile, cluster: str) -> None:
        self._cluster, self._described = cluster, file.clusters[cluster]
        self._nodes = {name: node for name, node in file.nodes.items() if cluster in node.listeners}
        self._zones = list(file.zones)
        self._brokers: dict[int, Broker] = {}
        self._told: dict[str, dict[int, Address]] = {}
        self._standing: dict[str, dict[int, str]] = {}
        self._dead: frozenset[str] = frozenset()
        self.has_looked = asyncio.Event()
        """Whether the cluster has told who its brokers are, ever."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        return self._brokers

    def told(self, zone: str, broker: int) -> Address | None:
        """Where clients of the zone reach a broker; None if no node of the zone listens for it."""
        if zone not in self._told:
            self._told[zone] = self._map(zone)
        return self._told[zone].get(broker)

    def stood_for(self, node: str) -> list[int]:
        """Brokers that a node stands for in its zone."""
        described = self._nodes.get(node)
        if described is None:
            return []
        return sorted(broker for broker, name in self._proxies(described.zone).items() if name == node)

    def leave_out(self, dead: Collection[str]) -> None:
        """Nodes that nobody is told of from now on, and no others; where a zone has no other one, its clients are
        told brokers' own addresses: that they work comes before what it costs."""
        if (known := frozenset(dead) & self._nodes.keys()) != self._dead:
            self._dead = known
            self._told, self._standing = {}, {}

    def learn(self, seen: Mapping[int, Address]) -> None:
        """An answer has told of brokers; those that are new, or are somewhere else now, are known from here on."""
        brokers = dict(self._brokers)
        for broker, address in seen.items():
            known = brokers.get(broker)
            if broker >= 0 and (known is None or known.address != address):
                brokers[broker] = Broker(address, known.zone if known else None)
        self._set(brokers)

    def zone_at(self, address: Address) -> str | None:
        """Of the broker that has this address, if it is known."""
        return next((each.zone for each in self._brokers.values() if each.address == address), None)

    def ways(self, broker: int | None, zone: str) -> list[Address]:
        """Addresses to try for a broker, or to begin with: those in the node's own zone first."""
        if broker is not None:
            return [self._brokers[broker].address] if broker in self._brokers else []
        if not self._brokers:
            return self._described.addresses()
        shuffled = random.sample(list(self._brokers.values()), len(self._brokers))
        return [each.address for each in sorted(shuffled, key=lambda each: each.zone != zone)]

    async def keep(self) -> None:
        """Ask the cluster again and again who its brokers are; until it is cancelled."""
        failed = False
        while True:
            try:
                seen = await asyncio.to_thread(self._ask)
            except Exception as error:  # noqa: BLE001 - a secret that is not there yet, too: it is asked again
                if not failed:
                    _LOG.warning("zone_router.cluster_silent", cluster=self._cluster, why=str(error))
                failed = True
            else:
                failed = False
                self._set({each.id: Broker(Address(each.host, each.port), each.rack) for each in seen})
                self.has_looked.set()
            await asyncio.sleep(_LOOK_AGAIN_SECONDS if failed else _LOOK_SECONDS)

    def _ask(self) -> list[BrokerSeen]:
        return brokers_of(self._described.bootstrap_servers, self._described.properties, _ASK_SECONDS)

    def _set(self, brokers: dict[int, Broker]) -> None:
        if brokers != self._brokers:
            self._brokers, self._told, self._standing = brokers, {}, {}

    def _proxies(self, zone: str) -> dict[int, str]:
        """Which node of the zone stands for each broker."""
        if zone not in self._standing:
            nodes = [name for name, node in self._nodes.items() if node.zone == zone and name not in self._dead]
            named = proxies_of_mains(map(str, self._brokers), nodes)
            self._standing[zone] = {
                int(main): name for main, name in named.items() if self._port(name, int(main)) is not None
            }
        return self._standing[zone]

    def _port(self, node: str, broker: int) -> int | None:
        return self._nodes[node].listeners[self._cluster].brokers.get(broker)

    def _map(self, zone: str) -> dict[int, Address]:
        return {
            broker: Address(self._nodes[name].host, port)
            for broker, name in self._proxies(zone).items()
            if (port := self._port(name, broker)) is not None
        }
