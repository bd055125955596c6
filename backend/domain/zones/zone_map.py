"""Which zone a client is in, and which proxy of a zone stands for which broker.

Source: the zone router's document, "Main & Proxy". A **main** is a broker; in every zone exactly one **proxy**
sends and receives for it. All nodes work the map out by themselves from the same names, so it needs no agreement:
each main ranks the proxies of a zone by a hash of both names (rendezvous hashing, Thaler and Ravishankar, 1998),
and proxies with a bound on their load take those that rank them highest (deferred acceptance, Gale and Shapley,
1962).
Loads are within one of each other; when a proxy comes or goes, few mains move that do not have to.
"""

from __future__ import annotations

import hashlib
import heapq
import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_ZONE_KEY = b"zone="


@dataclass(frozen=True)
class Zones:
    """The zones that there are, and the networks whose clients are in them."""

    networks: Mapping[str, Collection[Network]] = field(default_factory=dict)
    """By zone; a zone may have none."""

    def of_client(self, client_id: bytes | None, host: str) -> str | None:
        """The client's zone: by `zone=<zone>` in its client.id, else by its address; None if neither tells.

        Tools add to a client.id what they like, before and behind: the name of a known zone is looked for, at the
        place where it says `zone=` first, and it ends where the name does, or at what no name of a zone has.
        """
        if client_id and (found := self._named.search(client_id)):
            return found["zone"].decode()
        return self._by_address(host)

    @cached_property
    def _named(self) -> re.Pattern[bytes]:
        # The longest first: az1 begins az10.
        names = sorted((re.escape(zone.encode()) for zone in self.networks), key=len, reverse=True)
        known = b"|".join(names) or b"(?!)"
        # A name goes on with letters and digits: zone=az12 is not az1, where only az1 is known; zone=az1-0 is.
        return re.compile(b"(?<![A-Za-z0-9])" + _ZONE_KEY + b"(?P<zone>" + known + b")(?![A-Za-z0-9])")

    def _by_address(self, host: str) -> str | None:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return None
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        fitting = [
            (network.prefixlen, zone)
            for zone, networks in self.networks.items()
            for network in networks
            if network.version == address.version and address in network
        ]
        return max(fitting)[1] if fitting else None


def proxies_of_mains(mains: Iterable[str], proxies: Iterable[str]) -> dict[str, str]:
    """For each main the proxy of one zone that stands for it; empty without proxies.

    Names of either have to differ among themselves. Every proxy has as many mains as another, or one more.
    """
    mains, proxies = sorted(set(mains)), sorted(set(proxies))
    if not proxies:
        return {}
    everywhere = len(mains) // len(proxies)
    taken = _matched(mains, proxies, everywhere)
    left = [main for main in mains if main not in taken]
    return taken | _matched(left, proxies, 1)


def _matched(mains: list[str], proxies: list[str], most: int) -> dict[str, str]:
    """Mains offer themselves to proxies, each by its own ranks; a full proxy keeps those that rank it highest.

    What comes of it does not depend on the order of the offers.
    """
    if most == 0:
        return {}
    ranked = {main: sorted(proxies, key=lambda proxy: _weight(main, proxy)) for main in mains}
    kept: dict[str, list[tuple[int, str]]] = {proxy: [] for proxy in proxies}
    for offering in mains:
        main: str | None = offering
        while main is not None and ranked[main]:
            proxy = ranked[main].pop()
            offer = (_weight(main, proxy), main)
            if len(kept[proxy]) < most:
                heapq.heappush(kept[proxy], offer)
                main = None
            else:
                _, main = heapq.heappushpop(kept[proxy], offer)
    return {main: proxy for proxy, offers in kept.items() for _, main in offers}


def _weight(main: str, proxy: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{len(main)}:{main}{proxy}".encode()).digest()[:8])
