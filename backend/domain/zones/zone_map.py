"""Zones of clients, and the assignment of brokers to the proxies of each zone.

Source: the zone router's document, "Main & Proxy". A **main** is a broker; in every zone exactly one **proxy**
sends and receives for it. All nodes compute the assignment from the same names, so they need no agreement: each
main ranks the proxies of a zone by a hash of both names (rendezvous hashing, Thaler and Ravishankar, 1998), and
proxies with a bounded load accept the mains that rank them highest (deferred acceptance, Gale and Shapley, 1962).
Loads differ by at most one. When a proxy joins or leaves, few mains move beyond those that must.
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
    """The configured zones and the networks of their clients."""

    networks: Mapping[str, Collection[Network]] = field(default_factory=dict)
    """Networks by zone; a zone may have none."""

    def of_client(self, client_id: bytes | None, host: str) -> str | None:
        """Return the client's zone by `zone=<zone>` in its client.id, else by its address; None if neither tells.

        Tools add prefixes and suffixes to a client.id. So the first `zone=` that is followed by a known zone's
        name counts, and the name must end there or at a character that is no letter or digit.
        """
        if client_id and (found := self._named.search(client_id)):
            return found["zone"].decode()
        return self._by_address(host)

    @cached_property
    def _named(self) -> re.Pattern[bytes]:
        # Longest name first, as az1 is a prefix of az10.
        names = sorted((re.escape(zone.encode()) for zone in self.networks), key=len, reverse=True)
        known = b"|".join(names) or b"(?!)"
        # A name continues with letters and digits: zone=az12 is not az1, where only az1 is known; zone=az1-0 is.
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


def assign_mains(mains: Iterable[str], proxies: Iterable[str]) -> dict[str, str]:
    """Return the proxy of one zone that serves each main; empty without proxies.

    Names must be unique within each of the two lists. Loads of two proxies differ by at most one.
    """
    mains, proxies = sorted(set(mains)), sorted(set(proxies))
    if not proxies:
        return {}
    base_load = len(mains) // len(proxies)
    assigned = _matched(mains, proxies, base_load)
    remaining = [main for main in mains if main not in assigned]
    return assigned | _matched(remaining, proxies, 1)


def _matched(mains: list[str], proxies: list[str], most: int) -> dict[str, str]:
    """Match mains with proxies: each main applies in its own order; a full proxy keeps those that rank it highest.

    The result does not depend on the order of the applications.
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
